"""An agent: one thread, one model, some tools, and the loop between them. Built on the public library alone.

async with holdfast.open("agent.db") as hf:
    session = await Session.open(hf, "ship-it", model="openai:NAME", tools=[read_file])
    answer = await session.ask("Why does the build fail?")
"""

from __future__ import annotations

from holdfast.session.events import Answer, Asked, Called, Compacted, Event, Returned, Said, Trouble
from holdfast.session.session import Session
from holdfast.session.tools import Tool, tool_from
from holdfast.session.wire import Call

__all__ = [
    "Answer",
    "Asked",
    "Call",
    "Called",
    "Compacted",
    "Event",
    "Returned",
    "Said",
    "Session",
    "Tool",
    "Trouble",
    "tool_from",
]
