"""Claude Code transcripts: the tree, its branches and sidechains, and what a compaction left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.transfer.rollouts import Json, bodies, bring_in, put, window

from threadkeep import Threadkeep
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio

SESSION = "cfa1e878-62b5-4e40-b281-bbf9b250d766"
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


def row(uuid: str, parent: str | None, message: Json | None = None, **more: Any) -> Json:
    kind = {"type": message["role"], "message": message} if message else {}
    return {"parentUuid": parent, "isSidechain": False, "sessionId": SESSION, "uuid": uuid, **kind, **more}


def said(text: str) -> Json:
    return {"role": "user", "content": text}


def told(text: str) -> Json:
    return {"role": "assistant", "content": [{"type": "text", "text": text}], "model": "claude", "usage": {"input_tokens": 3}}


def use(call_id: str) -> Json:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "ls"}}]}


def result(call_id: str, *content: Json) -> Json:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": list(content)}]}


async def test_messages_are_items_and_what_rows_say_besides_is_a_note(tk: Threadkeep, tmp_path: Path) -> None:
    """Images included; a row that says nothing besides its message leaves no note."""
    messages = [said("hello"), use("toolu_1"), result("toolu_1", PIXEL), told("done")]
    rows = [
        {"type": "summary", "summary": "Another session", "leafUuid": "elsewhere"},
        row("u1", None, messages[0]),
        row("a1", "u1", messages[1]),
        row("u2", "a1", messages[2], toolUseResult={"stdout": "hi"}),
        row("a2", "u2", messages[3]),
        {"type": "custom-title", "sessionId": SESSION, "customTitle": "The work"},
    ]
    report = await bring_in(tk, put(tmp_path / "t.jsonl", *rows))
    assert report.problems == ()
    assert [(thread.id, thread.dialect, thread.items) for thread in report.threads] == [(SESSION, "messages", 4)]
    assert await window(tk, SESSION) == messages
    rest = {key: value for key, value in rows[3].items() if key != "message"}
    assert [json.loads(body) for body in await bodies(tk, SESSION, RecordKind.NOTE)] == [rows[0], rest, rows[5]]
    assert [summary.title for summary in await tk.threads()] == ["The work"]
    assert (await tk.verify()).ok


async def test_a_message_edited_later_is_a_rollback(tk: Threadkeep, tmp_path: Path) -> None:
    """A row whose parent is not the newest one leaves what came between behind, and a later one may go back there."""
    rows = [
        row("u1", None, said("one")),
        row("a1", "u1", told("first")),
        row("u2", "a1", said("two")),
        row("a2", "u2", told("second")),
        row("u3", "a1", said("two, edited")),
        row("a3", "u3", told("third")),
    ]
    path = put(tmp_path / "t.jsonl", *rows)
    await bring_in(tk, path)
    assert await window(tk, SESSION) == [said("one"), told("first"), said("two, edited"), told("third")]
    await bring_in(tk, put(path, *rows, row("u4", "a2", said("on the old branch"))))
    assert await window(tk, SESSION) == [said("one"), told("first"), said("two"), told("second"), said("on the old branch")]
    await bring_in(tk, put(path, *rows, row("u4", "a2", said("on the old branch")), row("u5", None, said("anew"))))
    assert await window(tk, SESSION) == [said("anew")]
    assert (await tk.verify()).ok


async def test_a_sidechain_is_a_thread_of_its_own(tk: Threadkeep, tmp_path: Path) -> None:
    """Within the file, or in a sub-agent's file; the session that started it is untouched."""
    rows = [
        row("u1", None, said("one")),
        row("s1", None, said("look around"), isSidechain=True),
        row("s2", "s1", told("looked"), isSidechain=True),
        row("a1", "u1", told("first")),
    ]
    report = await bring_in(tk, put(tmp_path / "t.jsonl", *rows))
    side = next(thread.id for thread in report.threads if thread.id != SESSION)
    assert side == f"{SESSION}-side-s1"
    assert await window(tk, SESSION) == [said("one"), told("first")]
    assert await window(tk, side) == [said("look around"), told("looked")]
    agent = [row("s1", None, said("search"), isSidechain=True, agentId="a0ad"), row("s2", "s1", told("found"), isSidechain=True)]
    report = await bring_in(tk, put(tmp_path / "subagents" / "agent-a0ad.jsonl", *agent))
    assert [(thread.id, thread.items) for thread in report.threads] == [("agent-a0ad", 2)]
    assert (await tk.verify()).ok


async def test_a_compact_boundary_is_a_checkpoint(tk: Threadkeep, tmp_path: Path) -> None:
    """The window is the summary, what the compaction preserved, and what came after; everything before stays readable."""
    summary = said("This session is being continued from a previous conversation. All well.")
    boundary = row("b1", None, type="system", subtype="compact_boundary", logicalParentUuid="a2")
    rows = [
        row("u1", None, said("one")),
        row("a1", "u1", told("first")),
        row("u2", "a1", said("two")),
        row("a2", "u2", told("second")),
    ]
    plain = [*rows, boundary, row("c1", "b1", summary, isCompactSummary=True), row("u3", "c1", said("three"))]
    await bring_in(tk, put(tmp_path / "t.jsonl", *plain))
    assert await window(tk, SESSION) == [summary, said("three")]
    segment = {"preservedSegment": {"headUuid": "u2", "anchorUuid": "c1", "tailUuid": "a2"}}
    kept = [{**each, "sessionId": "kept"} for each in plain]
    kept[4]["compactMetadata"] = segment
    await bring_in(tk, put(tmp_path / "kept.jsonl", *kept))
    assert await window(tk, "kept") == [summary, said("two"), told("second"), said("three")]
    bare = [{**each, "sessionId": "bare"} for each in (*rows, boundary, row("u3", "b1", said("three")))]
    await bring_in(tk, put(tmp_path / "bare.jsonl", *bare))
    assert await window(tk, "bare") == [said("three")]
    assert [summary.checkpoints for summary in await tk.threads()] == [1, 1, 1]
    assert (await tk.verify()).ok


async def test_rows_that_cannot_be_taken_are_kept_and_named(tk: Threadkeep, tmp_path: Path) -> None:
    """A repeated row, a parent that is not there, a message that is none, an answer the provider never gave."""
    error = row("e1", "u1", told("API Error"), isApiErrorMessage=True)
    rows: list[Json | str] = [
        row("u1", None, said("one")),
        error,
        row("u1", None, said("one")),
        row("a9", "gone", told("first")),
        {**row("x1", "a9", type="user"), "message": "text"},
        "}",
    ]
    report = await bring_in(tk, put(tmp_path / "t.jsonl", *rows))
    assert await window(tk, SESSION) == [said("one"), told("first")]
    assert [(problem.line, problem.text) for problem in report.problems] == [
        (3, "a second row called 'u1'"),
        (4, "it follows 'gone', which is not in this file"),
        (5, "a user row without a readable message"),
        (6, "not a JSON object"),
    ]
    assert json.dumps(error).encode() in await bodies(tk, SESSION, RecordKind.NOTE)
