"""Many agents in one store: fishers in a harbour, and a keeper who writes a log.

Each agent is a `threadkeep.Session` with a thread of its own. It is told what changes in its world. When a fisher calls something
out, it goes as mail to the square, which is the keeper's thread; the keeper reads its mail once a day. Windows are small, so the
threads are compacted on the way.

Run it: `python examples/harbour.py`. It needs no key, because the models are a few lines of Python. You can use any other model
instead: `model="openai:NAME"`, `"anthropic:NAME"` or `"NAME@URL"`.
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
    """The world: where everybody is, what they have, and the price of fish. The agents' tools change it."""

    day: int = 0
    price: int = 4
    where: dict[str, str] = field(default_factory=dict)
    fish: dict[str, int] = field(default_factory=dict)
    coins: dict[str, int] = field(default_factory=dict)

    def describe_for(self, name: str) -> dict[str, object]:
        """Return what `name` is told about the world, in named sections. threadkeep sends only what changed."""
        others = [other for other, place in self.where.items() if place == self.where[name] and other != name]
        return {
            "rules": "The reef is closed on every fourth day. Never sell below the price of the day.",
            "day": f"day {self.day}",
            "you": {"name": name, "place": self.where[name], "fish": self.fish[name], "coins": self.coins[name]},
            "beside you": others,
            "market": {"price": self.price},
        }


class Fisher:
    """A model that plays a fisher: it is asked once a day, calls one tool, and repeats the tool's output."""

    window_tokens = None
    dialect = "chat"

    def __init__(self, name: str) -> None:
        self.name = f"fisher:{name}"
        self._self = name

    async def ask(self, request: Request) -> ModelReply:
        # Messages about the world come from the host; after a compaction one of them may be the last.
        views = [view for item in request.items if (view := CHAT.view(item)).by_person or view.context is None]
        if views[-1].kind is ItemKind.OUTPUT:
            return reply_text(views[-1].text)
        day = int(re.findall(r"Day (\d+)", views[-1].said)[-1])
        match (day + len(self._self) + ord(self._self[0])) % 4:
            case 0:
                return reply_call(day, "sell", "{}")
            case 1:
                return reply_call(day, "call_out", f'{{"text": "{self._self} was here on day {day}."}}')
            case _:
                place = PLACES[(day + ord(self._self[0])) % 3]
                return reply_call(day, "fish_at", f'{{"place": "{place}"}}')


class Keeper:
    """A model that plays the keeper: it counts and repeats what was called out."""

    window_tokens = None
    dialect = "chat"
    name = "keeper:log"

    async def ask(self, request: Request) -> ModelReply:
        heard = re.findall(r"\w+ was here on day \d+\.", CHAT.view(request.items[-1]).text)
        return reply_text(f"heard {len(heard)}. {' '.join(heard)}")


def reply_text(text: str) -> ModelReply:
    """Return an answer of a model."""
    return ModelReply(text=text, items=(CHAT.parse({"role": "assistant", "content": text}),))


def reply_call(day: int, tool: str, arguments: str) -> ModelReply:
    """Return a model's call of a tool."""
    call = {"id": f"call_{day}", "type": "function", "function": {"name": tool, "arguments": arguments}}
    item: Item = CHAT.parse({"role": "assistant", "content": None, "tool_calls": [call]})
    return ModelReply(text="", items=(item,), called_tools=True)


async def add_fisher(tk: Threadkeep, harbour: Harbour, name: str, *, square: Session) -> Session:
    """Add a fisher to the harbour: a session on a thread of its own, with three tools."""
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
        """Call something out on the square."""
        await square.thread.deliver(text, sender=name, way="trigger", mail_id=f"{name}-{harbour.day}")
        return f"called out: {text}"

    tools = [fish_at, sell, call_out]
    return await Session.open(
        tk, f"fisher-{name}", model=Fisher(name), tools=tools, context=lambda: harbour.describe_for(name), recall=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The state of the harbour and of its threads at the end."""

    coins: dict[str, int]
    caught: int
    log: list[str]
    compactions: int
    records: int
    is_sound: bool


async def play(store: Path, *, agents: int = 8, days: int = 12) -> Result:
    """Play some days in a harbour and return the result."""
    harbour = Harbour()
    log: list[str] = []
    config = Config(store=str(store), model_context_window=3_000, compact_strategy="extractive")
    async with Threadkeep(config) as tk:
        square = await Session.open(tk, "square", model=Keeper(), recall=False)
        fishers = [await add_fisher(tk, harbour, name, square=square) for name in NAMES[:agents]]
        for harbour.day in range(1, days + 1):
            harbour.price = 3 + harbour.day % 3
            await asyncio.gather(*(fisher.ask(f"Day {harbour.day}. What do you do?") for fisher in fishers))
            # The fishers only left mail. The keeper's turn takes all of it, once and in order.
            if (heard := await square.ask()).requests:
                log.append(f"Day {harbour.day}: {heard.text}")
        threads = await tk.threads()
        verdict = await tk.verify()
    return Result(
        coins=dict(harbour.coins),
        caught=sum(harbour.fish.values()),
        log=log,
        compactions=sum(thread.checkpoints for thread in threads),
        records=sum(thread.records for thread in threads),
        is_sound=verdict.ok,
    )


def main() -> None:
    """Play in a new store and print the end of the log."""
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(play(Path(folder) / "harbour.db"))
    for line in result.log[-5:]:
        print(line)
    print(f"coins: {', '.join(f'{name} {coins}' for name, coins in result.coins.items())}")
    print(f"{result.records} records, {result.compactions} compactions, {'sound' if result.is_sound else 'DAMAGED'}")


if __name__ == "__main__":
    main()
