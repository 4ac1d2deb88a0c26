"""Half of a tool call erased, the other half kept: what stands in its place, in every dialect, window and export."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ManualClock
from tests.doubles.provider_rules import ProviderRules
from tests.doubles.script import Received
from tests.doubles.wires import WireName
from tests.gateway.client import ENDPOINTS, HISTORY, WIRES, base_fields, outputs_of, person

from threadkeep import Config, Thread, Threadkeep
from threadkeep.dialects import find_dialect
from threadkeep.erasure.erase import ErasureReport, erase, plan_erasure
from threadkeep.items import Item, decode_json, find_open_calls, find_orphans
from threadkeep.store import NewRecord, Record, RecordKind
from threadkeep.threads.erasure_notes import ErasureNote, fill_erased, read_erasure_note
from threadkeep.transfer.export import export_thread

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
SECRET = "kadarkuti"


def called(wire: str, *calls: str) -> list[Json]:
    """Return an answer that calls a tool under each of these ids."""
    arguments = json.dumps({"command": f"grep {SECRET}"})
    match wire:
        case "responses":
            return [{"type": "function_call", "call_id": call, "name": "bash", "arguments": arguments} for call in calls]
        case "chat":
            listed = [{"id": call, "type": "function", "function": {"name": "bash", "arguments": arguments}} for call in calls]
            return [{"role": "assistant", "content": None, "tool_calls": listed}]
        case "gemini":
            parts = [{"functionCall": {"id": call, "name": "bash", "args": json.loads(arguments)}} for call in calls]
            return [{"role": "model", "parts": parts}]
        case _:
            uses = [{"type": "tool_use", "id": call, "name": "bash", "input": json.loads(arguments)} for call in calls]
            return [{"role": "assistant", "content": uses}]


@pytest.fixture(params=["sqlite", "postgres"])
async def tk(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Threadkeep]:
    store = str(tmp_path / "s.db")
    if request.param == "postgres":
        store = await request.getfixturevalue("postgres_server").new_store()
    async with Threadkeep(Config(store=store, model_context_window=4_000), clock=clock) as opened:
        yield opened


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> WireName:
    found: WireName = request.param
    return found


async def erased(tk: Threadkeep, thread: str, ordinals: list[int] | None) -> ErasureReport:
    async def recompact(thread_id: str) -> object:
        return await (await tk.find(thread_id)).compact(strategy="extractive")

    plan = await plan_erasure(tk.backend, thread, ordinals)
    return await erase(tk.backend, plan, reason="asked to", memories=tk.memory, recompact=recompact)


async def placed(thread: Thread, kind: str, *, holding: str = SECRET) -> list[int]:
    """Return the ordinals of a thread's own items of a kind that hold a word."""
    items = [record for record in await thread.records() if record.kind is RecordKind.ITEM and holding.encode() in record.body]
    return [record.ordinal for record in items if thread.dialect.view(Item(record.body)).kind == kind]


def refusal(wire: WireName, window: list[Json]) -> object:
    """Return why a provider would refuse a request with this history; None if it would not."""
    base = base_fields(wire)
    head = base.pop("head", [])
    body = {**base, HISTORY[wire]: [*head, *window]}
    received = Received(method="POST", path=f"/v1{ENDPOINTS[wire]}", headers={}, authorised=True, raw=b"", body=body)
    return ProviderRules().refusal(wire, received)


async def exported(tk: Threadkeep, thread: Thread, form: str) -> list[Json]:
    lines = b"".join([line async for line in export_thread(tk.backend, thread, form)])
    if form == thread.dialect.name:
        found: list[Json] = json.loads(lines)
        return found
    return [json.loads(line) for line in lines.splitlines()]


def pairs_hold(wire: str, items: list[Json]) -> bool:
    dialect = find_dialect(wire)
    return find_orphans([dialect.view(dialect.parse(item)) for item in items]) == []


async def forked_at_a_call(tk: Threadkeep, wire: WireName) -> tuple[Thread, Thread]:
    """A thread forked between calls and their outputs: each side has outputs of its own."""
    parent = await tk.thread("parent", dialect=wire)
    await parent.record([person(wire, "Look."), *called(wire, "c1", "c2")])
    fork = await parent.fork(new_id="fork")
    for thread, text in ((parent, f"parent saw {SECRET}"), (fork, "fork saw nothing")):
        await thread.record([*outputs_of(wire, {"c1": text, "c2": text}), person(wire, f"Go on, {thread.id}.")])
    return parent, fork


