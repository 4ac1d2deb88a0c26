"""Real transcripts, where there are any beside the repository: each imports, item for item, proves itself and comes back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.transfer.rollouts import Json, bring_in, window

from threadkeep import Config, Threadkeep
from threadkeep.items import decode_json
from threadkeep.store import RecordKind
from threadkeep.transfer.export import ExportFormat, export_thread

REPOSITORY = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("THREADKEEP_CORPUS") or REPOSITORY.parent / "shared" / "corpus")
CODEX = sorted((*CORPUS.glob("codex/**/*.jsonl"), *CORPUS.glob("multi-agent-fixtures/codex/*.jsonl")))
CLAUDE = sorted((*CORPUS.glob("claude/**/*.jsonl"), *CORPUS.glob("multi-agent-fixtures/claude/*.jsonl")))
PI = sorted(CORPUS.glob("pi/*.jsonl"))
OTHERS = sorted((*CORPUS.glob("taubench/*.json"), *CORPUS.glob("webdancer/*.jsonl"), *CORPUS.glob("cline/*compaction.json")))

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not CODEX, reason="no transcripts: set THREADKEEP_CORPUS to a folder that has codex/, claude/ and pi/"),
]


def rows(path: Path) -> Iterator[Any]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


async def recorded(tk: Threadkeep, thread_ids: list[str]) -> list[Any]:
    """Return every item of these threads, in the order they were recorded."""
    found: list[Any] = []
    for thread_id in thread_ids:
        records = await (await tk.find(thread_id)).records()
        found.extend(decode_json(record.body) for record in records if record.kind is RecordKind.ITEM)
    return found


async def imported(tk: Threadkeep, path: Path) -> list[str]:
    report = await bring_in(tk, path)
    verdict = await tk.verify()
    assert verdict.problems == ()
    assert [thread.added for thread in (await bring_in(tk, path)).threads] == [0] * len(report.threads)
    return [thread.id for thread in report.threads]


@pytest.mark.parametrize("path", CODEX, ids=lambda path: path.name)
async def test_every_rollout_imports_and_comes_back(tk: Threadkeep, path: Path) -> None:
    """Each response item is an item, equal to its JSON; exported and imported again, the window is the same."""
    threads = await imported(tk, path)
    source = [row["payload"] for row in rows(path) if row.get("type") == "response_item"]
    assert await recorded(tk, threads) == [each for each in source if each.get("type") != "ghost_snapshot"]
    for thread_id in threads:
        thread = await tk.find(thread_id)
        content = [line async for line in export_thread(tk.backend, thread, ExportFormat.CODEX)]
        async with Threadkeep(Config(store="memory:")) as other:
            copy = Path(tk.config.store).with_name("copy.jsonl")
            copy.write_bytes(b"".join(content))
            (again,) = await imported(other, copy)
            assert await window(other, again) == await window(tk, thread_id)


@pytest.mark.parametrize("path", CLAUDE, ids=lambda path: path.name)
async def test_every_transcript_of_claude_code_imports(tk: Threadkeep, path: Path) -> None:
    """Each message is an item, equal to its JSON, in the session's thread or a sidechain's."""
    threads = await imported(tk, path)
    found = await recorded(tk, threads)
    source = [row["message"] for row in rows(path) if _has_message(row)]
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, source))


def _has_message(row: Json) -> bool:
    message = row.get("message")
    shaped = isinstance(message, dict) and "role" in message and "content" in message
    return shaped and row.get("type") in ("user", "assistant") and "uuid" in row and not row.get("isApiErrorMessage")


@pytest.mark.parametrize("path", PI, ids=lambda path: path.name)
async def test_every_session_of_pi_imports(tk: Threadkeep, path: Path) -> None:
    """Each message is an item that says what its JSON says: role, texts, signatures, calls and results."""
    threads = await imported(tk, path)
    found = await recorded(tk, threads)
    source = [row["message"] for row in rows(path) if row["type"] == "message"]
    assert [_as_pi(one, other) for one, other in zip(found, source, strict=True)] == [_plain(each) for each in source]
    notes = [record.body for record in await (await tk.find(threads[0])).records() if record.kind is RecordKind.NOTE]
    partial = [line for line in path.read_bytes().splitlines() if b'"partialJson"' in line and _partial(line)]
    assert all(line in notes for line in partial)
    kept = [row for row in rows(path) if row["type"] == "compaction"][-1]["firstKeptEntryIndex"]
    after = sum(1 for row in list(rows(path))[kept:] if row["type"] == "message")
    shown = await window(tk, threads[0])
    assert (len(shown), shown[1:]) == (after + 1, found[-after:])


def _plain(message: Json) -> Json:
    """Return what pi sends of a message, in pi's own words."""
    if message["role"] == "bashExecution":
        return {"role": "bashExecution", "command": message["command"]}
    kept = {"role", "content", "toolCallId", "isError"}
    said = {key: value for key, value in message.items() if key in kept}
    content = [{key: value for key, value in block.items() if key != "partialJson"} for block in said["content"]]
    return {**said, "content": content}


def _partial(line: bytes) -> bool:
    content = json.loads(line)["message"].get("content") or []
    return any("partialJson" in block for block in content if isinstance(block, dict))


def _as_pi(sent: Json, source: Json) -> Json:
    """Return an item in pi's own words again."""
    if source["role"] == "bashExecution":
        text = sent["content"][0]["text"]
        assert source["output"] in text
        return {"role": "bashExecution", "command": text.split("`")[1]}
    if source["role"] == "toolResult":
        (result,) = sent["content"]
        failed = result.get("is_error", False)
        shown = result["content"]
        content = [{"type": "text", "text": shown}] if isinstance(shown, str) else [_block(each) for each in shown]
        return {"role": "toolResult", "toolCallId": result["tool_use_id"], "content": content, "isError": failed}
    return {"role": sent["role"], "content": [_block(each) for each in sent["content"]]}


def _block(block: Json) -> Json:
    match block["type"]:
        case "thinking":
            return {"type": "thinking", "thinking": block["thinking"], "thinkingSignature": block["signature"]}
        case "tool_use":
            return {"type": "toolCall", "id": block["id"], "name": block["name"], "arguments": block["input"]}
        case "image":
            return {"type": "image", "data": block["source"]["data"], "mimeType": block["source"]["media_type"]}
        case _:
            return block


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.name)
async def test_lists_of_other_programs_import(tk: Threadkeep, path: Path) -> None:
    """Conversations in a list, a request body or a line each become threads that prove themselves."""
    threads = await imported(tk, path)
    assert threads
    assert all([await window(tk, thread_id) for thread_id in threads])
