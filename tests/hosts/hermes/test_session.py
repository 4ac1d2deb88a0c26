"""The real Hermes agent with threadkeep as its context engine, offline: what its model was sent, whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from typing import Any

import pytest
from tests.doubles.script import Received, call, say
from tests.hosts.hermes.play import REPOSITORY, HermesModel, Host, asks, part, reads, recorded, states

pytestmark = [pytest.mark.hosts, pytest.mark.anyio, pytest.mark.moves_prefix(reason="each compaction moves it once")]

SESSION = "20260101_120000_aaaaaa"
Json = dict[str, Any]


def told(request: Received) -> list[Json]:
    """Return a request's history, without the system prompt in front of it."""
    assert [message["role"] for message in request.history][:1] == ["system"]
    assert "system" not in [message["role"] for message in request.history[1:]]
    return request.history[1:]


def reading(host: Host, number: int, *, call_id: str) -> list[Json]:
    """Return the call that reads a part and its result, as they stand on the wire."""
    arguments = json.dumps({"limit": 300, "offset": 1, "path": str(host.folder / f"part{number}.txt")}, separators=(",", ":"))
    calls = [{"id": call_id, "type": "function", "function": {"name": "read_file", "arguments": arguments}}]
    lines = "\n".join(f"{at}|{line}" for at, line in enumerate(part(number).splitlines(), start=1))
    size = len(part(number))
    result = {"content": lines, "total_lines": 299, "file_size": size, "truncated": False, "is_binary": False, "is_image": False}
    return [
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "name": "read_file", "content": json.dumps(result), "tool_call_id": call_id},
    ]


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def assistant(text: str) -> Json:
    return {"role": "assistant", "content": text}


def read_turn(host: Host, number: int, *, call_id: str) -> list[Json]:
    return [user(asks(number)), *reading(host, number, call_id=call_id), assistant(f"Part {number} is read.")]


def check_shape(requests: Sequence[Received]) -> None:
    """Nothing a strict server would refuse: a user first, no two users in a row, every result right behind its call."""
    for request in requests:
        roles = [message["role"] for message in told(request)]
        assert roles[0] == "user"
        assert "user user" not in " ".join(roles)
        opened: list[str] = []
        for message in told(request):
            if message["role"] == "tool":
                assert opened.pop(0) == message["tool_call_id"]
            else:
                assert opened == []
                opened = [each["id"] for each in message.get("tool_calls", [])]


async def test_a_long_session_is_compacted_three_times_and_the_model_gets_it_whole(host: Host) -> None:
    """One process: every request is the one before and what came since, or state, request and the result not yet seen."""
    script = [reply for number in range(15) for reply in reads(host, number)]
    recall = [call("recall", {"query": "part 1 line 17"}), say("It said nothing.")]
    async with HermesModel([*script, *recall], counting=True) as model:
        ran = await host.run(model, [*map(asks, range(15)), "What did line 17 of part 1 say?"], session=SESSION)
    assert (ran.status, ran.report["engine"], ran.report["module"]) == (0, "threadkeep", "threadkeep.adapters.hermes")
    assert ran.report["status"]["compression_count"] == 3
    assert f"session {SESSION}, thread {SESSION}" in ran.report["figures"]
    assert "3 compactions" in ran.report["figures"]
    assert ran.report["answers"] == [*(f"Part {number} is read." for number in range(15)), "It said nothing."]

    check_shape(model.requests)
    kept = await states(host, SESSION)
    assert len(kept) == 3
    expected: list[list[Json]] = []
    so_far: list[Json] = []
    compactions = iter(kept)
    for number in range(15):
        pair = reading(host, number, call_id=f"call_{number + 1}")
        so_far = [*so_far, user(asks(number))]
        expected.append(so_far)
        before, so_far = so_far, [*so_far, *pair]
        if told(model.requests[len(expected)]) != so_far:
            so_far = [user(next(compactions).before(before[-1]["content"])), *pair]
        expected.append(so_far)
        so_far = [*so_far, assistant(f"Part {number} is read.")]
    expected.append([*so_far, user("What did line 17 of part 1 say?")])
    assert [told(request) for request in model.requests[:-1]] == expected

    last = told(model.requests[-1])
    assert last[:-2] == expected[-1]
    found = [hit["text"] for hit in json.loads(last[-1]["content"])["recalled"]]
    assert any("part 1 line 17: nothing to report" in text for text in found)
    assert [port for port in range(8000, 8012) if f"port {port}" not in last[0]["content"]] == []


