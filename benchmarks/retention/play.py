"""Plays one session: records it turn by turn, compacts it at every hop, and judges every arm's window."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import accumulate

from benchmarks.retention.arms import EXTRACTIVE, LIBRARY, STATELESS, Arm, Moment, new_arms
from benchmarks.retention.blindness import stands
from benchmarks.retention.facts import FactKind
from benchmarks.retention.library import LibraryArm, list_library_arms
from benchmarks.retention.planted_session import Planted
from benchmarks.retention.probes import Probe, make_probes
from benchmarks.retention.summarisers import notes_of
from benchmarks.retention.tally import Cell, Lost, Recalled, Size, Tally, Took
from benchmarks.retention.windows import Judged, Piece, judge, make_piece, open_book
from benchmarks.retention.wire_items import Json, opening_json, turn_json
from threadkeep.client import Thread, Threadkeep
from threadkeep.items import find_boundaries

RECALL_LIMIT = 5
# Every other compaction comes in the middle of a turn, when about this share of its items is there.
MID_TURN_SHARE = 0.6


class Play:
    """A session on its way through every arm. All that is scored is a function of the session and the dialect."""

    def __init__(
        self, planted: Planted, *, dialect: str, scored: Collection[int], tally: Tally, more: Sequence[tuple[str, Arm]] = ()
    ) -> None:
        self._planted = planted
        self._dialect = dialect
        self._scored = scored
        self._tally = tally
        self._probes = {probe.fact.key: probe for probe in make_probes(planted.facts, seed=planted.seed)}
        self._arms = [*new_arms(seed=planted.seed), *more]
        self._library: list[LibraryArm] = []
        self._history: list[Piece] = []
        self._compacted = 0

    async def through(self, tk: Threadkeep, *, beside: Threadkeep) -> None:
        """Play every hop on new threads: the one that is searched in the end on `tk`, the others on `beside`."""
        self._library = await list_library_arms(tk, beside=beside, dialect=self._dialect, seed=self._planted.seed)
        thread = self._library[0].thread
        await self._record(opening_json(self._planted.opening, dialect=self._dialect))
        rest: list[Json] = []
        for hop, turns in enumerate(self._planted.spans(), start=1):
            await self._record(rest)
            for number in turns[:-1]:
                await self._record(turn_json(self._planted.turns[number], number=number, dialect=self._dialect))
            last = turn_json(self._planted.turns[turns[-1]], number=turns[-1], dialect=self._dialect)
            cut = self._mid_turn(thread, last, number=turns[-1]) if hop % 2 == 0 else len(last)
            await self._record(last[:cut])
            rest = last[cut:]
            await self._hop(hop)
        self._tally.refused += sum(arm.refused for arm in self._library)
        await self._recall(thread, hop=len(self._planted.ends))

    async def _record(self, items: Sequence[Json]) -> None:
        dialect = self._library[0].thread.dialect
        for arm in self._library:
            await arm.record(items)
        self._history += [make_piece(dialect.parse(item), dialect=dialect) for item in items]

    def _mid_turn(self, thread: Thread, items: Sequence[Json], *, number: int) -> int:
        """Return where turn `number` can be interrupted: no call open, all that was planted in it already shown."""
        views = [thread.dialect.view(thread.dialect.parse(item)) for item in items]
        answered = list(accumulate((len(view.closes) for view in views), initial=0))
        due = self._planted.planted_steps[number]
        least = len(items) * MID_TURN_SHARE
        return next((cut for cut in find_boundaries(views) if cut >= least and answered[cut] >= due), len(items))

    async def _hop(self, hop: int) -> None:
        scored = hop in self._scored
        key = notes_of(self._planted.new(hop))
        budget = 0
        for ours in self._library:
            began = time.perf_counter_ns()
            await ours.compact(key)
            self._took(ours.name, hop, since=began)
            if scored or ours.name == EXTRACTIVE:
                window = await ours.window()
                budget = budget or sum(piece.tokens for piece in window)
                if scored:
                    self._judge(ours.name, hop, window)
        moment = Moment(
            history=self._history,
            begin=self._compacted,
            key=key,
            budget_tokens=budget,
            dialect=self._library[0].thread.dialect,
        )
        self._compacted = len(self._history)
        for name, arm in self._arms:
            if scored or name not in STATELESS:
                began = time.perf_counter_ns()
                made = arm.window(moment)
                self._took(name, hop, since=began)
                if scored:
                    self._judge(name, hop, made)

    def _judge(self, arm: str, hop: int, window: Sequence[Piece]) -> None:
        book = open_book(window)
        found: defaultdict[FactKind, list[Judged]] = defaultdict(list)
        for probe in self._asked(hop):
            judged = judge(probe, book)
            found[probe.fact.kind].append(judged)
            if arm in LIBRARY and hop == len(self._planted.ends) and not judged.kept:
                self._tally.lost.append(self._lost(probe, arm=arm))
        for kind, verdicts in found.items():
            self._tally.cells.append(
                Cell(
                    arm=arm,
                    dialect=self._dialect,
                    seed=self._planted.seed,
                    hop=hop,
                    kind=kind,
                    asked=len(verdicts),
                    kept=sum(each.kept for each in verdicts),
                    beside=sum(each.beside for each in verdicts),
                    stale=sum(each.stale for each in verdicts),
                    outdated=sum(each.outdated for each in verdicts),
                    credit=round(sum(each.credit for each in verdicts), 6),
                )
            )
        self._size(arm, hop, book.tokens)

    async def _recall(self, thread: Thread, *, hop: int) -> None:
        """Ask the store with nothing but each question, after the last hop."""
        found: defaultdict[FactKind, list[tuple[bool, bool]]] = defaultdict(list)
        for probe in self._asked(hop):
            hits = await thread.recall(probe.question, limit=RECALL_LIMIT)
            quoted = any(stands(probe.fact.value, hit.text) for hit in hits)
            whole = [await thread.recall(str(hit.pointer)) for hit in hits]
            record = any(stands(probe.fact.value, each.text) for found_at in whole for each in found_at)
            found[probe.fact.kind].append((quoted, record))
            if not quoted:
                self._tally.unrecalled.append(self._lost(probe, arm=EXTRACTIVE))
        for kind, hits_of in found.items():
            self._tally.recalled.append(
                Recalled(
                    dialect=self._dialect,
                    seed=self._planted.seed,
                    hop=hop,
                    kind=kind,
                    asked=len(hits_of),
                    quoted=sum(quoted for quoted, _ in hits_of),
                    record=sum(record for _, record in hits_of),
                )
            )

    def _asked(self, hop: int) -> list[Probe]:
        return [self._probes[fact.key] for fact in self._planted.asked(hop)]

    def _lost(self, probe: Probe, *, arm: str) -> Lost:
        fact = probe.fact
        return Lost(
            arm=arm,
            dialect=self._dialect,
            seed=self._planted.seed,
            kind=fact.kind,
            question=fact.question,
            value=fact.value,
        )

    def _size(self, arm: str, hop: int, tokens: int) -> None:
        history = sum(piece.tokens for piece in self._history)
        self._tally.sizes.append(
            Size(arm=arm, dialect=self._dialect, seed=self._planted.seed, hop=hop, window_tokens=tokens, history_tokens=history)
        )

    def _took(self, arm: str, hop: int, *, since: int) -> None:
        ms = (time.perf_counter_ns() - since) / 1e6
        self._tally.took.append(Took(arm=arm, dialect=self._dialect, seed=self._planted.seed, hop=hop, ms=ms))
