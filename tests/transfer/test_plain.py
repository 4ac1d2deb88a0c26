"""Plain lists, in any of the three dialects: found out by what stands in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.transfer.rollouts import Json, answer, bring_in, call, output, put, user, window

from threadkeep import Threadkeep
from threadkeep.errors import UnknownFormat
from threadkeep.transfer.importer import Importer

pytestmark = pytest.mark.anyio

RESPONSES: list[Json] = [user("one"), call("c1"), output("c1"), answer("first")]
CHAT: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]},
    {"role": "tool", "tool_call_id": "c", "content": "ok"},
]
MESSAGES: list[Json] = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]},
]
LISTS: dict[str, list[Json]] = {"responses": RESPONSES, "chat": CHAT, "messages": MESSAGES}


@pytest.mark.parametrize("dialect", LISTS)
@pytest.mark.parametrize("form", ["array", "pretty", "lines", "body"])
async def test_a_list_is_a_thread_of_its_dialect(tk: Threadkeep, tmp_path: Path, dialect: str, form: str) -> None:
    """As an array, on one line or many, as one item a line, or as the request body that held it."""
    items = LISTS[dialect]
    path = tmp_path / "list.json"
    match form:
        case "array":
            path.write_text(json.dumps(items))
        case "pretty":
            path.write_text(json.dumps(items, indent=2))
        case "lines":
            put(path, *items)
        case _:
            path.write_text(json.dumps({"model": "m", "input" if dialect == "responses" else "messages": items}, indent=1))
    report = await bring_in(tk, path)
    assert [(thread.dialect, thread.items) for thread in report.threads] == [(dialect, len(items))]
    assert report.threads[0].id.startswith(f"{dialect}-")
    assert await window(tk, report.threads[0].id) == items
    assert [thread.added for thread in (await bring_in(tk, path)).threads] == [0]
    assert (await tk.verify()).ok


async def test_a_list_that_grew_goes_on_and_one_that_turned_is_a_fork(tk: Threadkeep, tmp_path: Path) -> None:
    """How it begins names it, whatever its file is called."""
    first = await bring_in(tk, put(tmp_path / "a.jsonl", *CHAT[:2]))
    grown = await bring_in(tk, put(tmp_path / "b.jsonl", *CHAT))
    assert [(thread.id, thread.added) for thread in grown.threads] == [(first.threads[0].id, 2)]
    turned = await bring_in(tk, put(tmp_path / "a.jsonl", *CHAT[:2], {"role": "assistant", "content": "no"}))
    fork = turned.threads[0].id
    assert await window(tk, fork) == [*CHAT[:2], {"role": "assistant", "content": "no"}]
    assert (await tk.backend.store.get(fork)).parent == first.threads[0].id


async def test_several_conversations_in_a_file_are_several_threads(tk: Threadkeep, tmp_path: Path) -> None:
    """One request body a line, or a list of them; fields beside the list are a note."""
    other = [{"role": "user", "content": "two"}]
    report = await bring_in(tk, put(tmp_path / "a.jsonl", {"messages": CHAT, "task": 1}, {"messages": other, "task": 2}))
    assert [thread.items for thread in report.threads] == [4, 1]
    (tmp_path / "b.json").write_text(json.dumps([{"messages": CHAT, "task": 1}, {"messages": other, "task": 2}], indent=1))
    again = await bring_in(tk, tmp_path / "b.json")
    assert [(thread.id, thread.added) for thread in again.threads] == [(thread.id, 0) for thread in report.threads]


async def test_a_format_can_be_named_and_must_be_where_nothing_says_it(tk: Threadkeep, tmp_path: Path) -> None:
    """Words alone read alike in chat and messages; text that is no transcript is refused, and in a folder passed over."""
    path = put(tmp_path / "a.jsonl", {"role": "user", "content": "one"})
    assert [thread.dialect for thread in (await bring_in(tk, path)).threads] == ["chat"]
    named = await Importer(tk.backend, form="messages").run([path])
    assert [thread.dialect for thread in named.threads] == ["messages"]
    (tmp_path / "notes.json").write_text('{"a": 1}')
    with pytest.raises(UnknownFormat):
        await bring_in(tk, tmp_path / "notes.json")
    report = await bring_in(tk, tmp_path)
    assert [(thread.id[:5], thread.added) for thread in report.threads] == [("chat-", 0)]
    assert [Path(problem.source).name for problem in report.problems] == ["notes.json"]
