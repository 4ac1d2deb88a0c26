"""Session files of Gemini CLI, in both of its formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from threadkeep import Threadkeep
from threadkeep.transfer.importer import Importer

pytestmark = pytest.mark.anyio

HEADER = {"sessionId": "0b0b-1", "projectHash": "ab12", "startTime": "2026-09-01T10:00:00.000Z", "kind": "main"}
ASKED = {"id": "m1", "timestamp": "2026-09-01T10:00:01.000Z", "type": "user", "content": [{"text": "List the files."}]}
RESULT = [{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "main.py"}}}]
CALLED: dict[str, Any] = {
    "id": "m2",
    "timestamp": "2026-09-01T10:00:02.000Z",
    "type": "gemini",
    "content": "",
    "thoughts": [{"subject": "Look", "description": "first"}],
    "model": "gemini-3-pro",
}
DONE = {**CALLED, "toolCalls": [{"id": "c1", "name": "ls", "args": {"path": "."}, "result": RESULT, "status": "success"}]}
SAID = {"id": "m3", "timestamp": "2026-09-01T10:00:03.000Z", "type": "gemini", "content": "One file: main.py."}
INFO = {"id": "m4", "timestamp": "2026-09-01T10:00:04.000Z", "type": "info", "content": "Update available."}
MISTAKE = {"id": "m5", "timestamp": "2026-09-01T10:00:05.000Z", "type": "user", "content": "Delete it."}

WINDOW = [
    {"role": "user", "parts": [{"text": "List the files."}]},
    {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "ls", "args": {"path": "."}}}]},
    {"role": "user", "parts": RESULT},
    {"role": "model", "parts": [{"text": "One file: main.py."}]},
]


async def imported(tk: Threadkeep, path: Path, content: str) -> list[Any]:
    path.write_text(content, encoding="utf-8")
    report = await Importer(tk.backend).run([path])
    assert [thread.dialect for thread in report.threads] == ["gemini"]
    (row,) = await tk.threads()
    return list(await (await tk.find(row.id)).window())


async def test_a_session_of_one_object_is_a_thread(tk: Threadkeep, tmp_path: Path) -> None:
    """Words, calls and what they returned become contents; thoughts and remarks to the user stay beside them."""
    session = {**HEADER, "messages": [ASKED, DONE, SAID, INFO]}
    assert await imported(tk, tmp_path / "session-1.json", json.dumps(session, indent=2)) == WINDOW


async def test_a_session_of_lines_is_the_same_thread(tk: Threadkeep, tmp_path: Path) -> None:
    """The newest version of a message counts, and one that was taken back is gone."""
    lines = [HEADER, ASKED, CALLED, {"$set": {"lastUpdated": "x"}}, DONE, SAID, INFO, MISTAKE, {"$rewindTo": "m5"}]
    assert await imported(tk, tmp_path / "session-1.jsonl", "\n".join(map(json.dumps, lines))) == WINDOW


async def test_importing_again_adds_what_is_new(tk: Threadkeep, tmp_path: Path) -> None:
    """Not a second thread, and nothing twice."""
    path = tmp_path / "session-1.jsonl"
    await imported(tk, path, "\n".join(map(json.dumps, [HEADER, ASKED, DONE])))
    assert await imported(tk, path, "\n".join(map(json.dumps, [HEADER, ASKED, DONE, SAID]))) == WINDOW
