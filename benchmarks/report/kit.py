"""compaction-conformance-kit, where it is installed: threadkeep beside the compactors it ships, by its own benchmark."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchmarks.result import Found
from benchmarks.tables import Table
from threadkeep.client import Config, Thread, Threadkeep
from threadkeep.errors import NothingToCompact
from threadkeep.tokens import estimate_bytes

PACKAGE = "compaction-conformance-kit"
NAME = "threadkeep"
BUDGETS = (0.30, 0.20, 0.10)


def find_kit_version() -> str | None:
    """Return the version that is installed, or None."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return None


def measure_kit(*, seeds: int, rounds: int = 5) -> tuple[Found, list[Table], dict[str, Any]]:
    """Run the kit's benchmark over threadkeep and every compactor it ships; the kit must be installed."""
    benchmark, cli = import_module("compaction_kit.benchmark"), import_module("compaction_kit.cli")
    with asyncio.Runner() as runner:
        tk = runner.run(Threadkeep(Config(store="memory:")).__aenter__())
        try:
            payload: dict[str, Any] = benchmark.run_budget_benchmark(
                {NAME: lambda: _Compactor(runner, tk), **cli.COMPACTORS},
                budgets=BUDGETS,
                seeds=tuple(range(1, seeds + 1)),
                rounds=rounds,
            )
        finally:
            runner.run(tk.__aexit__(None, None, None))
    found = Found()
    for budget in BUDGETS:
        _hold(found, payload["entries"], budget)
    stale = sum(_count_stale(entry) for entry in payload["entries"] if entry["compactor"] == NAME)
    found.hold("stale values in view, by the kit's count", bound="0", found=str(stale), met=stale == 0)
    return found, [_build_table(payload["entries"])], payload


def _hold(found: Found, entries: Sequence[dict[str, Any]], budget: float) -> None:
    group = {entry["compactor"]: entry for entry in entries if entry["budget_fraction"] == budget}
    ours = group.pop(NAME)
    best = max(_read_survival(entry) for entry in group.values() if entry["budget_compliant"])
    kept, fits = _read_survival(ours), bool(ours["budget_compliant"])
    bound, met = {
        0.30: ("100%, within the budget", kept == 1 and fits),
        0.20: ("≥ 90%, within the budget", kept >= 0.9 and fits),
        0.10: (f"above {best:.0%}, within the budget", kept > best and fits),
    }[budget]
    size = f"{ours['max_output_to_budget']:.2f} × the budget"
    found.hold(f"survival at {budget:.0%}".replace("%", " %"), bound=bound, found=f"{kept:.0%}, {size}", met=met)


def _read_survival(entry: dict[str, Any]) -> float:
    return float(entry["randomized"]["overall_final_survival"])


def _count_stale(entry: dict[str, Any]) -> int:
    return int(entry["randomized"]["supersession"]["stale"]) + int(entry["semantic"]["conflicts"]["stale"])


def _build_table(entries: Sequence[dict[str, Any]]) -> Table:
    rows = [
        [
            f"{entry['budget_fraction']:.0%}",
            entry["compactor"],
            f"{_read_survival(entry):.0%}",
            f"{entry['max_output_to_budget']:.2f} ×",
            "yes" if entry["budget_compliant"] else "no",
            str(_count_stale(entry)),
        ]
        for entry in entries
    ]
    return Table(
        title="Canaries, by budget",
        aside="canaries after five rounds; who is not within the budget is not ranked by the kit",
        columns=["budget", "compactor", ">survive", ">size", "fits", ">stale"],
        rows=rows,
    )


class _Compactor:
    """One session of the kit as one thread; a round that brings back what the last one returned goes on with it."""

    name = NAME

    def __init__(self, runner: asyncio.Runner, tk: Threadkeep) -> None:
        self._runner = runner
        self._tk = tk
        self._thread: Thread | None = None
        self._returned: str | None = None

    def compact(self, turns: Sequence[Any], round_num: int = 1, budget_chars: int | None = None) -> object:
        if [turn.text for turn in turns] != [self._returned]:
            self._thread = None
        self._returned = self._runner.run(self._round(turns, budget_chars))
        return _Compacted(text=self._returned, round_num=round_num)

    async def _round(self, turns: Sequence[Any], budget_chars: int | None) -> str:
        if self._thread is None:
            self._thread = await self._tk.thread(dialect="chat")
            await self._thread.record([{"role": turn.role, "content": turn.text} for turn in turns])
        # A round without anything new has nothing to compact: the window is what it was.
        with suppress(NothingToCompact):
            await self._thread.compact(target=None if budget_chars is None else str(estimate_bytes(budget_chars)))
        return "\n".join(f"[{message['role']}] {message['content']}" for message in await self._thread.window())


class _Compacted:
    """What the kit reads of a round."""

    compactor_name = NAME
    structured = None

    def __init__(self, *, text: str, round_num: int) -> None:
        self.text = text
        self.round_num = round_num
