"""`python -m benchmarks retention`: the plans and the run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.frozen import frozen_session
from benchmarks.result import Target
from benchmarks.retention.arms import Arm
from benchmarks.retention.planted_session import Planted
from benchmarks.retention.play import Play
from benchmarks.retention.sessions import planted_session
from benchmarks.retention.tally import Tally
from benchmarks.retention.targets import targets_of
from threadkeep.client import Config, Threadkeep


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured.

    Attributes:
        seeds: How many sessions, each of its own seed, are played in every dialect.
        scored: The hops after which every arm is judged; the last one should be among them.
    """

    name: str
    dialects: Sequence[str]
    seeds: int
    turns: int
    hops: int
    scored: Sequence[int]


# The story is the demo's, and what the library was developed on; the frozen family was never looked at for that.
FAMILIES: Mapping[str, Callable[..., Planted]] = {"story": planted_session, "frozen": frozen_session}
QUICK = Plan(name="quick", dialects=("responses",), seeds=4, turns=60, hops=10, scored=(1, 2, 5, 10))
FULL = Plan(
    name="full", dialects=("responses", "chat", "messages"), seeds=4, turns=250, hops=50, scored=(1, 2, 5, 10, 20, 30, 40, 50)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """A whole run of one family. `seconds` and `tally.took` come from the clock; nothing that is scored does.

    `seed` also tells the order of every probe's options.
    """

    family: str
    plan: Plan
    seed: int
    tally: Tally
    targets: Sequence[Target]
    seconds: float

    def scored_json(self) -> dict[str, Any]:
        """Return what the same plan and seed give byte for byte, every cell of it."""
        scored = asdict(self.tally)
        del scored["took"]
        targets = [asdict(each) for each in self.targets]
        return {"family": self.family, "plan": asdict(self.plan), "seed": self.seed, **scored, "targets": targets}

    def as_json(self) -> dict[str, Any]:
        """Return what is scored, and under `clock` what is not the same twice."""
        clock = {"seconds": self.seconds, "took": [asdict(each) for each in self.tally.took]}
        return {**self.scored_json(), "clock": clock}


async def run_retention(
    plan: Plan,
    *,
    family: str,
    seed: int,
    say: Callable[[str], None],
    folder: Path | None = None,
    more: Callable[[int], Sequence[tuple[str, Arm]]] | None = None,
) -> Retained:
    """Play every session of the plan, in a temporary folder that is gone afterwards; `say` reports progress.

    The first session has the seed `seed`, the next ones the numbers after it.

    Args:
        more: Given a seed, further arms by name, none of which has seen anything; they play the sessions in Chat Completions.
    """
    began = time.monotonic()
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="threadkeep-bench-", dir=folder) as made:
        for number in range(seed, seed + plan.seeds):
            planted = FAMILIES[family](seed=number, turns=plan.turns, hops=plan.hops)
            for dialect in plan.dialects:
                say(f"{family}, seed {number}, {dialect}: {plan.turns} turns, {plan.hops} compactions")
                stores = [str(Path(made) / f"{dialect}-{number}-{part}.db") for part in ("searched", "beside")]
                async with Threadkeep(Config(store=stores[0])) as tk, Threadkeep(Config(store=stores[1])) as beside:
                    arms = more(number) if more is not None and dialect == "chat" else ()
                    play = Play(planted, dialect=dialect, scored=plan.scored, tally=tally, more=arms)
                    await play.through(tk, beside=beside)
    return Retained(
        family=family,
        plan=plan,
        seed=seed,
        tally=tally,
        targets=targets_of(tally, hops=plan.hops, seeds=plan.seeds),
        seconds=round(time.monotonic() - began, 1),
    )
