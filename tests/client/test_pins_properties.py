"""Whatever a thread goes through: what was noted and pinned on its path is in its state, and nothing else is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.histories import turn

from threadkeep import Config, Thread, Threadkeep
from threadkeep.errors import NothingToCompact, NothingToUndo

# Words that share nothing: no note is about what another says.
WORDS = ("Kestrel", "Basalt", "Umbrella", "Tangerine", "Violin", "Glacier", "Lantern", "Orchid", "Compass", "Walnut")

Act = Literal["turns", "note", "pinned note", "pin", "unpin", "compact", "undo", "rollback", "fork"]
acts: st.SearchStrategy[list[Act]] = st.lists(
    st.sampled_from(
        ["turns", "turns", "note", "pinned note", "pin", "pin", "unpin", "compact", "compact", "undo", "rollback", "fork"]
    ),
    min_size=4,
    max_size=24,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """What happened on a thread's live path, as far as it matters: turns as None, remarks as text and whether it is pinned."""

    events: tuple[tuple[str, bool] | None, ...] = ()

    def with_turns(self, count: int) -> Path:
        return replace(self, events=(*self.events, *[None] * count))

    def with_remark(self, text: str, *, pinned: bool) -> Path:
        return replace(self, events=(*self.events, (text, pinned)))

    def back(self) -> Path:
        places = [at for at, event in enumerate(self.events) if event is None]
        return replace(self, events=self.events[: places[-1]]) if places else self

    @property
    def turns(self) -> int:
        return self.events.count(None)

    @property
    def remarked(self) -> dict[str, bool]:
        return {event[0]: event[1] for event in self.events if event is not None}


class Life:
    """A thread, and what its path should hold."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.path = Path()
        self.number = 0
        self.notes = 0

    async def do(self, act: Act, choose: int) -> None:
        known = self.path.remarked
        match act:
            case "turns":
                for _ in range(3):
                    self.number += 1
                    await self.thread.record(turn(self.number))
                self.path = self.path.with_turns(3)
            case "note" | "pinned note":
                text = f"{WORDS[self.notes % len(WORDS)]} number {self.notes} stands alone."
                self.notes += 1
                await self.thread.note(text, pinned=act == "pinned note")
                self.path = self.path.with_remark(text, pinned=act == "pinned note")
            case "pin" | "unpin" if known:
                text = sorted(known)[choose % len(known)]
                entry = next(each for each in (await self.thread.state()).entries if each.text == text)
                await (self.thread.pin if act == "pin" else self.thread.unpin)(entry.id)
                self.path = self.path.with_remark(text, pinned=act == "pin")
            case "rollback" if self.path.turns:
                await self.thread.rollback(turns=1)
                self.path = self.path.back()
            case "fork":
                self.thread = await self.thread.fork()
            case "compact" | "undo":
                await self._compact_or_undo(act)
            case _:
                return

    async def _compact_or_undo(self, act: str) -> None:
        try:
            await (self.thread.compact(target="30%") if act == "compact" else self.thread.undo())
        except (NothingToCompact, NothingToUndo):
            return


@settings(max_examples=60, deadline=None)
@given(acts, st.lists(st.integers(0, 99), min_size=24, max_size=24))
def test_the_state_holds_what_was_remarked_on_the_path(acts: list[Act], choices: list[int]) -> None:
    """Every note, each pinned if and only if the last word on it was a pin; through compactions, undos, rollbacks and forks."""

    async def live() -> None:
        async with Threadkeep(Config(store="memory:", model_context_window=4_000)) as tk:
            life = Life(await tk.thread("t"))
            for act, choose in zip(acts, choices, strict=False):
                await life.do(act, choose)
                entries = (await life.thread.state()).entries
                shown = {each.text: each.pinned for each in entries if "stands alone" in each.text}
                assert shown == life.path.remarked
            assert (await tk.verify()).problems == ()

    asyncio.run(live())
