"""A harbour of agents: one thread each, a square they all hear, and a keeper who writes down what happens.

Every agent is a `threadkeep.Session` on a thread of its own, in one store. What an agent sees of the world is told to it as it
changes. What it calls out is delivered to the square, a thread whose mailbox anybody may write to; the keeper, who lives there,
reads it day by day. Windows are small, so that threads are compacted on the way.

Run it: `python examples/harbour.py`. It needs no key: the models are a few lines of Python below. Put any other model in their
place (`model="openai:NAME"`, `"anthropic:NAME"`, `"NAME@URL"`) and nothing else changes.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from threadkeep import Config, Session, Threadkeep
from threadkeep.dialects import Request, find_dialect
from threadkeep.items import Item, ItemKind
from threadkeep.llm import ModelReply

NAMES = ("Ann", "Bo", "Cai", "Dot", "Eli", "Fay", "Gus", "Hal", "Ivy", "Jon", "Kit", "Lea")
PLACES = ("pier", "reef", "bay", "market")
CHAT = find_dialect("chat")


@dataclass
class Harbour:
    """The world: who is where, who has what, what fish costs. Tools change it; agents are told what they see of it."""

    day: int = 0
    price: int = 4
    where: dict[str, str] = field(default_factory=dict)
    fish: dict[str, int] = field(default_factory=dict)
    coins: dict[str, int] = field(default_factory=dict)

    def seen_by(self, name: str) -> dict[str, object]:
        """What `name` is told about its world: named sections, of which only changes cost anything."""
        beside = [other for other, place in self.where.items() if place == self.where[name] and other != name]
        return {
            "rules": "The reef is closed on every fourth day. Never sell below the price of the day.",
            "day": f"day {self.day}",
            "you": {"name": name, "place": self.where[name], "fish": self.fish[name], "coins": self.coins[name]},
            "beside you": beside,
            "market": {"price": self.price},
        }


class Fisher:
    """A model of a fisher: it looks at what it was asked, acts once, and says what came of it."""

    window_tokens = None
    dialect = "chat"

    def __init__(self, name: str) -> None:
        self.name = f"fisher:{name}"
        self._self = name

    async def ask(self, request: Request) -> ModelReply:
        # What tells of the world is the host's; after a compaction it may stand last.
        views = [view for item in request.items if (view := CHAT.view(item)).by_person or view.context is None]
        if views[-1].kind is ItemKind.OUTPUT:
            return _said(views[-1].text)
        day = int(re.findall(r"Day (\d+)", views[-1].said)[-1])
        match (day + len(self._self) + ord(self._self[0])) % 4:
            case 0:
                return _called(day, "sell", "{}")
            case 1:
                return _called(day, "call_out", f'{{"text": "{self._self} was here on day {day}."}}')
            case _:
                place = PLACES[(day + ord(self._self[0])) % 3]
                return _called(day, "fish_at", f'{{"place": "{place}"}}')


class Keeper:
    """A model of the keeper: it counts what it hears."""

    window_tokens = None
    dialect = "chat"
    name = "keeper:log"

    async def ask(self, request: Request) -> ModelReply:
        heard = re.findall(r"\w+ was here on day \d+\.", CHAT.view(request.items[-1]).text)
        return _said(f"heard {len(heard)}. {' '.join(heard)}")


def _said(text: str) -> ModelReply:
    return ModelReply(text=text, items=(CHAT.parse({"role": "assistant", "content": text}),))


def _called(day: int, tool: str, arguments: str) -> ModelReply:
    call = {"id": f"call_{day}", "type": "function", "function": {"name": tool, "arguments": arguments}}
    item: Item = CHAT.parse({"role": "assistant", "content": None, "tool_calls": [call]})
    return ModelReply(text="", items=(item,), called_tools=True)


async def settle(tk: Threadkeep, harbour: Harbour, name: str, *, square: Session) -> Session:
    """Return `name` as an agent of the harbour, on a thread of its own, with what it can do."""
    harbour.where[name], harbour.fish[name], harbour.coins[name] = "pier", 0, 0

    async def fish_at(place: str) -> str:
        """Go to a place and fish there."""
        if place == "reef" and harbour.day % 4 == 0:
            raise PermissionError("the reef is closed today")
        harbour.where[name] = place
        harbour.fish[name] += 2
        return f"{name} caught 2 fish at the {place}, day {harbour.day}."

    async def sell() -> str:
        """Sell all fish at the market."""
        sold, harbour.fish[name] = harbour.fish[name], 0
        harbour.where[name] = "market"
        harbour.coins[name] += sold * harbour.price
        return f"{name} sold {sold} fish at {harbour.price} on day {harbour.day}."

    async def call_out(text: str) -> str:
        """Call something out over the square, where everybody hears it."""
        await square.thread.deliver(text, sender=name, way="trigger", mail_id=f"{name}-{harbour.day}")
        return f"called out: {text}"

    tools = [fish_at, sell, call_out]
    return await Session.open(
        tk, f"fisher-{name}", model=Fisher(name), tools=tools, context=lambda: harbour.seen_by(name), recall=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What became of the harbour, from the world and from the threads."""

    coins: dict[str, int]
    caught: int
    log: list[str]
    compactions: int
    records: int
    is_sound: bool


async def play(store: Path, *, agents: int = 8, days: int = 12) -> Told:
    """Let a harbour live for some days and return what is known of it afterwards."""
    harbour = Harbour()
    log: list[str] = []
    config = Config(store=str(store), model_context_window=3_000, compact_strategy="extractive")
    async with Threadkeep(config) as tk:
        square = await Session.open(tk, "square", model=Keeper(), recall=False)
        fishers = [await settle(tk, harbour, name, square=square) for name in NAMES[:agents]]
        for harbour.day in range(1, days + 1):
            harbour.price = 3 + harbour.day % 3
            await asyncio.gather(*(fisher.ask(f"Day {harbour.day}. What do you do?") for fisher in fishers))
            # Whoever called out only left mail; the keeper's turn takes all of it, once, in the order it came.
            if (heard := await square.ask()).requests:
                log.append(f"Day {harbour.day}: {heard.text}")
        threads = await tk.threads()
        verdict = await tk.verify()
    return Told(
        coins=dict(harbour.coins),
        caught=sum(harbour.fish.values()),
        log=log,
        compactions=sum(thread.checkpoints for thread in threads),
        records=sum(thread.records for thread in threads),
        is_sound=verdict.ok,
    )


def main() -> None:
    """Play it in a new store and print what happened."""
    with tempfile.TemporaryDirectory() as folder:
        told = asyncio.run(play(Path(folder) / "harbour.db"))
    for line in told.log[-5:]:
        print(line)
    print(f"coins: {', '.join(f'{name} {coins}' for name, coins in told.coins.items())}")
    print(f"{told.records} records, {told.compactions} compactions, {'sound' if told.is_sound else 'DAMAGED'}")


if __name__ == "__main__":
    main()