async def test_a_fork_keeps_its_output_when_the_call_is_erased(tk: Threadkeep, wire: WireName) -> None:
    """The call went with its parent's record; an empty one stands there, and the fork's own output stays as it was."""
    parent, fork = await forked_at_a_call(tk, wire)
    await erased(tk, parent.id, await placed(parent, "call"))
    window = list(await fork.window())
    assert SECRET not in json.dumps(window)
    assert json.dumps(window).count("fork saw nothing") == 2
    assert refusal(wire, window) is None
    # Gemini's API wants a call to have the name its output has, so there it is not replaced.
    assert json.dumps(window).count('"erased"') == (0 if wire == "gemini" else 2)
    assert SECRET not in json.dumps(list(await parent.window()))
    assert refusal(wire, list(await parent.window())) is None
    assert (await tk.verify()).problems == ()


async def test_a_whole_parent_goes_and_its_fork_goes_on(tk: Threadkeep, wire: WireName) -> None:
    """Everything of the parent's is gone from the fork's window but the calls the fork answered, which say nothing.

    Where its provider wants a person to speak first, something says that one did; no person is taken to have said it.
    """
    parent, fork = await forked_at_a_call(tk, wire)
    await erased(tk, parent.id, None)
    window = list(await fork.window())
    assert refusal(wire, window) is None
    assert SECRET not in json.dumps(window)
    assert json.dumps(window).count("fork saw nothing") == 2
    views = [fork.dialect.view(item) for item in (await fork.history()).items]
    assert [view.said for view in views if view.by_person] == ["Go on, fork."]
    await fork.record([person(wire, "And now?")])
    assert refusal(wire, list(await fork.window())) is None


async def test_a_call_whose_output_is_erased_in_a_fork_still_has_one(tk: Threadkeep, wire: WireName) -> None:
    """The call is the parent's and stays; the fork's window and its exports show that its output was erased."""
    parent = await tk.thread("parent", dialect=wire)
    await parent.record([person(wire, "Look."), *called(wire, "c1")])
    fork = await parent.fork(new_id="fork")
    await fork.record([*outputs_of(wire, {"c1": f"saw {SECRET} and more"}), person(wire, "Go on.")])
    await erased(tk, fork.id, await placed(fork, "output", holding="and more"))
    shown = outputs_of(wire, {"c1": "(erased)"})[0]
    window = list(await fork.window())
    assert refusal(wire, window) is None
    items = [_plain(decode_json(item.raw)) for item in (await fork.history()).items]
    assert items == [person(wire, "Look."), *called(wire, "c1"), shown, person(wire, "Go on.")]
    for form in (wire, "jsonl", *(("codex",) if wire == "responses" else ())):
        lines = await exported(tk, fork, form)
        items = [line["payload"] for line in lines if line["type"] == "response_item"] if form == "codex" else lines
        assert pairs_hold(wire, items), form
        assert "(erased)" in json.dumps(items), form
        assert "and more" not in json.dumps(items), form


def _plain(item: Json) -> Json:
    """Return a message without what only says that something went wrong."""
    content = item.get("content")
    if isinstance(content, list):
        return {**item, "content": [{name: value for name, value in part.items() if name != "is_error"} for part in content]}
    return item


async def test_a_compaction_over_a_placeholder_keeps_the_pair(tk: Threadkeep, wire: WireName) -> None:
    """What stands in for an erased half is kept, stubbed or replaced with its other half, checkpoint after checkpoint."""
    parent, fork = await forked_at_a_call(tk, wire)
    await erased(tk, parent.id, await placed(parent, "call"))
    for number in range(4):
        call = f"n{number}"
        await fork.record([*called(wire, call), *outputs_of(wire, {call: f"file {number} is fine. " * 60})])
        await fork.record([person(wire, f"And part {number}?")])
        await fork.compact(target="60%" if number % 2 else "30%")
        window = list(await fork.window())
        assert refusal(wire, window) is None
        assert (await tk.verify(fork)).problems == ()
    assert (await tk.verify()).problems == ()


