"""Anything in any order: a real store against a model of ten lines.

The model of a thread is the list of what happened on its live path: turns, items, checkpoints, undos. A rollback shortens
the list, a fork copies it, and the window is what replaying it gives. Everything the store answers must agree.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.histories import RESPONSES, Json, turn
from tests.strategies import histories

from threadkeep import Config, Thread, Threadkeep
from threadkeep.client import Verdict
from threadkeep.errors import InvalidTarget, NothingToCompact, NothingToUndo
from threadkeep.items import Item, find_open_calls, find_orphans
from threadkeep.store import Record, RecordKind, Span
from threadkeep.threads import Checkpoint, EntryKind, KeepEntry, decode_body
from threadkeep.threads.reader import load_history, load_live_path

T = TypeVar("T")


@dataclass
class Happened:
    """One event on a live path. `window` is what a checkpoint made of the window, `raw` the bytes of an item."""

    kind: RecordKind
    thread_id: str
    ordinal: int
    raw: bytes = b""
    window: tuple[bytes, ...] = ()


@dataclass
class Model:
    """What one thread's live path has seen, and the windows it had on the way."""

    events: list[Happened] = field(default_factory=list)
    snapshots: list[tuple[int, tuple[bytes, ...]]] = field(default_factory=list)

    def cancelled(self) -> set[int]:
        """Return the checkpoints that an undo on the path took back; its `raw` says which."""
        return {int(event.raw) for event in self.events if event.kind is RecordKind.UNDO}

    def window(self) -> tuple[bytes, ...]:
        cancelled = self.cancelled()
        window: list[bytes] = []
        for event in self.events:
            if event.kind is RecordKind.ITEM:
                window.append(event.raw)
            elif event.kind is RecordKind.CHECKPOINT and event.ordinal not in cancelled:
                window = list(event.window)
        return tuple(window)

    def checkpoint(self) -> int | None:
        """Return the newest checkpoint that counts."""
        cancelled = self.cancelled()
        counting = [event.ordinal for event in self.events if event.kind is RecordKind.CHECKPOINT]
        return next((ordinal for ordinal in reversed(counting) if ordinal not in cancelled), None)

    def items(self) -> list[Happened]:
        return [event for event in self.events if event.kind is RecordKind.ITEM]

    def turns(self) -> list[int]:
        """Return where each turn begins in `events`."""
        return [index for index, event in enumerate(self.events) if event.kind is RecordKind.TURN]


