"""Threads out: what is written reads back as the same window, and names nothing of the store it came from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.transfer.rollouts import (
    FORK,
    THREAD,
    Json,
    answer,
    bring_in,
    call,
    event,
    item,
    line,
    meta,
    output,
    put,
    spoken,
    turn,
    user,
    window,
)

from threadkeep import Config, Threadkeep
from threadkeep.errors import CannotExport
from threadkeep.transfer.export import ExportFormat, export_thread

pytestmark = pytest.mark.anyio

WORLD = line("world_state", {"full": True, "state": {"cwd": "/project"}})


async def exported(tk: Threadkeep, thread_id: str, form: str) -> bytes:
    thread = await tk.find(thread_id)
    return b"".join([part async for part in export_thread(tk.backend, thread, form)])


async def rollout(tk: Threadkeep, thread_id: str) -> list[Json]:
    return [json.loads(each) for each in (await exported(tk, thread_id, ExportFormat.CODEX)).splitlines()]


async def read_back(tmp_path: Path, content: bytes) -> list[Json]:
    """Return the window of the thread that an exported file becomes in another store, which must prove itself."""
    path = tmp_path / "back.jsonl"
    path.write_bytes(content)
    async with Threadkeep(Config(store="memory:")) as other:
        report = await bring_in(other, path)
        assert report.problems == ()
        assert (await other.verify()).ok
        return await window(other, report.threads[0].id)


async def test_a_rollout_goes_out_as_it_came_in(tk: Threadkeep, tmp_path: Path) -> None:
    """Every line again, but for the session's own identity and what no longer counts."""
    lines = [meta(), WORLD, *turn(1), *turn(2), event("thread_rolled_back", num_turns=1), item(answer("x"))]
    await bring_in(tk, put(tmp_path / "a.jsonl", *lines))
    out = await rollout(tk, THREAD)
    assert out[1:] == [WORLD, *turn(1), event("task_started", turn_id="turn-2"), lines[-1]]
    own = out[0]["payload"]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", own["id"])
    assert {key: own[key] for key in ("cwd", "originator", "source", "history_mode")} == {
        "cwd": "/project",
        "originator": "codex_cli_rs",
        "source": "cli",
        "history_mode": "legacy",
    }
    assert own["id"] != THREAD
    assert await read_back(tmp_path, await exported(tk, THREAD, ExportFormat.CODEX)) == await window(tk, THREAD)


async def test_a_compaction_goes_out_where_its_cut_is(tk: Threadkeep, tmp_path: Path) -> None:
    """A checkpoint of Codex's own replaces the same history."""
    compacted = line("compacted", {"message": "s", "window_number": 4, "replacement_history": [user("s")]})
    await bring_in(tk, put(tmp_path / "a.jsonl", meta(), *turn(1), compacted, *turn(2)))
    out = await rollout(tk, THREAD)
    kept = line("compacted", {"message": "", "replacement_history": [user("s")]})
    assert out[1:] == [*turn(1), kept, *turn(2)]
    assert await read_back(tmp_path, await exported(tk, THREAD, ExportFormat.CODEX)) == [user("s"), *spoken(2)]


async def test_a_thread_compacted_here_goes_out_with_its_window(tk: Threadkeep, tmp_path: Path) -> None:
    """Twice compacted, then talked to: the newest layout stands for everything before its cut, and nothing is left out."""
    await bring_in(tk, put(tmp_path / "a.jsonl", meta(), *[each for number in range(1, 30) for each in turn(number)]))
    thread = await tk.find(THREAD)
    await thread.compact(target="30%")
    await thread.record([each for number in range(30, 60) for each in spoken(number)])
    await thread.compact(target="30%")
    await thread.record([user("and now")])
    content = await exported(tk, THREAD, ExportFormat.CODEX)
    assert await read_back(tmp_path, content) == await window(tk, THREAD)
    items = [each["payload"] for each in map(json.loads, content.splitlines()) if each["type"] == "response_item"]
    assert items == [*(each for number in range(1, 60) for each in spoken(number)), user("and now")]


async def test_an_undone_compaction_is_not_written(tk: Threadkeep, tmp_path: Path) -> None:
    """What no longer counts here does not count there."""
    await bring_in(tk, put(tmp_path / "a.jsonl", meta(), *[each for number in range(1, 30) for each in turn(number)]))
    thread = await tk.find(THREAD)
    await thread.compact(target="30%")
    await thread.undo()
    assert "compacted" not in {each["type"] for each in await rollout(tk, THREAD)}