async def test_every_thread_that_loses_something_says_so(tk: Threadkeep) -> None:
    """Whose sake it was for, why, and which of its records: in the thread that was asked for and in its fork; nothing of what."""
    parent, fork = await forked_at_a_call(tk, "responses")
    for number in range(4):
        call = f"n{number}"
        await fork.record([person("responses", f"Step {number}."), *called("responses", call)])
        await fork.record(outputs_of("responses", {call: "fine. " * 300}))
    report = await fork.compact(target="50%")
    asked = (await placed(parent, "call"))[:1]
    await erased(tk, parent.id, asked)
    notes = {name: await noted(tk, name) for name in ("parent", "fork")}
    assert [(note.asked, note.reason, note.thread) for note in notes["parent"]] == [(asked, "asked to", "")]
    assert [(note.ordinals, note.reason, note.thread) for note in notes["fork"]] == [([report.checkpoint], "asked to", "parent")]
    assert SECRET not in str(notes)


async def noted(tk: Threadkeep, thread: str) -> list[ErasureNote]:
    notes = [
        read_erasure_note(record.body) for record in await (await tk.find(thread)).records() if record.kind is RecordKind.NOTE
    ]
    return [note for note in notes if note is not None]


async def test_the_proof_outlives_a_second_erasure(tk: Threadkeep) -> None:
    """Erasing the whole thread later keeps the notes of what was erased before, and a note somebody forged goes."""
    parent, _ = await forked_at_a_call(tk, "responses")
    await erased(tk, parent.id, await placed(parent, "call"))
    first = await noted(tk, parent.id)
    forged = json.dumps({"note": "erasure", "ordinals": [1], "asked": [], "reason": f"about {SECRET}"})
    other = await tk.thread("imported")
    await other.record([person("responses", "Hello.")])
    note = NewRecord(kind=RecordKind.NOTE, at_ms=1, turn=0, tokens=0, body=forged.encode())
    await tk.backend.store.append(other.id, [note], expected=(await tk.backend.store.get(other.id)).next)
    for thread in (parent, other):
        await erased(tk, thread.id, None)
    assert (await noted(tk, parent.id))[: len(first)] == first
    assert [note.reason for note in await noted(tk, other.id)] == ["asked to"]


@pytest.mark.parametrize(
    ("output", "call"),
    [
        (
            {"type": "custom_tool_call_output", "call_id": "c", "output": "x"},
            {"type": "custom_tool_call", "name": "erased", "input": "", "call_id": "c"},
        ),
        ({"type": "shell_call_output", "call_id": "c", "output": []}, None),
        ({"type": "message", "role": "user", "content": "Hello."}, None),
    ],
)
def test_only_what_a_provider_accepts_stands_in(output: Json, call: Json | None) -> None:
    """A call is made up only where its form says nothing about what was called, and only for an output that is there."""
    dialect = find_dialect("responses")
    records = [record_at(3, b"", erased=True), record_at(4, dialect.parse(output).raw)]
    shown = fill_erased(records, dialect=dialect, begins=False)
    assert shown[1] == records[1]
    assert (shown[0].body, shown[0].erased) == ((b"", True) if call is None else (dialect.parse(call).raw, False))


def test_several_erased_calls_each_get_one_back() -> None:
    """Where each call is an item of its own, each erased one stands in for another output."""
    dialect = find_dialect("responses")
    outputs = [{"type": "function_call_output", "call_id": call, "output": "x"} for call in ("c1", "c2")]
    bodies = [dialect.parse(output).raw for output in outputs]
    records = [record_at(at, b"", erased=True) for at in (0, 1, 2)] + [record_at(3 + at, body) for at, body in enumerate(bodies)]
    views = [
        dialect.view(Item(record.body)) for record in fill_erased(records, dialect=dialect, begins=False) if not record.erased
    ]
    assert (find_orphans(views), find_open_calls(views), len(views)) == ([], [], 4)


def record_at(ordinal: int, body: bytes, *, erased: bool = False) -> Record:
    return Record(
        thread_id="t", ordinal=ordinal, kind=RecordKind.ITEM, at_ms=0, turn=1, tokens=1, body=body, digest=b"", erased=erased
    )


async def test_what_nothing_can_stand_in_for_goes_too(tk: Threadkeep) -> None:
    """A fork's output of a form whose call must say what was run is erased with its call: no half is left."""
    parent = await tk.thread("parent")
    action = {"commands": [f"grep {SECRET}"]}
    await parent.record([person("responses", "Look."), {"type": "shell_call", "call_id": "s1", "action": action}])
    fork = await parent.fork(new_id="fork")
    ran = [{"stdout": "nothing", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    await fork.record([{"type": "shell_call_output", "call_id": "s1", "output": ran}, person("responses", "Go on.")])
    await erased(tk, parent.id, await placed(parent, "call"))
    assert list(await fork.window()) == [person("responses", "Look."), person("responses", "Go on.")]
