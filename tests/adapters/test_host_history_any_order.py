"""Whatever a host does with its history, in any order: the thread ends where it does, and no record is wrong or lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep import Config, Thread, Threadkeep
from threadkeep.adapters.host_history import follow
from threadkeep.errors import NothingToCompact
from threadkeep.store import RecordKind

Json = dict[str, Any]
Deed = Literal["say", "work", "compact", "compact_unkept", "take_back", "edit", "restart"]
DEEDS: tuple[Deed, ...] = ("say", "work", "work", "compact", "compact_unkept", "take_back", "edit", "restart")


class Host:
    """A host that goes on from the windows it is given, unless it loses one; `behind` says that it lost the last one."""

    def __init__(self, tk: Threadkeep) -> None:
        self.tk = tk
        self.shown: list[Json] = []
        self.ever: list[Json] = []
        self.behind = False
        self.count = 0

    def add(self, *items: Json) -> None:
        self.shown = [*self.shown, *items]
        self.ever.extend(items)

    async def do(self, deed: Deed) -> None:
        self.count += 1
        match deed:
            case "say":
                self.add({"role": "user", "content": f"Rule {self.count}: always use port {self.count}."})
                self.add({"role": "assistant", "content": f"Rule {self.count} noted."})
            case "work":
                function = {"name": "run", "arguments": "{}"}
                call = {"id": f"c{self.count}", "type": "function", "function": function}
                self.add({"role": "user", "content": f"Do step {self.count}."})
                self.add({"role": "assistant", "content": None, "tool_calls": [call]})
                self.add({"role": "tool", "tool_call_id": f"c{self.count}", "content": f"line of {self.count}\n" * 80})
                self.add({"role": "assistant", "content": f"Step {self.count} is done."})
            case "take_back":
                while self.shown and self.shown[-1]["role"] != "user":
                    self.shown = self.shown[:-1]
                self.shown = self.shown[:-1]
            case "edit":
                if self.shown and self.shown[-1]["role"] == "assistant":
                    self.shown = self.shown[:-1]
                    self.add({"role": "assistant", "content": f"On second thought, {self.count}."})
            case "compact" | "compact_unkept":
                await self.compact(kept=deed == "compact")
            case "restart":
                pass

    async def compact(self, *, kept: bool) -> None:
        thread = await follow(self.tk, "t", "chat", self.shown)
        with suppress(NothingToCompact):
            await thread.compact()
        if kept:
            self.shown, self.behind = list(await thread.window()), False
        else:
            self.behind = True


async def _recorded(thread: Thread) -> list[Json]:
    ordinals = [record.ordinal for record in await thread.records() if record.kind is RecordKind.ITEM]
    return [await thread.original(f"{thread.id}#{ordinal}") for ordinal in ordinals]


async def _live(deeds: list[Deed]) -> None:
    async with Threadkeep(Config(store="memory:", model_context_window=4_000)) as tk:
        host = Host(tk)
        for deed in deeds:
            await host.do(deed)
            thread = await follow(tk, "t", "chat", host.shown)
            records = await thread.records()
            again = await follow(tk, "t", "chat", host.shown)
            assert await again.records() == records
            window = list(await thread.window())
            if not host.behind:
                assert window == host.shown
            assert window[-1:] == host.shown[-1:]
            assert (await tk.verify()).problems == ()
        recorded = await _recorded(await tk.thread("t", dialect="chat"))
        assert [item for item in host.ever if item not in recorded] == []


@settings(max_examples=60)
@given(st.lists(st.sampled_from(DEEDS), min_size=1, max_size=14))
def test_a_thread_follows_its_host_wherever_it_goes(deeds: list[Deed]) -> None:
    """Shown twice, nothing is recorded twice; the window is the host's list; everything it ever showed can be read back."""
    asyncio.run(_live(deeds))
