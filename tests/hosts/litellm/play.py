"""A conversation as a client of LiteLLM holds it, and what its model is to be sent for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.doubles.script import Received, Reply, call, say
from tests.hosts.said import Laid, laid_out

from threadkeep.client import Config, Threadkeep
from threadkeep.store import RecordKind

Json = dict[str, Any]

SYSTEM = {"role": "system", "content": "Be terse."}
WINDOW_TOKENS = 8_000
TURNS = 36
FILLER = "and this is how things stood on that day, as far as anybody wrote it down. " * 30


def asks(number: int) -> Json:
    return {"role": "user", "content": f"Report {number}: always keep port {8000 + number} free. {FILLER}"}


def replies() -> list[Reply]:
    """Return what the model says to each report: it looks once, then answers."""
    turns = ((call("look", {"at": number}, call_id=f"c{number}"), say(f"Noted {number}.")) for number in range(TURNS))
    return [reply for turn in turns for reply in turn]


def looked(number: int) -> Json:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": f"report {number} is on file under heliotrope-{number}"}


def calls(number: int) -> Json:
    function = {"name": "look", "arguments": json.dumps({"at": number})}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}]}


def history() -> Iterator[list[Json]]:
    """Yield what the client shows with each request."""
    shown: list[Json] = [SYSTEM]
    for number in range(TURNS):
        shown = [*shown, asks(number)]
        yield shown
        shown = [*shown, calls(number), looked(number)]
        yield shown
        shown = [*shown, {"role": "assistant", "content": f"Noted {number}."}]


def essential(message: Mapping[str, Any]) -> Json:
    """Return what a message says; SDKs write out fields that say nothing."""
    names = ("role", "content", "tool_calls", "tool_call_id")
    kept: Json = {name: message[name] for name in names if message.get(name) is not None}
    if "tool_calls" in kept:
        kept["tool_calls"] = [{name: each[name] for name in ("id", "type", "function")} for each in kept["tool_calls"]]
    return kept


def sent(request: Received) -> list[Json]:
    return [essential(message) for message in request.history]


async def states(store: Path, thread_id: str) -> list[Laid]:
    """Return what each checkpoint puts before a request; the store must prove itself."""
    async with Threadkeep(Config(store=str(store))) as tk:
        assert (await tk.verify()).problems == ()
        thread = await tk.thread(thread_id, dialect="chat")
        return laid_out(await thread.records())


async def items(store: Path, thread_id: str) -> list[Json]:
    """Return every item of a thread's own records."""
    async with Threadkeep(Config(store=str(store))) as tk:
        records = await (await tk.thread(thread_id, dialect="chat")).records()
        return [essential(json.loads(record.body)) for record in records if record.kind is RecordKind.ITEM]


def expected(requests: list[Received], kept: list[Laid]) -> list[list[Json]]:
    """Return what each request is to hold: what the client shows, until a state takes the place of all before a turn's request.

    Where a request is not the one before and what came since, the next of the states must stand in front of the turn's own
    report, with what the turn has done so far behind it, and so on from there.
    """
    lists: list[list[Json]] = []
    coming = iter(kept)
    shown_before: list[Json] = []
    window: list[Json] = []
    for request, shown in zip(requests, history(), strict=True):
        window = [*window, *map(essential, shown[len(shown_before) :])]
        shown_before = shown
        if sent(request) != window:
            own = max(at for at, message in enumerate(window) if message["role"] == "user")
            report = window[own]["content"][window[own]["content"].rindex("Report ") :] if own else ""
            window = [SYSTEM, {"role": "user", "content": next(coming).before(report)}, *window[own + 1 :]]
        lists.append(window)
    assert list(coming) == []
    return lists
