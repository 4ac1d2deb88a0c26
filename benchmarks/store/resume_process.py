"""A process that resumes one thread and says how much memory that took at most: `resume_process STORE THREAD`."""

from __future__ import annotations

import asyncio
import re
import resource
import sys
from pathlib import Path

from threadkeep.client import Config, Threadkeep


def peak_bytes() -> int:
    """Return the most memory this program ever held.

    On Linux a process inherits its parent's peak in `ru_maxrss`; the status file has the program's own.
    """
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8"))):
        return int(found[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


async def _resume(store: str, thread: str) -> None:
    async with Threadkeep(Config(store=store)) as tk:
        await (await tk.thread(thread)).window()


if __name__ == "__main__":
    asyncio.run(_resume(sys.argv[1], sys.argv[2]))
    sys.stdout.write(f"{peak_bytes()}\n")
