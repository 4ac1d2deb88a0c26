"""A session that the gateway saw and that is imported from its client's file is one thread, whichever comes first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.doubles.script import call as calls
from tests.doubles.script import say
from tests.gateway.client import Client, talk, threads
from tests.transfer.rollouts import FORK, THREAD, answer, bring_in, call, event, item, meta, output, put, user, window

from threadkeep import Threadkeep
from threadkeep.client import Thread
from threadkeep.store import RecordKind
from threadkeep.threads import TurnBody, decode_body
from threadkeep.transfer.importer import ImportReport

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

TOOLS = {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "shell", "parameters": {}}]}
RULES = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Follow the permissions."}]}
WORLD = user("<environment_context>\n<cwd>/project</cwd>\n</environment_context>")
LONG = "The port is 7443 and the host is staging; both stand in the configuration beside the others. " * 3


def said(number: int) -> list[Json]:
    """One turn as Codex sends it again: a question, a call with its output, a long answer."""
    name = f"call_{number}"
    return [user(f"question {number}"), call(name), output(name, f"listing {number}"), answer(f"answer {number}. {LONG}")]


def rollout(folder: Path, *numbers: int, more: tuple[Json, ...] = ()) -> Path:
    """Write a rollout: unlike a request, it has the developer's items in its history, and events between the items."""
    items = [RULES, WORLD, *(each for number in numbers for each in said(number)), *more]
    return put(folder / "rollout.jsonl", meta(), *(line for each in items for line in (item(each), event("token_count"))))


def codex(tk: Threadkeep, session: str = THREAD) -> Client:
    """Return a client that sends what Codex does for its default model: tools and instructions are items of the history."""
    client = talk(tk, "responses", thread_id=session)
    client.history = [TOOLS, RULES, WORLD]
    return client


async def converse(client: Client, *numbers: int) -> None:
    for number in numbers:
        name = f"call_{number}"
        await client.ask(f"question {number}", calls("shell", {"cmd": "ls"}, call_id=name))
        await client.tool({name: f"listing {number}"}, say(f"answer {number}. {LONG}"))


def added(report: ImportReport) -> list[tuple[str, int]]:
    return [(thread.id, thread.added) for thread in report.threads]


async def list_questions(tk: Threadkeep) -> list[list[str]]:
    """Return, thread by thread, what the turns of each ask."""
    return [await list_asked(thread) for thread in await threads(tk)]


async def list_asked(thread: Thread) -> list[str]:
    turns = [record for record in await thread.records() if record.kind is RecordKind.TURN]
    return [decode_body(record.body, TurnBody).preview for record in turns]


async def test_an_imported_session_goes_on_in_its_thread(tk: Threadkeep, tmp_path: Path) -> None:
    """Imported, then resumed through the gateway, then imported again: one thread, each turn once, nothing added twice."""
    await bring_in(tk, rollout(tmp_path, 1, 2))
    client = codex(tk)
    client.history += [*said(1), *said(2)]
    await converse(client, 3)
    report = await bring_in(tk, rollout(tmp_path, 1, 2, 3))
    assert added(report) == [(THREAD, 0)]
    assert await list_questions(tk) == [["question 1", "question 2", "question 3"]]
    assert (await tk.verify()).ok


async def test_a_recorded_session_is_not_imported_again(tk: Threadkeep, tmp_path: Path) -> None:
    """Its file adds nothing while the gateway saw all; then the turns it did not see, once; the session goes on behind them."""
    client = codex(tk)
    await converse(client, 1, 2)
    only = (await threads(tk))[0].id
    assert added(await bring_in(tk, rollout(tmp_path, 1, 2))) == [(only, 0)]
    assert added(await bring_in(tk, rollout(tmp_path, 1, 2, 3, 4))) == [(only, 9)]
    assert added(await bring_in(tk, rollout(tmp_path, 1, 2, 3, 4))) == [(only, 0)]
    assert (await window(tk, only))[-9:] == [said(2)[-1], *said(3), *said(4)]
    client.history += [*said(3), *said(4)]
    await converse(client, 5)
    assert await list_questions(tk) == [[f"question {number}" for number in range(1, 6)]]
    assert (await tk.verify()).ok


async def test_a_file_that_went_another_way_becomes_a_fork(tk: Threadkeep, tmp_path: Path) -> None:
    """Turns taken back in the client and said anew without the gateway fork where both part; importing again changes nothing."""
    client = codex(tk)
    await converse(client, 1, 2)
    only = (await threads(tk))[0].id
    path = rollout(tmp_path, 1, 2)
    more = [event("thread_rolled_back", num_turns=1), *(item(each) for each in said(7))]
    with path.open("a") as file:
        put(tmp_path / "more.jsonl", *more)
        file.write((tmp_path / "more.jsonl").read_text())
    assert added(await bring_in(tk, path)) == [(THREAD, 4)]
    assert added(await bring_in(tk, path)) == [(THREAD, 0)]
    assert (await tk.backend.store.get(THREAD)).parent == only
    assert await list_asked(await tk.find(THREAD)) == ["question 7"]
    shown = await window(tk, THREAD)
    assert (shown[-5]["type"], shown[-4:]) == ("message", said(7))
    assert "question 2" not in str(shown)
    assert (await tk.verify()).ok


async def test_a_session_of_another_name_is_not_gone_on_with(tk: Threadkeep, tmp_path: Path) -> None:
    """Neither an import nor a request of another name joins a thread that only begins alike."""
    await bring_in(tk, rollout(tmp_path, 1))
    other = codex(tk, FORK)
    await other.ask("question 1", say("Something else."))
    await other.ask("question 9", say("And more."))
    assert sorted(await list_questions(tk)) == [["question 1"], ["question 1", "question 9"]]


async def test_a_name_alone_does_not_join(tk: Threadkeep, tmp_path: Path) -> None:
    """Where an imported thread's name is used for something else, that has a thread of its own."""
    await bring_in(tk, rollout(tmp_path, 1))
    client = codex(tk)
    client.history += [user("Write a haiku."), answer("Old pond.")]
    await client.ask("Another.", say("A frog jumps in."))
    assert len(await threads(tk)) == 2
