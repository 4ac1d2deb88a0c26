"""The design's targets, and the result of a run for each: met, missed, not told (the run was too short), or not run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.report.part import KeptTarget, Part

Verdict = Literal["met", "missed", "not told", "not run"]

LONGEST, FIFTY = "1,000,000", "over 50 checkpoints"
FROZEN, STORY = "retention-frozen", "retention-story"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A bound of the design: its row in the table, the part that measures it, and how that part's targets for it begin.

    Attributes:
        holds: What such a target also holds.
        needs: What a target must hold to tell: a shorter run's is shown, and not judged.
    """

    row: str
    what: str
    bound: str
    part: str
    begins: str
    holds: str = ""
    needs: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A bound beside what was found, and the part that measures it."""

    row: str
    what: str
    bound: str
    found: str
    verdict: Verdict
    part: str


def _build_kept_bounds(row: str, *, holds: str) -> tuple[Bound, ...]:
    bounds = (
        ("user-stated, after 50 compactions", "≥ 99%", "user-stated facts kept"),
        ("stale values active without the newer", "0", "stale values"),
        ("largest window, tokens", "≤ 20,000", "largest window"),
    )
    return tuple(
        Bound(row=row, what=what, bound=bound, part=FROZEN, begins=begins, holds=holds) for what, bound, begins in bounds
    )


FACTS, HARM, KIT = "facts kept", "facts kept, any summariser", "conformance kit"
APPEND, SIZE, RESUME, BRANCH = "append, durable", "store size", "resume", "fork, rollback"
GATEWAY, STEPS, START = "gateway, 1 MB streamed", "plan + merge + audit", "start"

BOUNDS: tuple[Bound, ...] = (
    *_build_kept_bounds(FACTS, holds="(extractive)"),
    Bound(row=FACTS, what="recall@5 from the question", bound="≥ 95%", part=FROZEN, begins="recall@5"),
    *_build_kept_bounds(HARM, holds="(session"),
    Bound(row=KIT, what="survival at 30 %", bound="100%", part="kit", begins="survival at 30 %"),
    Bound(row=KIT, what="survival at 20 %", bound="≥ 90%", part="kit", begins="survival at 20 %"),
    Bound(row=KIT, what="survival at 10 %", bound="above every bundled one", part="kit", begins="survival at 10 %"),
    Bound(row=KIT, what="stale values", bound="0", part="kit", begins="stale"),
    Bound(row=APPEND, what="one row : raw SQLite", bound="≤ 1.3 ×", part="store", begins="append 1 row : raw SQLite"),
    Bound(row=APPEND, what="one turn : raw SQLite", bound="≤ 1.3 ×", part="store", begins="append 1 turn : raw SQLite"),
    Bound(row=APPEND, what="flat with the thread's length", bound="≤ 1.5 ×", part="store", begins="append, ", needs=LONGEST),
    Bound(row=APPEND, what="64 writers share commits", bound="≥ 5,000/s or ≥ 20 ×", part="store", begins="64 writers"),
    Bound(row=APPEND, what="one row : SQLiteSession", bound="≤ 1 ×", part="store", begins="append 1 row : agents"),
    Bound(row=APPEND, what="one turn : SQLiteSession", bound="≤ 1 ×", part="store", begins="append 1 turn : agents"),
    Bound(row=APPEND, what="one row : SqliteSaver", bound="≤ 1 ×", part="store", begins="append 1 row : langgraph"),
    Bound(row=APPEND, what="one turn : SqliteSaver", bound="≤ 1 ×", part="store", begins="append 1 turn : langgraph"),
    Bound(
        row=SIZE,
        what="without search : raw JSON",
        bound="≤ 1.3 ×",
        part="store",
        begins="file without search",
        needs=FIFTY,
    ),
    Bound(
        row=SIZE,
        what="with search : raw JSON",
        bound="≤ 2 ×",
        part="store",
        begins="file with search",
        needs=FIFTY,
    ),
    Bound(row=RESUME, what="at 10,000 records", bound="≤ 10 ms", part="store", begins="resume at 10,000"),
    Bound(row=RESUME, what="longest : 1,000 records", bound="≤ 2 ×", part="store", begins="resume, from closed", needs=LONGEST),
    Bound(
        row=RESUME, what="longest : 1,000, store open", bound="≤ 2 ×", part="store", begins="window, store open", needs=LONGEST
    ),
    Bound(row=BRANCH, what="fork, longest : shortest", bound="≤ 1.5 ×", part="store", begins="fork in the middle", needs=LONGEST),
    Bound(row=BRANCH, what="rollback, longest : shortest", bound="≤ 1.5 ×", part="store", begins="rollback", needs=LONGEST),
    Bound(row=GATEWAY, what="known prefix, added", bound="≤ 5 ms", part="gateway", begins="1 MB streamed, known history"),
    Bound(row=GATEWAY, what="unknown prefix, added", bound="≤ 25 ms", part="gateway", begins="1 MB streamed, unknown history"),
    Bound(
        row=GATEWAY,
        what="requests a second : LiteLLM's, 1 kB requests, known histories",
        bound="≥ 5 ×",
        part="gateway",
        begins="requests a second",
    ),
    Bound(
        row=STEPS,
        what="a span of 1M tokens, seen once, by the clock",
        bound="≤ 1 s",
        part="compaction",
        begins="plan + merge + audit, 1,000,000",
    ),
    Bound(
        row=STEPS,
        what="20k new on 1M tokens, as a process goes on, by the clock",
        bound="≤ 50 ms",
        part="compaction",
        begins="plan + merge + audit, 20,000 new",
        needs="on 1,000,000",
    ),
    Bound(row=STEPS, what="memory : the text", bound="≤ 5 ×", part="compaction", begins="memory"),
    Bound(row=START, what="import threadkeep, by the clock", bound="≤ 60 ms", part="start", begins="import threadkeep"),
    Bound(row=START, what="threadkeep --help, by the clock", bound="≤ 150 ms", part="start", begins="threadkeep --help"),
)


def judge_bounds(parts: Mapping[str, Part]) -> list[Judged]:
    """Return every bound of the design with what was found for it, in the design's order; none is left out."""
    return [line for bound in BOUNDS for line in _judge_bound(bound, parts.get(bound.part))]


def _judge_bound(bound: Bound, part: Part | None) -> Iterator[Judged]:
    found = (
        [] if part is None else [each for each in part.targets if each.what.startswith(bound.begins) and bound.holds in each.what]
    )
    for target in found:
        # Several targets of one bound are told apart by their own words.
        rest = target.what.removeprefix(bound.begins).removesuffix(": added").strip(", ")
        what = f"{bound.what}, {rest}" if rest and len(found) > 1 else bound.what
        verdict = _decide_verdict(target) if bound.needs in target.what else "not told"
        yield Judged(row=bound.row, what=what, bound=target.bound, found=target.found, verdict=verdict, part=bound.part)
    if not found:
        why = "this part was not run" if part is None else f"not measured by this {part.plan} run"
        yield Judged(row=bound.row, what=bound.what, bound=bound.bound, found=why, verdict="not run", part=bound.part)


def _decide_verdict(target: KeptTarget) -> Verdict:
    if target.met is None:
        return "not run" if target.found.startswith("not measured") else "not told"
    return "met" if target.met else "missed"
