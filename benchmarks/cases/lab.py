"""Prepares threads in a store and a folder of their own, and forks one for every question.

Nothing outside it is read or written: no configuration, no hooks, no store of a user.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.cases.grades import Score, score
from benchmarks.cases.manifest import Manifest, SessionRecipe
from benchmarks.cases.probes import Probe
from benchmarks.cases.progress import AnsweredCase, Prepared
from benchmarks.cases.readers import Answered, Reader
from benchmarks.cases.recipes import DIALECT
from benchmarks.retention.summarisers import SUMMARISERS, Note, SummarisingModel
from benchmarks.retention.wire_items import Json
from threadkeep.client import Config, Thread, Threadkeep
from threadkeep.errors import ModelError, NothingToCompact, ThreadExists
from threadkeep.llm import Model
from threadkeep.threads import sum_attempts

NONE, SOURCE, CHAIN_CONTROL = "none", "source", "chain_control"
COMPACTED = ("session", "handoff", "extractive")
# Threads may be as long as a run likes; this is for what a model that never ends would cost.
COMPACT_SECONDS = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What is recorded before the next compaction; `hop` names it, `mid_turn` says whether a turn is under way at its end."""

    hop: int
    items: Sequence[Json]
    mid_turn: bool


class Lab:
    """Prepares threads and asks about them. `summariser` is the model that compactions ask, if any."""

    def __init__(self, tk: Threadkeep, *, reader: Reader, summariser: Model | None, target: str) -> None:
        self._tk = tk
        self._reader = reader
        self._summariser = summariser
        self._target = target

    async def prepare(
        self, stretch: Stretch, *, after: str | None, variant: str, session: SessionRecipe, key: Sequence[Note]
    ) -> Prepared:
        """Go on from the thread `after`, or from nothing; record the stretch, and compact it as the variant does.

        The thread is a new one, so that whatever was left half done by a run that broke off is not gone on with.
        """
        began = time.monotonic()
        thread = await self._begun(f"{session.id}-{variant.replace('_', '-')}-{stretch.hop}", after=after)
        if variant != NONE:
            await thread.record(stretch.items)
        before = (await thread.window()).tokens
        told = Prepared(
            variant=variant,
            session=session.id,
            hop=stretch.hop,
            thread=thread.id,
            window_tokens=before,
            history_tokens=before,
            phase="in a turn" if stretch.mid_turn else "between turns",
        )
        if variant in COMPACTED:
            told = await self._compacted(thread, told, key=key)
        return _replaced(told, ms=round((time.monotonic() - began) * 1_000))

    async def ask(self, probe: Probe, *, of: Prepared) -> AnsweredCase:
        """Fork the prepared thread, ask there, and score; the thread itself stays as it is, and nothing is compacted."""
        began = time.monotonic()
        fork = await (await self._tk.find(of.thread)).fork()
        await fork.record([{"role": "user", "content": probe.text}])
        window = await fork.window(to_send=True)
        answered, error = Answered(text=""), None
        try:
            answered = await self._reader.answer(list(window), probe)
            found = score(probe, answered.text)
        except ModelError as failure:
            found, error = Score(score=0.0, verdict="run_error"), failure.code
        if answered.text:
            await fork.record([{"role": "assistant", "content": answered.text}])
        return AnsweredCase(
            variant=of.variant,
            session=of.session,
            hop=of.hop,
            case=probe.id,
            category=probe.category,
            priority=probe.priority,
            form=probe.form,
            reply=answered.text,
            score=found.score,
            verdict=found.verdict,
            hard_fail=found.hard_fail,
            error=error,
            input_tokens=answered.input_tokens,
            cached_tokens=answered.cached_tokens,
            ms=round((time.monotonic() - began) * 1_000),
        )

    async def _begun(self, name: str, *, after: str | None) -> Thread:
        for number in range(1, 1_000):
            new_id = name if number == 1 else f"{name}-again-{number}"
            if after is not None:
                try:
                    return await (await self._tk.find(after)).fork(new_id=new_id)
                except ThreadExists:
                    continue
            known = {row.id for row in await self._tk.backend.store.threads(prefix=new_id, limit=1_000)}
            if new_id not in known:
                return await self._tk.thread(new_id, dialect=DIALECT)
        raise AssertionError(f"a thousand threads are called {name}")

    async def _compacted(self, thread: Thread, told: Prepared, *, key: Sequence[Note]) -> Prepared:
        if isinstance(self._summariser, SummarisingModel):
            self._summariser.key = key
        model = None if told.variant == "extractive" else self._summariser
        try:
            report = await thread.compact(strategy=told.variant, model=model, target=self._target)
        except NothingToCompact as refusal:
            return _replaced(told, refused=str(refusal))
        counts, bill = report.audit.counts(), sum_attempts(report.attempts)
        return _replaced(
            told,
            window_tokens=(await thread.window()).tokens,
            took=report.strategy,
            fell_back_from=report.fell_back_from,
            tokens_before=report.tokens_before,
            tokens_after=report.tokens_after,
            model_calls=report.model_calls,
            input_tokens=bill.input_tokens or 0,
            output_tokens=bill.output_tokens or 0,
            invented=counts["invented"],
            repaired=counts["repaired"],
        )


def lab_store(folder: Path, *, window_tokens: int) -> Threadkeep:
    """Return the lab's own store, closed; `window_tokens` is the window of the model the threads are for."""
    config = Config(
        store=str(folder / "lab.db"),
        model_context_window=window_tokens,
        compact_user_message_tokens=max(1, window_tokens // 8),
        compact_timeout_s=COMPACT_SECONDS,
    )
    return Threadkeep(config)


def make_scripted_model(name: str, *, seed: int) -> Model | None:
    """Return the scripted summariser of this name; None if there is none."""
    return SummarisingModel(name, SUMMARISERS[name], dialect=DIALECT, seed=f"{seed}:cases") if name in SUMMARISERS else None


def key_of(manifest: Manifest, session: str, *, hops: Sequence[int]) -> list[Note]:
    """Return what a perfect reader would note down of these hops: what scripted summarisers know, and no model does."""
    recipe = next(each for each in manifest.sessions if each.id == session)
    notes = [
        Note(
            text=case.evidence,
            value=case.right or case.accepted[0],
            stale=case.stale,
            lie=case.stale or (case.wrong or ["0"])[0],
            work=False,
        )
        for case in recipe.cases
        if case.turn and recipe.turns[case.turn - 1].hop in hops
    ]
    for bundle in recipe.work:
        if bundle.hop == max(hops):
            parts = bundle.parts().items()
            notes += [
                Note(text=f"{part}: {value}", value=value, stale=None, lie="something else", work=True) for part, value in parts
            ]
    return notes


def _replaced(told: Prepared, **changes: object) -> Prepared:
    made: Prepared = msgspec.structs.replace(told, **changes)
    return made
