"""A worker on the memory as a process of its own, killed like one that loses its power.

worker.py STORE NOW_MS CALL before|after     dies right before or after its nth write to the store; 0 for not at all
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass, replace

from tests.memory.crash_process import Dying

from threadkeep import Config, Threadkeep
from threadkeep.memory.memory import Memories


@dataclass(frozen=True)
class StoppedClock:
    ms: int

    def now_ms(self) -> int:
        return self.ms


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(store: str, now_ms: str, call: str, when: str) -> None:
    async with Threadkeep(Config(store=store), clock=StoppedClock(int(now_ms))) as tk:
        doomed = Dying(tk.backend.store, at=int(call), after=when == "after", dies=die)
        await Memories(replace(tk.backend, store=doomed)).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