class Threads(RuleBasedStateMachine):
    """Record, compact, undo, roll back, fork, reopen, over one file."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._runner = asyncio.Runner()
        self._models: dict[str, Model] = {}
        self._at = "t0"
        self._calls = 0

    @initialize()
    def begin(self) -> None:
        self._open()
        self._run(lambda: self._tk.thread("t0"))
        self._models["t0"] = Model()

    def teardown(self) -> None:
        if hasattr(self, "_tk"):
            self._run(lambda: self._tk.__aexit__(None, None, None))
        self._runner.close()
        self._folder.cleanup()

    @rule(items=histories(open_end=False, max_turns=1), words=st.sampled_from([100, 300]))
    def record(self, items: list[Json], words: int) -> None:
        """Record a strange turn and then a long plain one, so that there is always something to compact."""
        self._calls += 1
        strange = [{**item, "call_id": f"{self._calls}-{item['call_id']}"} if "call_id" in item else item for item in items]
        renamed = [*strange, *turn(self._calls, words=words)]
        first = self._next()
        self._run(lambda: self._thread().record(renamed))
        for record in self._run(lambda: self._records(first)):
            self._model.events.append(Happened(kind=record.kind, thread_id=self._at, ordinal=record.ordinal, raw=record.body))
        recorded = [event.raw for event in self._model.items()][-len(renamed) :]
        assert recorded == [RESPONSES.parse(item).raw for item in renamed]

    @rule(items=histories(open_end=False, max_turns=1), bound=st.sampled_from([None, "1"]))
    def record_and_compact(self, items: list[Json], bound: str | None) -> None:
        self.record(items, words=300)
        self.compact(bound)

    @rule(bound=st.sampled_from([None, "40%", "1"]))
    def compact(self, bound: str | None) -> None:
        before, first = self._window(), self._next()
        try:
            report = self._run(lambda: self._thread().compact(target=bound))
        except NothingToCompact:
            assert self._window() == before
            return
        assert self._run(lambda: self._thread().window()).tokens == report.tokens_after < report.tokens_before
        (record,) = self._run(lambda: self._records(first))
        assert record.ordinal == report.checkpoint
        checkpoint = decode_body(record.body, Checkpoint)
        lived = {event.ordinal: event.raw for event in self._model.items()}
        layout = [lived[e.ordinal] if isinstance(e, KeepEntry) else bytes(e.item) for e in checkpoint.layout]
        window = (*layout, *(raw for ordinal, raw in lived.items() if ordinal >= checkpoint.cut))
        self._model.events.append(Happened(kind=RecordKind.CHECKPOINT, thread_id=self._at, ordinal=record.ordinal, window=window))

    @rule()
    def undo(self) -> None:
        expected = self._model.checkpoint()
        ordinal = self._next()
        try:
            found = self._run(lambda: self._thread().undo())
        except NothingToUndo:
            assert expected is None
            return
        assert found == expected
        self._model.events.append(Happened(kind=RecordKind.UNDO, thread_id=self._at, ordinal=ordinal, raw=str(expected).encode()))

    @rule(turns=st.integers(1, 4))
    def roll_back(self, turns: int) -> None:
        starts = self._model.turns()
        try:
            self._run(lambda: self._thread().rollback(turns=turns))
        except InvalidTarget:
            assert len(starts) < turns
            return
        del self._model.events[starts[-turns] :]

    @precondition(lambda self: len(self._models) < 5 and bool(self._model.events))
    @rule(place=st.integers(0, 10_000), by_turn=st.booleans())
    def fork(self, place: int, *, by_turn: bool) -> None:
        name = f"t{len(self._models)}"
        starts = self._model.turns()
        if by_turn and starts:
            number = place % len(starts)
            self._run(lambda: self._thread().fork(before_turn=number + 1, new_id=name))
            kept = starts[number]
        else:
            index = place % len(self._model.events)
            at = self._model.events[index].ordinal + 1
            self._run(lambda: self._thread().fork(at=at, new_id=name))
            kept = index + 1
        self._models[name] = Model(events=list(self._model.events[:kept]))
        self._at = name

    @rule(place=st.integers(0, 10_000))
    def turn_to(self, place: int) -> None:
        self._at = sorted(self._models)[place % len(self._models)]

    @rule()
    def reopen(self) -> None:
        self._run(lambda: self._tk.__aexit__(None, None, None))
        self._open()

    @precondition(lambda self: bool(self._model.items()))
    @rule(place=st.integers(0, 10_000))
    def recall(self, place: int) -> None:
        """Any item ever on the live path comes back byte for byte, from whichever ancestor holds it."""
        items = self._model.items()
        event = items[place % len(items)]
        (found,) = self._run(lambda: self._thread().recall(f"#{event.ordinal}"))
        assert found.pointer.ordinal == event.ordinal
        owner, ordinal = found.pointer.thread_id, found.pointer.ordinal
        span = Span(thread_id=owner, start=ordinal, stop=ordinal + 1)
        (record,) = self._run(lambda: self._tk.backend.store.read(span))
        assert record.body == event.raw

    @rule(place=st.integers(0, 10_000))
    def replay_a_prefix(self, place: int) -> None:
        """The window as of an earlier record is the one there was when that record was the last."""
        seen = self._model.snapshots
        if seen:
            stop, window = seen[place % len(seen)]
            assert self._window(stop=stop) == window

    @invariant()
    def every_window_is_what_its_model_says(self) -> None:
        if self._models:
            window = self._window()
            assert window == self._model.window()
            self._model.snapshots.append((self._next(), window))

    @invariant()
    def no_thread_notices_what_another_does(self) -> None:
        here = self._at
        for name, model in self._models.items():
            self._at = name
            assert self._window() == model.window()
        self._at = here

    @invariant()
    def the_window_is_well_formed_and_the_store_sound(self) -> None:
        if not self._models:
            return
        history = self._run(lambda: self._thread().history())
        views = [RESPONSES.view(item) for item in history.items]
        lived = [RESPONSES.view(Item(event.raw)) for event in self._model.items()]
        assert find_orphans(views) == []
        # A fork may begin between a call and its output; the call is open there for good.
        assert set(find_open_calls(views)) <= set(find_open_calls(lived))
        states = [entry.kind for entry in history.entries].count(EntryKind.STATE)
        assert states == (0 if self._model.checkpoint() is None else 1)
        assert self._run(lambda: self._verdict()).problems == ()

    @property
    def _model(self) -> Model:
        return self._models[self._at]

    def _run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._runner.run(make())

    def _open(self) -> None:
        config = Config(store=str(Path(self._folder.name) / "threads.db"), model_context_window=4_000)
        self._tk = Threadkeep(config)
        self._run(lambda: self._tk.__aenter__())

    def _thread(self) -> Thread:
        return Thread(self._tk.backend, self._at, dialect=RESPONSES)

    def _next(self) -> int:
        return self._run(lambda: self._tk.backend.store.get(self._at)).next

    def _window(self, *, stop: int | None = None) -> tuple[bytes, ...]:
        async def read() -> tuple[bytes, ...]:
            store = self._tk.backend.store
            history = await load_history(store, await load_live_path(store, self._at, stop=stop))
            return tuple(item.raw for item in history.items)

        return self._run(read)

    async def _records(self, first: int) -> list[Record]:
        row = await self._tk.backend.store.get(self._at)
        return await self._tk.backend.store.read(Span(thread_id=self._at, start=first, stop=row.next))

    async def _verdict(self) -> Verdict:
        return await self._tk.verify(self._thread())


FEW = settings(max_examples=5, stateful_step_count=20, deadline=None)
TestThreads = type("TestThreads", (Threads.TestCase,), {"settings": FEW})
TestThreadsAtLength = pytest.mark.slow(
    type("TestThreadsAtLength", (Threads.TestCase,), {"settings": settings(FEW, max_examples=40)})
)
