"""Times the start of threadkeep: importing the library, and the command line's help."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

from benchmarks.compaction.steps import Took, hold_by_clock
from benchmarks.result import Found
from benchmarks.samples import Summary, summarise
from benchmarks.tables import Table

IMPORT_MS, HELP_MS = 60, 150
BARE = ("-c", "pass")
IMPORT = ("-c", "import threadkeep")
HELP = ("-m", "threadkeep.cli", "--help")


def measure_start(*, rounds: int) -> Found:
    """Start each in turns, the first round uncounted, and hold the time of the clock against the design's bounds.

    What the interpreter alone takes, started in the same round, is subtracted from the import, which is what threadkeep adds to a
    program; a person who asks for help waits for all of it.
    """
    taken: dict[str, list[Took]] = {"interpreter alone": [], "import threadkeep": [], "threadkeep --help": []}
    for at in range(rounds + 1):
        for name, arguments in zip(taken, (BARE, IMPORT, HELP), strict=True):
            started = _time_start(arguments)
            if at:
                taken[name].append(started)
    found = Found()
    for name, values in taken.items():
        found.add(f"{name}, clock", "threadkeep", "ms", summarise([each.wall_ms for each in values]))
        found.add(f"{name}, processor", "threadkeep", "ms", summarise([each.cpu_ms for each in values]))
    added = [
        Took(wall_ms=ours.wall_ms - alone.wall_ms, cpu_ms=ours.cpu_ms - alone.cpu_ms)
        for ours, alone in zip(taken["import threadkeep"], taken["interpreter alone"], strict=True)
    ]
    hold_by_clock(found, "import threadkeep, beyond the interpreter, by the clock", added, at_most_ms=IMPORT_MS)
    hold_by_clock(found, "threadkeep --help, all of it, by the clock", taken["threadkeep --help"], at_most_ms=HELP_MS)
    return found


def start_table(found: Found) -> Table:
    """Return the figures as people read them."""
    rows = [[figure.measure, _format_summary(figure.value)] for figure in found.figures]
    return Table(title="Start", aside="milliseconds, median and middle half", columns=["", ">ms"], rows=rows)


def _time_start(arguments: tuple[str, ...]) -> Took:
    began = time.perf_counter_ns()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(wall_ms=(time.perf_counter_ns() - began) / 1e6, cpu_ms=cpu * 1_000)


def _format_summary(value: Summary) -> str:
    return f"{value.median:.0f} ({value.low:.0f}–{value.high:.0f})"