async def test_a_host_that_is_killed_and_started_again_goes_on_where_it_was(host: Host) -> None:
    """Killed after a turn, then between a compaction and its own write of it: nothing is lost, and nothing is there twice."""
    first = [reply for number in range(7) for reply in reads(host, number)]
    second = [*(reply for number in (7, 8) for reply in reads(host, number)), reads(host, 9)[0]]
    third = [reply for number in range(9, 15) for reply in reads(host, number)]
    recall = [call("recall", {"query": "part 1 line 17"}), say("It said nothing.")]
    async with HermesModel([*first, *second, *third, *recall], counting=True) as model:
        killed = await host.run(model, [*map(asks, range(7))], session=SESSION, dies="at_the_end")
        again = await host.run(model, [*map(asks, range(7, 11))], session=SESSION, dies="before_storing")
        last = await host.run(
            model, [*map(asks, range(9, 15)), "What did line 17 of part 1 say?"], session=SESSION, lease_expired=True
        )
    assert (killed.status, again.status, last.status) == (9, 9, 0)
    check_shape(model.requests)
    assert len(await states(host, SESSION)) >= 3
    found = [hit["text"] for hit in json.loads(last.report["results"][-1])["recalled"]]
    assert any("part 1 line 17: nothing to report" in text for text in found)
    said = [item["content"] for item in await recorded(host, SESSION) if item["role"] == "user"]
    # What was asked in the turn that died was asked again.
    assert said == [*map(asks, range(10)), *map(asks, range(9, 15)), "What did line 17 of part 1 say?"]
    window = told(model.requests[-1])[0]["content"]
    assert [port for port in range(8000, 8013) if f"port {port}" not in window] == []


async def test_the_folder_works_without_the_entry_point(host: Host) -> None:
    """Copied into the host's plugins under a name of its own, with only that one enabled, it is the engine in use."""
    folder = host.home / "plugins" / "copied"
    shutil.copytree(REPOSITORY / "plugins" / "hermes", folder)
    manifest = folder / "plugin.yaml"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace("name: threadkeep", "name: copied"), encoding="utf-8")
    host.configure(enabled="copied")
    async with HermesModel([say("Hello.")]) as model:
        ran = await host.run(model, ["Hi."])
    assert (ran.report["engine"], ran.report["tools"]) == ("threadkeep", ["recall"])
    assert told(model.requests[0]) == [user("Hi.")]
    assert "recall" in [tool["function"]["name"] for tool in model.requests[0].body["tools"]]


async def test_a_store_that_cannot_be_used_costs_no_turn(host: Host) -> None:
    """Every compaction fails: the host keeps its list, every turn is answered, and people are told why."""
    host.store.mkdir()
    script = [reply for number in range(7) for reply in reads(host, number)]
    async with HermesModel(script, counting=True) as model:
        ran = await host.run(model, [*map(asks, range(7))], session=SESSION)
    assert (ran.status, ran.report["engine"]) == (0, "threadkeep")
    assert ran.report["answers"] == [f"Part {number} is read." for number in range(7)]
    history = [message for number in range(7) for message in read_turn(host, number, call_id=f"call_{number + 1}")]
    assert told(model.requests[-1]) == history[:-1]
    assert str(ran.report["status"]["trouble"]).startswith("Store")


async def test_a_rotated_session_and_a_list_of_tasks(host: Host) -> None:
    """The host gives the session a new id at a compaction and adds its tasks: the thread goes on, and recall reaches back."""
    host.configure(in_place="false")
    script = [reply for number in range(8) for reply in reads(host, number)]
    tasks = [{"id": "1", "content": "read all parts", "status": "in_progress"}]
    async with HermesModel([*script, call("recall", {"query": "part 1 line 17"}), say("Nothing.")], counting=True) as model:
        ran = await host.run(model, [*map(asks, range(8)), "Line 17 of part 1?"], session=SESSION, todos=tasks)
    check_shape(model.requests)
    rotated = ran.report["session"]
    assert rotated != SESSION
    assert ran.report["status"]["thread"] == rotated
    compacted = told(model.requests[11])
    assert [message["role"] for message in compacted] == ["user", "assistant", "tool", "user"]
    assert "read all parts" in compacted[-1]["content"]
    found = [hit["text"] for hit in json.loads(ran.report["results"][-1])["recalled"]]
    assert any("part 1 line 17: nothing to report" in text for text in found)
    assert [item["content"] for item in await recorded(host, rotated) if item["role"] == "user"] == [
        *map(asks, range(6)),
        compacted[-1]["content"],
        *map(asks, (6, 7)),
        "Line 17 of part 1?",
    ]