async def test_a_thread_recorded_here_becomes_a_rollout_of_its_own(tk: Threadkeep, tmp_path: Path) -> None:
    """Without any rollout behind it: people's messages and answers come with the events Codex shows for them."""
    context = user("<environment_context>\n  <cwd>/elsewhere</cwd>\n</environment_context>")
    thread = await tk.thread("secret-name")
    await thread.record([context, *spoken(1)])
    out = await rollout(tk, thread.id)
    assert out[0]["payload"]["cwd"] == "/elsewhere"
    shown = [(each["type"], each["payload"]["type"], each["payload"].get("message")) for each in out[1:]]
    assert shown == [
        ("response_item", "message", None),
        ("response_item", "message", None),
        ("event_msg", "user_message", "question 1"),
        ("response_item", "function_call", None),
        ("response_item", "function_call_output", None),
        ("response_item", "message", None),
        ("event_msg", "agent_message", "answer 1"),
    ]
    assert await read_back(tmp_path, await exported(tk, thread.id, ExportFormat.CODEX)) == [context, *spoken(1)]


async def test_a_fork_goes_out_whole(tk: Threadkeep, tmp_path: Path) -> None:
    """What it inherited is written too."""
    source = [meta(), *turn(1)]
    put(tmp_path / "a.jsonl", *source)
    put(tmp_path / "b.jsonl", meta(FORK, forked_from_id=THREAD), *source, *turn(2))
    await bring_in(tk, tmp_path)
    assert await read_back(tmp_path, await exported(tk, FORK, ExportFormat.CODEX)) == [*spoken(1), *spoken(2)]


async def test_nothing_that_is_written_names_the_store(tk: Threadkeep, store_file: Path) -> None:
    """No thread's name, no path, no tenant, in any format."""
    thread = await tk.thread("secret-name")
    await thread.record([each for number in range(1, 30) for each in spoken(number)])
    await thread.compact(target="30%")
    for form in (ExportFormat.CODEX, ExportFormat.JSONL, ExportFormat.MARKDOWN, "responses"):
        content = await exported(tk, thread.id, form)
        named = (b"secret-name", str(store_file).encode(), store_file.name.encode(), tk.backend.store.tenant.key.hex().encode())
        assert [name for name in named if name in content] == []


async def test_lines_hold_every_item_and_a_list_the_window(tk: Threadkeep, tmp_path: Path) -> None:
    """`jsonl` is the whole path, one item a line; a dialect's name is what would be sent next. Both can be imported again."""
    thread = await tk.thread("t")
    everything = [each for number in range(1, 30) for each in spoken(number)]
    await thread.record(everything)
    await thread.compact(target="30%")
    lines = await exported(tk, "t", ExportFormat.JSONL)
    assert [json.loads(each) for each in lines.splitlines()] == everything
    listed = await exported(tk, "t", "responses")
    assert json.loads(listed) == await window(tk, "t")
    assert await read_back(tmp_path, lines) == everything
    assert await read_back(tmp_path, listed) == await window(tk, "t")


async def test_items_are_never_translated(tk: Threadkeep) -> None:
    """A thread goes out in its own dialect or not at all; an item written over several lines goes out on one."""
    thread = await tk.thread("t", dialect="messages")
    await thread.record([{"role": "user", "content": "hi"}])
    for form in (ExportFormat.CODEX, "chat", "responses"):
        with pytest.raises(CannotExport):
            await exported(tk, "t", form)
    assert await exported(tk, "t", ExportFormat.JSONL) == b'{"role":"user","content":"hi"}\n'


async def test_a_pretty_printed_item_is_one_line_of_a_rollout(tk: Threadkeep, tmp_path: Path) -> None:
    """The bytes of an item may hold line ends between its parts; a line of a rollout may not."""
    path = tmp_path / "list.json"
    path.write_text(json.dumps([*spoken(1)], indent=2))
    report = await bring_in(tk, path)
    assert await read_back(tmp_path, await exported(tk, report.threads[0].id, ExportFormat.CODEX)) == spoken(1)


async def test_a_document_for_people(tk: Threadkeep) -> None:
    """Turns, speakers, calls and outputs; a tool's output cannot end the fence it stands in."""
    thread = await tk.thread("t")
    await thread.record([user("Fix it"), call("c", "cat a"), output("c", "```\nleave\n```"), answer("Done.")])
    text = (await exported(tk, "t", ExportFormat.MARKDOWN)).decode()
    assert text == (
        "# Fix it\n\n"
        "\n## Turn 1\n"
        "\n**user**\n\nFix it\n"
        '\n**call** `shell`\n\n```text\n{"cmd": "cat a"}\n```\n'
        "\n**output**\n\n````text\n```\nleave\n```\n````\n"
        "\n**assistant**\n\nDone.\n"
    )
