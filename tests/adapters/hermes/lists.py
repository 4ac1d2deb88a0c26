"""Lists of messages as Hermes keeps them, and engines as its agents get them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from threadkeep.adapters.bridge import shared
from threadkeep.adapters.hermes.engine import Engine
from threadkeep.adapters.hermes.messages import make_item
from threadkeep.client import Config, Threadkeep
from threadkeep.store import RecordKind

Message = dict[str, Any]
SESSION = "20260101_120000_aaaaaa"


def engine_for(home: Path, *, session: str = SESSION, copied: bool = True) -> Engine:
    """Return an engine as an agent of the host gets it: copied from the registered one, told its model and its session."""
    engine = copy.deepcopy(Engine()) if copied else Engine()
    engine.update_model(model="m", context_length=64_000, base_url="u", api_key="k", provider="p", api_mode="chat")
    engine.on_session_start(session, hermes_home=str(home), platform="cli", model="m", context_length=64_000, something_new=1)
    return engine


def turn(number: int, *, lines: int = 400) -> list[Message]:
    """Return a turn as the host keeps it, with keys of its own."""
    function = {"name": "read_file", "arguments": json.dumps({"path": f"part{number}.txt"})}
    return [
        {"role": "user", "content": f"Look at part {number}. Always keep port {8000 + number} free.", "_db_persisted": True},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
            "reasoning": "I should read it.",
            "finish_reason": "tool_calls",
        },
        {
            "role": "tool",
            "name": "read_file",
            "tool_call_id": f"c{number}",
            "content": "\n".join(f"part {number}, line {line}: nothing to report" for line in range(lines)),
        },
        {"role": "assistant", "content": f"Part {number} is fine.", "finish_reason": "stop", "_db_persisted": True},
    ]


def turns(first: int, last: int, *, lines: int = 400) -> list[Message]:
    return [message for number in range(first, last + 1) for message in turn(number, lines=lines)]


def said(text: str) -> Message:
    return {"role": "user", "content": text}


def recorded(home: Path, session: str = SESSION) -> list[Message]:
    """Return every item of the session's thread, once for each record."""

    async def read() -> list[Message]:
        async with Threadkeep(Config(store=str(home.parent / "threads.db"))) as tk:
            thread = await tk.thread(session, dialect="chat")
            assert (await tk.verify()).problems == ()
            ordinals = [record.ordinal for record in await thread.records() if record.kind is RecordKind.ITEM]
            return [await thread.original(f"#{ordinal}") for ordinal in ordinals]

    return shared.run(read())


def items(messages: list[Message]) -> list[Message]:
    return [make_item(message) for message in messages]


def find_faults(messages: list[Message]) -> list[str]:
    """Return what strict servers would refuse in a history without its head; empty if it can be sent."""
    faults: list[str] = []
    if not messages or messages[0].get("role") != "user":
        faults.append("it does not begin with a message of the user")
    opened: set[str] = set()
    before = ""
    for message in messages:
        role = str(message.get("role"))
        if role == before == "user":
            faults.append("two messages of the user stand in a row")
        if role == "tool" and message.get("tool_call_id") not in opened:
            faults.append(f"the result of call {message.get('tool_call_id')} has no call")
        if role == "assistant":
            calls = message.get("tool_calls")
            opened = {each["id"] for each in make_item(message).get("tool_calls", ())} if isinstance(calls, list) else set()
        before = role
    return faults
