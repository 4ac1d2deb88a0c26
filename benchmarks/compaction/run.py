"""`python -m benchmarks compaction`: times a long span, a little new text on a long thread, and memory."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.compaction.growing_thread import Growing, session_turns
from benchmarks.compaction.steps import Took, hold_by_clock, peak_bytes, plain_pass, plan_merge_audit, timed
from benchmarks.result import Figure, Found, Target, describe_machine
from benchmarks.samples import summarise, summarise_ratios
from threadkeep.compaction import Ledger, read_ledger
from threadkeep.dialects import Dialect, find_dialect
from threadkeep.threads import History
from threadkeep.tokens import estimate_item

DIALECT = "responses"
PLAIN = "plain pass"
LONG_SPAN_TOKENS = 1_000_000
SPAN_MS, NEW_MS, MEMORY = 1_000, 50, 5

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured.

    Attributes:
        span_tokens: The span compacted at once, and the length of the thread that a little is added to.
        new_tokens: That little.
        row: How many compactions in a row.
    """

    name: str
    span_tokens: int = LONG_SPAN_TOKENS
    new_tokens: int = 20_000
    rounds: int = 3
    row: int = 20


QUICK = Plan(name="quick")
FULL = Plan(name="full", rounds=9, row=200)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """A whole run."""

    plan: Plan
    seed: int
    seconds: float
    machine: str
    figures: tuple[Figure, ...]
    targets: tuple[Target, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the one object `--json` prints: `bench plan seed seconds machine figures targets`."""
        return {"bench": "compaction", **asdict(self), "plan": self.plan.name}


def run_compaction(plan: Plan, *, seed: int, say: Say) -> Compacted:
    """Measure everything there is to measure, and hold it against the design's bounds."""
    began = time.perf_counter()
    dialect = find_dialect(DIALECT)
    found = Found()
    _measure_span(plan, dialect, found, seed=seed, say=say)
    _measure_new(plan, dialect, found, seed=seed, say=say)
    _measure_memory(plan, dialect, found, seed=seed, say=say)
    _measure_row(plan, dialect, found, seed=seed, say=say)
    return Compacted(
        plan=plan,
        seed=seed,
        seconds=time.perf_counter() - began,
        machine=_machine(),
        figures=tuple(found.figures),
        targets=tuple(found.targets),
    )


def _measure_span(plan: Plan, dialect: Dialect, found: Found, *, seed: int, say: Say) -> None:
    say(f"a span of {plan.span_tokens:,} tokens, compacted at once")
    thread = grown(dialect, plan.span_tokens, seed=seed)
    sampled = _sampled(thread, Ledger(), rounds=plan.rounds)
    size = thread.history().tokens
    _put(found, "span at once", sampled.steps, sampled.plain, size=size)
    what = f"plan + merge + audit, {plan.span_tokens:,} tokens, by the clock"
    hold_by_clock(found, what, sampled.steps, at_most_ms=SPAN_MS, told=plan.span_tokens >= LONG_SPAN_TOKENS)


def _measure_new(plan: Plan, dialect: Dialect, found: Found, *, seed: int, say: Say) -> None:
    """Each round compacts a new stretch."""
    say(f"{plan.new_tokens:,} new tokens on a thread of {plan.span_tokens:,}, compacted every {plan.new_tokens:,}")
    thread = grown(dialect, plan.span_tokens, seed=seed, compact_every=plan.new_tokens)
    turns = session_turns(seed=seed + 2)
    going_on: list[Took] = []
    for _ in range(plan.rounds):
        gc.collect()
        going_on.append(_timed_steps(thread))
        thread.compact()
        _stretched(thread, turns, tokens=plan.new_tokens)
    size = thread.history().tokens
    plain = _sampled(thread, read_ledger(thread.history()), rounds=plan.rounds).plain
    _put(found, "new on a thread", going_on, plain, size=size)
    found.add("whole compaction there", "threadkeep", "ms", summarise([timed(thread.compact).wall_ms]), size=size)
    what = f"plan + merge + audit, {plan.new_tokens:,} new on {plan.span_tokens:,} tokens, by the clock"
    hold_by_clock(found, what, going_on, at_most_ms=NEW_MS, told=plan.span_tokens >= LONG_SPAN_TOKENS)


def _timed_steps(thread: Growing) -> Took:
    history = thread.history()
    ledger = read_ledger(history)
    return timed(lambda: plan_merge_audit(history, ledger, dialect=thread.dialect, tip=thread.tip))


def _stretched(thread: Growing, turns: Iterator[list[dict[str, Any]]], *, tokens: int) -> None:
    added = 0
    while added < tokens:
        added += thread.add(next(turns))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A compaction's steps over one history, and the plain pass."""

    steps: list[Took]
    plain: list[Took]


def _sampled(thread: Growing, ledger: Ledger, *, rounds: int) -> Sampled:
    history = thread.history()
    bodies = [item.raw for item in history.items]
    took, plain = [], []

    def steps() -> object:
        return plan_merge_audit(history, ledger, dialect=thread.dialect, tip=thread.tip)

    for _ in range(rounds):
        gc.collect()
        plain.append(timed(lambda: plain_pass(bodies)))
        took.append(timed(steps))
    return Sampled(steps=took, plain=plain)


def _measure_memory(plan: Plan, dialect: Dialect, found: Found, *, seed: int, say: Say) -> None:
    say("memory, traced")
    turns = list(_turns_of(plan.span_tokens, dialect, seed=seed))
    text = sum(len(dialect.parse(item).raw) for items in turns for item in items)
    thread = Growing(dialect)

    def make() -> History:
        for items in turns:
            thread.add(items)
        return thread.history()

    peak = peak_bytes(make, lambda history: plan_merge_audit(history, Ledger(), dialect=dialect, tip=thread.tip))
    times = summarise([peak / text])
    found.add("memory, all of it", "threadkeep", "× text", times, size=plan.span_tokens)
    # What every run takes, however short, is no share of a short text.
    told = times if plan.span_tokens >= LONG_SPAN_TOKENS else None
    found.hold_below("memory of it all : the text", at_most=MEMORY, value=told, unit="×")


def _measure_row(plan: Plan, dialect: Dialect, found: Found, *, seed: int, say: Say) -> None:
    say(f"{plan.row} compactions in a row")
    thread = Growing(dialect)
    taken: list[float] = []
    after: list[int] = []
    turns = session_turns(seed=seed)
    while len(taken) < plan.row:
        added = 0
        while added < plan.new_tokens:
            added += thread.add(next(turns))
        began = time.perf_counter_ns()
        after.append(thread.compact().tokens_after)
        taken.append((time.perf_counter_ns() - began) / 1e6)
    some = max(1, plan.row // 10)
    found.add("one of a row, early", "threadkeep", "ms", summarise(taken[:some]))
    found.add("one of a row, late", "threadkeep", "ms", summarise(taken[-some:]))
    found.add("window, late", "threadkeep", "tokens", summarise([float(size) for size in after[-some:]]))


def grown(dialect: Dialect, tokens: int, *, seed: int, compact_every: int | None = None) -> Growing:
    """Return a thread of that many tokens. Where it is compacted on the way, one more stretch came since the last time."""
    thread, since = Growing(dialect), 0
    for items in _turns_of(tokens, dialect, seed=seed):
        since += thread.add(items)
        if compact_every is not None and since >= compact_every:
            thread.compact()
            since = 0
    turns = session_turns(seed=seed + 1)
    while compact_every is not None and since < compact_every:
        since += thread.add(next(turns))
    return thread


def _turns_of(tokens: int, dialect: Dialect, *, seed: int) -> Iterator[list[dict[str, Any]]]:
    """Yield turns until they come to that many tokens."""
    reached = 0
    for items in session_turns(seed=seed):
        yield items
        reached += sum(estimate_item(dialect.parse(item).raw) for item in items)
        if reached >= tokens:
            return


def _put(found: Found, measure: str, took: Sequence[Took], plain: Sequence[Took], *, size: int) -> None:
    found.add(f"{measure}, clock", "threadkeep", "ms", summarise([each.wall_ms for each in took]), size=size)
    found.add(f"{measure}, processor", "threadkeep", "ms", summarise([each.cpu_ms for each in took]), size=size)
    found.add(f"{measure}, processor", PLAIN, "ms", summarise([each.cpu_ms for each in plain]), size=size)
    ratio = summarise_ratios([each.cpu_ms for each in took], [each.cpu_ms for each in plain])
    found.add(f"{measure} : {PLAIN}", "threadkeep", "×", ratio, size=size)


def _machine() -> str:
    # No disk takes part in this.
    still = summarise([0.0])
    at = describe_machine(fsync_before=still, fsync_after=still)
    return f"{at.processor}, {at.cores} cores, {at.system}, {at.python}"
