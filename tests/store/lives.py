"""A process that begins lives, one after the other, each a process that works on a store until it is killed.

It reads a store's location and the number of the life from each line of its input, and prints the process that it began, what
that one says, and `ended`. A life is a fork: nothing is imported again, so that a hundred of them cost seconds.

    began PID
    LANE records NUMBER      a turn is about to be recorded
    LANE recorded NUMBER     it was acknowledged
    LANE compacts            a compaction begins
    LANE compacted ORDINAL   it was acknowledged, with this checkpoint
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import suppress
from itertools import count

from threadkeep import Config, Threadkeep
from threadkeep.errors import NothingToCompact

LANES = ("left", "right")
# The clock of each life is so much ahead of the one before it: a lease that a killed one held has run out.
LIFE_MS = 3_600_000
COMPACTED_EVERY = 3
WORK = "read line by line, and it looks as it should; " * 30


def make_turn(number: int) -> list[dict[str, object]]:
    """Return the items of a turn."""
    call = {"id": f"call_{number}", "type": "function", "function": {"name": "shell", "arguments": f'{{"cmd":"cat {number}"}}'}}
    return [
        {"role": "user", "content": f"Please look into part {number} of the parser."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": WORK},
        {"role": "assistant", "content": f"Part {number} is fine."},
    ]


def tell(text: str) -> None:
    # One small write to a pipe is never torn; buffered output would die with the process.
    os.write(1, f"{text}\n".encode())


async def live(tk: Threadkeep, lane: str) -> None:
    """Record turns and compact, for ever."""
    thread = await tk.thread(lane, dialect="chat")
    items = [record for record in await thread.records() if record.kind == "item"]
    for number in count(len(items) // len(make_turn(0))):
        tell(f"{lane} records {number}")
        await thread.record(make_turn(number))
        tell(f"{lane} recorded {number}")
        if number % COMPACTED_EVERY == COMPACTED_EVERY - 1:
            tell(f"{lane} compacts")
            with suppress(NothingToCompact):
                report = await thread.compact(strategy="extractive")
                tell(f"{lane} compacted {report.checkpoint}")


class LaterClock:
    """The system's clock, set ahead."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms


async def live_all(location: str, number: int) -> None:
    clock = LaterClock(number * LIFE_MS)
    async with Threadkeep(Config(store=location, model_context_window=2_000), clock=clock) as tk:
        await asyncio.gather(*(live(tk, lane) for lane in LANES))


def main() -> None:
    for line in sys.stdin:
        location, number = line.split()
        if (process := os.fork()) == 0:
            asyncio.run(live_all(location, int(number)))
        tell(f"began {process}")
        os.waitpid(process, 0)
        tell("ended")


if __name__ == "__main__":
    main()
