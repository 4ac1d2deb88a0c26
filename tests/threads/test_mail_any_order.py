"""Mail, steers, tools, compactions, interruptions and crashes in any order: each mail once, in order, and no answer changed.

The model is the list of what was delivered, and three facts about the turn under way: where it began, whether its answer is
there, whether a person's input has still to be heard. What may join a turn follows from these alone.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.conftest import ManualClock
from tests.parity.vocabulary import SPEECHES, Json, Speech, config
from tests.threads.agent import refusal

from threadkeep import Thread, Threadkeep
from threadkeep.client.turn import TurnScope
from threadkeep.errors import NothingToCompact
from threadkeep.items import decode_json
from threadkeep.store import Record, RecordKind
from threadkeep.threads.lease import TURN_LEASE_MS
from threadkeep.threads.turn_state import TurnState

T = TypeVar("T")


@dataclass
class Sent:
    """One mail of the model; `heard` once it is in the history."""

    id: str
    way: str
    at: int
    heard: bool = False


class LivingThreads(RuleBasedStateMachine):
    """One agent, its turns, and everybody who writes to it."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._runner = asyncio.Runner()
        self._clock = ManualClock()
        self._sent: list[Sent] = []
        self._answers: list[tuple[int, Json]] = []
        self._turn: TurnScope | None = None
        self._began = 0
        self._unheard = self._under_way = False
        self._committed = False
        self._called = False
        self._asked = self._said = self._made_room = False
        self._open: list[str] = []
        self._count = 0

    @initialize(speech=st.sampled_from(SPEECHES))
    def begin(self, speech: Speech) -> None:
        self._speech = speech
        self._open_store()

    def _open_store(self) -> None:
        file = Path(self._folder.name) / "threads.db"
        self._tk = self._wait(Threadkeep(config(file, window_tokens=2_000), clock=self._clock).__aenter__())
        self._thread = self._wait(self._tk.thread("t", dialect=self._speech.dialect))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def _newest_begins_at(self) -> int:
        turns = self._wait(self._thread.turns())
        return turns[-1].ordinal if turns else 0

    def _name(self) -> str:
        self._count += 1
        return f"n{self._count}"

    def _waiting(self) -> list[Sent]:
        return [mail for mail in self._sent if not mail.heard]

    # Everybody who writes to the agent.

    @rule(way=st.sampled_from(["queue", "trigger", "steer"]), elsewhere=st.booleans())
    def deliver(self, *, way: str, elsewhere: bool) -> None:
        name = self._name()
        thread = self._wait(self._tk.thread("t")) if elsewhere else self._thread
        done = self._wait(thread.deliver(f"mail {name}", sender="x", way=way, mail_id=name))
        assert done.is_new
        self._sent.append(Sent(id=name, way=way, at=done.ordinal))

    @precondition(lambda self: bool(self._sent))
    @rule(data=st.data())
    def deliver_again(self, data: st.DataObject) -> None:
        mail = data.draw(st.sampled_from(self._sent))
        again = self._wait(self._thread.deliver("the same", way=mail.way, mail_id=mail.id))
        assert (again.is_new, again.ordinal) == (False, mail.at)

    @rule()
    def compact(self) -> None:
        try:
            self._wait(self._thread.compact(target="400"))
        except NothingToCompact:
            return

    # The agent itself.

    @precondition(lambda self: self._turn is None)
    @rule(by_person=st.booleans())
    def open_turn(self, *, by_person: bool) -> None:
        turns = self._wait(self._thread.turns())
        unfinished = bool(turns) and turns[-1].state in (TurnState.OPENED, TurnState.SAMPLING, TurnState.TOOLS)
        incoming = [self._speech.said(f"request {self._name()}")] if by_person else []
        self._turn = self._wait(self._thread.turn(incoming).__aenter__())
        self._under_way = by_person or unfinished or bool(self._waiting())
        if not by_person and not unfinished:
            self._hear_all()
        self._began = self._newest_begins_at()
        self._asked = self._said = self._made_room = False
        self._unheard, self._called = by_person, self._turn.state is not TurnState.COMMITTED and unfinished and self._called
        self._committed = self._turn.state is TurnState.COMMITTED
        self._open = [] if by_person or not unfinished else self._open

    @precondition(lambda self: self._turn is not None)
    @rule()
    def request(self) -> None:
        assert self._turn is not None
        before = self._wait(self._thread.records())
        window = self._wait(self._turn.window())
        assert refusal(self._speech.dialect, window) is None or not window, window
        new = self._wait(self._thread.records())[len(before) :]
        self._made_room = bool(new) and new[0].kind is RecordKind.CHECKPOINT and not self._made_room
        reopens = any(mail.way == "steer" or (mail.way == "trigger" and mail.at < self._began) for mail in self._waiting())
        if not self._under_way:
            self._under_way, self._committed = bool(self._waiting()), self._committed and not self._waiting()
            self._hear_all()
            self._began = self._newest_begins_at()
        elif not self._unheard and not (self._made_room and self._called) and (not self._committed or reopens):
            self._committed = self._committed and not self._waiting()
            self._hear_all()
        self._unheard = self._called = False
        self._asked, self._said = self._under_way and not self._committed, False

    # A model is only ever asked where somebody asked for something, and says one thing at a time where its language wants that.

    @precondition(lambda self: self._turn is not None and self._asked and (self._speech.dialect == "responses" or not self._said))
    @rule()
    def call(self) -> None:
        name = self._name()
        self._open.append(name)
        self._called, self._committed, self._said = True, False, True
        self._record(self._speech.call(name))

    @precondition(lambda self: self._turn is not None and bool(self._open))
    @rule(lines=st.sampled_from([1, 60]))
    def tool_result(self, lines: int) -> None:
        self._record(self._speech.output(self._open.pop(), "a line of output\n" * lines))

    @precondition(lambda self: self._turn is not None and self._asked and not self._open and not self._committed)
    @rule()
    def answer(self) -> None:
        assert self._turn is not None
        item = self._speech.answered(f"answer {self._name()}")
        self._record(item)
        self._answers.append((self._wait(self._thread.records())[-1].ordinal, item))
        self._committed = self._said = True
        assert self._turn.state is TurnState.COMMITTED

    def _record(self, item: Json) -> None:
        assert self._turn is not None
        self._wait(self._turn.record([item]))

    @precondition(lambda self: self._turn is not None)
    @rule()
    def close_turn(self) -> None:
        assert self._turn is not None
        self._wait(self._turn.__aexit__(None, None, None))
        if self._began:
            for mail in self._waiting():
                if mail.way != "queue" or mail.at >= self._began:
                    break
                mail.heard = True
        self._turn = None
        self._open = []

    @precondition(lambda self: self._turn is not None)
    @rule()
    def interrupt(self) -> None:
        assert self._turn is not None
        self._wait(self._turn.__aexit__(asyncio.CancelledError, asyncio.CancelledError(), None))
        self._turn = None
        self._open = []

    @rule()
    def crash(self) -> None:
        """The process is gone: no turn ended, no handle knows anything."""
        self._wait(self._tk.backend.store.close())
        self._turn = None
        self._clock.ms += TURN_LEASE_MS
        self._open_store()

    def _hear_all(self) -> None:
        for mail in self._waiting():
            mail.heard = True

    # What holds at any moment.

    def _records(self) -> list[Record]:
        return self._wait(self._thread.records()) if hasattr(self, "_thread") else []

    @invariant()
    def each_mail_is_heard_once_in_the_order_it_came(self) -> None:
        items = [record for record in self._records() if record.kind is RecordKind.ITEM and record.target is not None]
        assert [record.target for record in items] == [mail.at for mail in self._sent if mail.heard]

    @invariant()
    def what_was_not_heard_waits(self) -> None:
        if hasattr(self, "_thread"):
            fresh = Thread(self._tk.backend, "t", dialect=self._thread.dialect)
            for thread in (self._thread, fresh):
                assert [mail.id for mail in self._wait(thread.mail()).pending] == [mail.id for mail in self._waiting()]

    @invariant()
    def no_answer_changes(self) -> None:
        said = {record.ordinal: record for record in self._records()}
        assert [decode_json(said[at].body) for at, _ in self._answers] == [item for _, item in self._answers]

    @invariant()
    def only_the_newest_turn_is_under_way(self) -> None:
        if hasattr(self, "_thread"):
            over = {TurnState.CLOSED, TurnState.ABORTED}
            assert [turn for turn in self._wait(self._thread.turns())[:-1] if turn.state not in over] == []

    def teardown(self) -> None:
        if hasattr(self, "_tk"):
            assert self._wait(self._tk.verify()).problems == ()
            self._wait(self._tk.__aexit__(None, None, None))
        self._runner.close()
        self._folder.cleanup()


FEW = settings(max_examples=5, stateful_step_count=30)
TestLivingThreads = type("TestLivingThreads", (LivingThreads.TestCase,), {"settings": FEW})
TestLivingThreadsAtLength = pytest.mark.slow(
    type("TestLivingThreadsAtLength", (LivingThreads.TestCase,), {"settings": settings(FEW, max_examples=40)})
)
