"""`python -m benchmarks store`: threadkeep's store next to SQLite and other stores, in one run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from benchmarks.result import Competitor, Found, Result, describe_machine
from benchmarks.samples import measure_fsync, measure_ms, sample_interleaved, summarise
from benchmarks.store.appends import THREADKEEP, measure_appends, measure_sharing, measure_sizes
from benchmarks.store.disk_size import measure_size
from benchmarks.store.growth import Grown, grow, make_real_checkpoint
from benchmarks.store.long_thread import measure_branching, measure_lookup, measure_memory, measure_resume
from benchmarks.store.peers import Contender, Entrant, entrants
from benchmarks.store.workload import Workload

LOADED = "load all"
BATCH_ROWS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured.

    Attributes:
        append_rounds: Samples of every append beside others, after one that is not counted.
        rounds: Samples of every other measure, likewise.
        rows: Appends of one row in a round.
        turns: Appends of one turn in a round.
        writers: How many write at once.
        sizes: Lengths of the threads that are resumed, forked and so on, in records.
        loaded: Lengths of the histories that everyone loads whole.
        checkpoints: Compactions before a store is weighed.
        probes: How often fsync is timed.
    """

    name: str
    append_rounds: int
    rounds: int
    rows: int
    turns: int
    writers: int
    sizes: Sequence[int]
    loaded: Sequence[int]
    checkpoints: int
    probes: int


QUICK = Plan(
    name="quick",
    append_rounds=25,
    rounds=9,
    rows=20,
    turns=4,
    writers=64,
    sizes=(10, 1_000, 10_000, 100_000),
    loaded=(1_000, 10_000),
    checkpoints=50,
    probes=100,
)
FULL = Plan(
    name="full",
    append_rounds=41,
    rounds=15,
    rows=20,
    turns=4,
    writers=64,
    sizes=(10, 1_000, 10_000, 100_000, 1_000_000),
    loaded=(1_000, 10_000, 100_000),
    checkpoints=50,
    probes=200,
)


async def run_store(plan: Plan, *, seed: int, say: Callable[[str], None], folder: Path | None = None) -> Result:
    """Measure everything, in a temporary folder that is gone afterwards; `say` reports progress.

    Args:
        folder: Where the temporary folder is made; the disk under it is the one measured.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="threadkeep-bench-", dir=folder) as made:
        return await _Run(plan, seed=seed, say=say, folder=Path(made)).result(began=began)


class _Run:
    def __init__(self, plan: Plan, *, seed: int, say: Callable[[str], None], folder: Path) -> None:
        self._plan = plan
        self._seed = seed
        self._say = say
        self._folder = folder
        self._workload = Workload(seed=seed)
        self._found = Found()

    async def result(self, *, began: float) -> Result:
        self._say("timing fsync")
        before = measure_fsync(self._folder, times=self._plan.probes)
        present = [entrant for entrant in entrants() if entrant.version is not None]
        durability = await self._beside_others(present, fsync=before.median)
        await self._whole_histories(present)
        self._say(f"weighing a thread of {self._plan.checkpoints} compactions")
        await measure_size(self._folder, self._found, workload=self._workload, checkpoints=self._plan.checkpoints)
        await self._long_threads()
        after = measure_fsync(self._folder, times=self._plan.probes)
        return Result(
            bench="store",
            plan=self._plan.name,
            seed=self._seed,
            seconds=round(time.monotonic() - began, 1),
            machine=describe_machine(fsync_before=before, fsync_after=after),
            contenders=[
                Competitor(name=each.name, version=each.version, durability=durability.get(each.name), note=each.note)
                for each in entrants()
            ],
            figures=self._found.figures,
            targets=self._found.targets,
        )

    async def _beside_others(self, present: Sequence[Entrant], *, fsync: float) -> dict[str, str]:
        """Append the same rows everywhere and weigh the files; return how durable each one's commits were."""
        plan, folders = self._plan, self._folders(present, "append")
        everyone = {entrant.name: await entrant.open(folders[entrant.name]) for entrant in present}
        durability = {name: contender.durability for name, contender in everyone.items()}
        self._say(f"appending beside {', '.join(name for name in everyone if name != THREADKEEP)}")
        rows = await measure_appends(
            everyone, self._found, workload=self._workload, rounds=plan.append_rounds, rows=plan.rows, turns=plan.turns
        )
        await _close(everyone)
        measure_sizes(folders, self._found, rows=rows)
        self._say(f"appending with {plan.writers} writers at once")
        folders = self._folders(present, "share")
        everyone = {entrant.name: await entrant.open(folders[entrant.name]) for entrant in present}
        await measure_sharing(
            everyone, self._found, workload=self._workload, rounds=plan.rounds, writers=plan.writers, fsync_ms=fsync
        )
        await _close(everyone)
        return durability

    async def _whole_histories(self, present: Sequence[Entrant]) -> None:
        """Load histories that were never compacted, which is all the others can do."""
        for size in self._plan.loaded:
            self._say(f"loading whole histories of {size:,} rows")
            rows = list(islice(self._workload.rows(), size))
            folders = self._folders(present, f"load-{size}")
            everyone = {entrant.name: await entrant.open(folders[entrant.name]) for entrant in present}
            for contender in everyone.values():
                step = BATCH_ROWS if contender.shares_commits else size
                for first in range(0, size, step):
                    await contender.append("loaded", rows[first : first + step])
            samplers = {name: partial(_loaded, contender, size) for name, contender in everyone.items()}
            for name, samples in (await sample_interleaved(samplers, rounds=max(1, self._plan.rounds // 3))).items():
                self._found.add(LOADED, name, "ms", summarise(samples), size=size)
            await _close(everyone)

    async def _long_threads(self) -> None:
        plan, grown = self._plan, {}
        model = await make_real_checkpoint(self._folder, workload=self._workload)
        for size in plan.sizes:
            self._say(f"building a thread of {size:,} records, in batches")
            path = self._folder / f"long-{size}.db"
            grown[size] = await grow(path, records=size, workload=self._workload, model=model)
        await self._live_through(grown)

    async def _live_through(self, grown: Mapping[int, Grown]) -> None:
        rounds = self._plan.rounds
        self._say("resuming threads of every length")
        await measure_resume(grown, self._found, rounds=rounds)
        await measure_memory(grown, self._found)
        self._say("looking histories up")
        await measure_lookup(grown, self._found, rounds=rounds)
        self._say("appending, forking and rolling back at every length")
        await measure_branching(grown, self._found, workload=self._workload, rounds=rounds)

    def _folders(self, present: Sequence[Entrant], purpose: str) -> dict[str, Path]:
        folders = {entrant.name: self._folder / purpose / entrant.name.replace(" ", "-") for entrant in present}
        for folder in folders.values():
            folder.mkdir(parents=True)
        return folders


async def _loaded(contender: Contender, size: int) -> float:
    async def work() -> None:
        loaded = await contender.resume("loaded")
        if loaded != size:
            raise RuntimeError(f"{loaded:,} of {size:,} items came back")

    return await measure_ms(work)


async def _close(everyone: Mapping[str, Contender]) -> None:
    for contender in everyone.values():
        await contender.close()
