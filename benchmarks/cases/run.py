"""Runs the cases: every variant of every session, hop by hop, each thread prepared once and asked in forks."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from benchmarks.cases.lab import CHAIN_CONTROL, COMPACTED, NONE, SOURCE, Lab, Stretch, key_of, lab_store
from benchmarks.cases.manifest import VERSION, Manifest, SessionRecipe
from benchmarks.cases.probes import make_probes
from benchmarks.cases.progress import AnsweredCase, Prepared, Progress, open_progress
from benchmarks.cases.readers import Reader
from benchmarks.cases.recipes import items_by_hop
from benchmarks.code import compute_code_digest
from threadkeep import __version__
from threadkeep.errors import BadInput
from threadkeep.llm import Model

SINGLE = (SOURCE, "session", "handoff", "extractive", NONE)
CHAIN = (CHAIN_CONTROL, "session", "handoff", "extractive", NONE)
# Compacted by asking a model.
ASKING = frozenset({"session", "handoff"})
PROGRESS = "progress.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is run. The same terms and a reader that always answers alike give the same scores.

    Attributes:
        chain: A compaction after every hop; else one over the whole session.
        hops: How many hops of each session are played; 0 for all of them.
        asked_at: The hops after which is asked; all, if empty.
        cases: Only these are asked; all, if empty.
        window_tokens: The window of the model the threads are for.
        target: What a compaction aims at, as `compact --target` takes it.
        noisy: Whether tools also print noise; without it sessions are half as long, for readers that are slow.
    """

    chain: bool
    variants: Sequence[str]
    hops: int = 0
    asked_at: Sequence[int] = ()
    cases: Sequence[str] = ()
    seed: int = 1
    window_tokens: int = 8_192
    target: str = "50%"
    noisy: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesRun:
    """A whole run; `seconds` is that of this process, where an earlier one had done a part.

    `codes` has a digest of threadkeep's source for each that took part: several where the run went on with other code.
    """

    terms: dict[str, Any]
    codes: tuple[str, ...]
    prepared: tuple[Prepared, ...]
    answered: tuple[AnsweredCase, ...]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the one object `--json` prints, without the aggregates."""
        lines = {"prepared": list(self.prepared), "answered": list(self.answered)}
        made = {"bench": "cases", "version": VERSION, **self.terms, "codes": list(self.codes)}
        return {**made, **msgspec.to_builtins(lines), "seconds": self.seconds}


async def run_cases(
    manifest: Manifest,
    terms: Terms,
    *,
    reader: Reader,
    summariser: Model | None,
    say: Callable[[str], None],
    lab: Path | None = None,
    mixed: bool = False,
) -> CasesRun:
    """Run, in a lab that is gone afterwards, or in the folder `lab`, where a run that was broken off goes on.

    With other code than it was made by it goes on only if `mixed`.

    Raises:
        BadInput: A variant or case is unknown, a variant needs a summariser and has none, something would never be asked, or the
            lab holds another run.
    """
    began = time.monotonic()
    _check(manifest, terms, summariser=summariser)
    told = _describe_run(manifest, terms, reader=reader, summariser=summariser)
    async with AsyncExitStack() as stack:
        folder = lab or Path(stack.enter_context(TemporaryDirectory(prefix="threadkeep-cases-")))
        folder.mkdir(parents=True, exist_ok=True)
        progress = open_progress(folder / PROGRESS, terms=told, mixed=mixed)
        tk = await stack.enter_async_context(lab_store(folder, window_tokens=terms.window_tokens))
        bench = Lab(tk, reader=reader, summariser=summariser, target=terms.target)
        run = _Run(manifest, terms, bench, progress, say=say)
        for session in manifest.sessions:
            for variant in terms.variants:
                await run.play(session, variant)
    return CasesRun(
        terms=told,
        codes=tuple(progress.codes),
        prepared=tuple(progress.prepared.values()),
        answered=tuple(progress.answered.values()),
        seconds=round(time.monotonic() - began, 1),
    )


class _Run:
    def __init__(self, manifest: Manifest, terms: Terms, lab: Lab, progress: Progress, *, say: Callable[[str], None]) -> None:
        self._manifest = manifest
        self._terms = terms
        self._lab = lab
        self._progress = progress
        self._say = say
        probes = make_probes(manifest, seed=terms.seed)
        self._probes = [probe for probe in probes if not terms.cases or probe.id in terms.cases]

    async def play(self, session: SessionRecipe, variant: str) -> None:
        """Take a session through every hop of a variant; what is already known is not done again."""
        after: str | None = None
        done = 0
        for stretch in stretches(session, self._terms):
            hops = range(done + 1, stretch.hop + 1)
            done = stretch.hop
            ready = self._progress.prepared.get((variant, session.id, stretch.hop))
            if ready is None:
                key = key_of(self._manifest, session.id, hops=hops)
                ready = await self._lab.prepare(stretch, after=after, variant=variant, session=session, key=key)
                self._progress.add(ready)
                self._say(f"{session.id}, {variant}, hop {stretch.hop}: {_outcome(ready)}")
            after = ready.thread
            if not self._terms.asked_at or stretch.hop in self._terms.asked_at:
                await self._ask(ready)

    async def _ask(self, ready: Prepared) -> None:
        known = self._progress.answered
        asked = [probe for probe in self._probes if probe.session == ready.session and probe.asked_after(ready.hop)]
        # A reader that gave no answer may give one when the run goes on.
        answers = {probe.id: known.get((ready.variant, ready.session, ready.hop, probe.id)) for probe in asked}
        waiting = [probe for probe in asked if (answer := answers[probe.id]) is None or answer.error is not None]
        for probe in waiting:
            self._progress.add(await self._lab.ask(probe, of=ready))
        if waiting:
            found = [known[ready.variant, ready.session, ready.hop, probe.id] for probe in asked]
            passed = sum(each.score == 1 for each in found)
            took = sum(each.ms for each in found) / 1_000
            unanswered = sum(each.error is not None for each in found)
            failed = f", {unanswered} without an answer," if unanswered else ""
            right = f"{passed} of {len(found)} right{failed}"
            self._say(f"{ready.session}, {ready.variant}, hop {ready.hop}: {right} in {took:.0f} s")


def stretches(session: SessionRecipe, terms: Terms) -> list[Stretch]:
    """Return what is recorded before each compaction; in a single run, everything at once."""
    last = min(terms.hops, session.hops) if terms.hops else session.hops
    by_hop = list(items_by_hop(session, noisy=terms.noisy))[:last]
    if not terms.chain:
        return [Stretch(hop=last, items=[item for items in by_hop for item in items], mid_turn=last % 2 == 0)]
    return [Stretch(hop=hop, items=items, mid_turn=hop % 2 == 0) for hop, items in enumerate(by_hop, start=1)]


def _check(manifest: Manifest, terms: Terms, *, summariser: Model | None) -> None:
    known = CHAIN if terms.chain else SINGLE
    unknown = [variant for variant in terms.variants if variant not in known]
    if unknown:
        raise BadInput(f"there is no variant {unknown[0]!r} of this run; there are {', '.join(known)}")
    _check_asked(manifest, terms)
    mute = [variant for variant in terms.variants if variant in ASKING]
    if mute and summariser is None:
        raise BadInput(f"the variant {mute[0]!r} asks a model; name one with --summariser")


def _check_asked(manifest: Manifest, terms: Terms) -> None:
    """Refuse hops that are not played, and cases that are not asked after any that is."""
    hops = {session.id: [stretch.hop for stretch in stretches(session, terms)] for session in manifest.sessions}
    last = max((hop for played in hops.values() for hop in played), default=0)
    unplayed = [hop for hop in terms.asked_at if not 1 <= hop <= last]
    if unplayed:
        raise BadInput(f"nothing is asked after hop {unplayed[0]}: hops 1 to {last} are played")
    probes = {probe.id: probe for probe in make_probes(manifest, seed=terms.seed)}
    for name in terms.cases:
        probe = probes.get(name)
        if probe is None:
            raise BadInput(f"the manifest has no case {name!r}; `cases validate --list-case-ids` names them")
        asked = [hop for hop in hops[probe.session] if not terms.asked_at or hop in terms.asked_at]
        if not any(probe.asked_after(hop) for hop in asked):
            when = f"after hop {probe.due} only" if probe.form == "working_state" else f"from hop {probe.due} on"
            raise BadInput(f"the case {name!r} is never asked in this run: it is asked {when}")


def _describe_run(manifest: Manifest, terms: Terms, *, reader: Reader, summariser: Model | None) -> dict[str, Any]:
    """Return what ties a result to what made it."""
    digest = hashlib.sha256(msgspec.json.encode(manifest)).hexdigest()[:16]
    told = {
        "manifest": {
            "digest": digest,
            "sessions": [session.id for session in manifest.sessions],
            "cases": len(manifest.cases),
        },
        "threadkeep": __version__,
        "code": compute_code_digest(),
        "reader": _without_address(reader.name),
        "summariser": _without_address(summariser.name) if summariser is not None else None,
        "run": asdict(terms),
    }
    # As it is read back from a file, so that the two can be compared.
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(told))
    return made


def _without_address(model: str) -> str:
    """Return a model's name without where it listens: the same model on another port is the same model."""
    return model.partition("@http")[0]


def _outcome(ready: Prepared) -> str:
    if ready.refused is not None:
        return f"not compacted: {ready.refused}"
    if ready.variant not in COMPACTED:
        return f"{ready.window_tokens} tokens"
    return f"{ready.tokens_before} to {ready.tokens_after} tokens by {ready.took}, {ready.phase}, {ready.ms / 1_000:.0f} s"
