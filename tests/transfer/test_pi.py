"""Sessions of pi, linear and as a tree: what pi sends is the window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.transfer.rollouts import STAMP, Json, bodies, bring_in, put, window

from threadkeep import Threadkeep
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio

SESSION = "ffae836b-9420-4060-ac13-7745215f90ff"
BRANCH = "ffae836b-9420-4060-ac13-7745215f90fe"
HEADER: Json = {"type": "session", "id": SESSION, "timestamp": STAMP, "cwd": "/project"}


def entry(message: Json, **more: Any) -> Json:
    return {"type": "message", "timestamp": STAMP, "message": message, **more}


def said(text: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}


def sent(text: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def told(text: str) -> Json:
    return {"role": "assistant", "content": [{"type": "text", "text": text}], "model": "m", "usage": {"input": 1}}


def answered(text: str) -> Json:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


async def test_messages_become_what_pi_sends(tk: Threadkeep, tmp_path: Path) -> None:
    """Thinking, calls, results, images and commands a person ran; what has no place in a message is a note beside it."""
    thinking = {"type": "thinking", "thinking": "hm", "thinkingSignature": "SIG"}
    called = {"type": "toolCall", "id": "toolu_1", "name": "read", "arguments": {"path": "a.ts"}}
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    lines = [
        HEADER,
        entry(said("read it")),
        {"type": "model_change", "timestamp": STAMP, "provider": "p", "modelId": "m"},
        entry({**told(""), "content": [thinking, called]}),
        entry({"role": "toolResult", "toolCallId": "toolu_1", "toolName": "read", "content": [image], "isError": True}),
        entry({"role": "bashExecution", "command": "ls", "output": "a.ts", "exitCode": 2, "cancelled": False}),
        entry({"role": "bashExecution", "command": "pwd", "output": "", "excludeFromContext": True}),
    ]
    report = await bring_in(tk, put(tmp_path / "s.jsonl", *lines))
    assert report.problems == ()
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}],
        "is_error": True,
    }
    use = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.ts"}}
    assert await window(tk, SESSION) == [
        sent("read it"),
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "SIG"}, use]},
        {"role": "user", "content": [result]},
        sent("Ran `ls`\n```\na.ts\n```\n\nCommand exited with code 2"),
    ]
    notes = await bodies(tk, SESSION, RecordKind.NOTE)
    assert [b'"usage"' in note or b'"toolName"' in note or b'"command"' in note for note in notes] == [False, False] + [True] * 4
    assert (await tk.verify()).ok


async def test_a_linear_compaction_keeps_from_the_entry_it_counts_to(tk: Threadkeep, tmp_path: Path) -> None:
    """The oldest sessions name the first kept entry by its place in the file."""
    compaction = {"type": "compaction", "timestamp": STAMP, "summary": "so far", "firstKeptEntryIndex": 3, "tokensBefore": 9}
    lines = [HEADER, entry(said("one")), entry(told("first")), entry(said("two")), entry(told("second")), compaction]
    await bring_in(tk, put(tmp_path / "s.jsonl", *lines, entry(said("three"))))
    summary = (
        "The conversation history before this point was compacted into the following summary:\n\n<summary>\nso far\n</summary>"
    )
    assert await window(tk, SESSION) == [sent(summary), sent("two"), answered("second"), sent("three")]
    assert (await tk.verify()).ok


async def test_a_tree_goes_back_to_where_an_entry_says(tk: Threadkeep, tmp_path: Path) -> None:
    """Entries of the newer form name their parent; a branch left behind is summarised in the one that goes on."""
    lines = [
        {**HEADER, "version": 3},
        entry(said("one"), id="e1", parentId=None),
        entry(told("first"), id="e2", parentId="e1"),
        entry(said("two"), id="e3", parentId="e2"),
        {"type": "branch_summary", "timestamp": STAMP, "id": "e4", "parentId": "e2", "fromId": "e3", "summary": "tried"},
        {"type": "label", "timestamp": STAMP, "id": "e5", "parentId": "e4", "targetId": "e1", "label": "here"},
        {"type": "custom_message", "timestamp": STAMP, "id": "e6", "parentId": "e5", "customType": "x", "content": "mind it"},
        {"type": "session_info", "timestamp": STAMP, "id": "e7", "parentId": "e6", "name": "The work"},
        entry(said("three"), id="e8", parentId="e7"),
    ]
    await bring_in(tk, put(tmp_path / "s.jsonl", *lines))
    branch = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\ntried</summary>"
    assert await window(tk, SESSION) == [sent("one"), answered("first"), sent(branch), sent("mind it"), sent("three")]
    compaction = {
        "type": "compaction",
        "timestamp": STAMP,
        "id": "e9",
        "parentId": "e8",
        "summary": "s",
        "firstKeptEntryId": "e6",
    }
    await bring_in(tk, put(tmp_path / "s.jsonl", *lines, compaction))
    assert [message["content"][0]["text"][-12:] for message in await window(tk, SESSION)] == ["s\n</summary>", "mind it", "three"]
    assert [summary.title for summary in await tk.threads()] == ["The work"]
    assert (await tk.verify()).ok


async def test_a_branch_in_a_file_of_its_own_is_a_fork(tk: Threadkeep, tmp_path: Path) -> None:
    """It begins with a copy of the lines of the session it left, which its header names."""
    shared = [entry(said("one")), entry(told("first"))]
    put(tmp_path / "a.jsonl", HEADER, *shared, entry(said("two")))
    header = {**HEADER, "id": BRANCH, "branchedFrom": f"/somewhere/2026-01-02_{SESSION}.jsonl"}
    put(tmp_path / "b.jsonl", header, *shared, entry(said("other")))
    await bring_in(tk, tmp_path)
    assert await window(tk, BRANCH) == [sent("one"), answered("first"), sent("other")]
    assert (await tk.backend.store.get(BRANCH)).parent == SESSION
    assert [thread.added for thread in (await bring_in(tk, tmp_path)).threads] == [0, 0]
