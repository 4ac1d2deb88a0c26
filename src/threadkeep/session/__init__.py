"""An agent: one thread, one model, some tools, and the loop between them. Built on the public library alone.

async with threadkeep.open("agent.db") as tk:
    session = await Session.open(tk, "ship-it", model="openai:NAME", tools=[read_file])
    answer = await session.ask("Why does the build fail?")
"""

from __future__ import annotations

from threadkeep.session.events import Answer, Asked, Called, Compacted, Event, Returned, Said, Trouble
from threadkeep.session.session import Session, StreamsItems
from threadkeep.session.tools import Tool, tool_from

__all__ = [
    "Answer",
    "Asked",
    "Called",
    "Compacted",
    "Event",
    "Returned",
    "Said",
    "Session",
    "StreamsItems",
    "Tool",
    "Trouble",
    "tool_from",
]
