"""One small session, told without a dialect and rendered into each."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from tests.dialects.samples import Json

from threadkeep import Thread
from threadkeep.dialects.values import STATE_OPENING
from threadkeep.items import ItemKind, Role, decode_json, find_open_calls, find_orphans
from threadkeep.testing.dialect_checks import DialectSamples
from threadkeep.threads import EntryKind

OUTPUT_LINES: Final = 40


def demand(number: int) -> str:
    return f"Never touch locks/part_{number}.lock."


def request(number: int) -> str:
    return f"Please look into part {number} of the parser. {demand(number)}"


def turn(samples: DialectSamples, number: int) -> list[Json]:
    """A turn: the host's world, what a person asks, two calls at once after a thought, their outputs, an answer.

    Every third turn comes with a picture, every fourth with an item of a form nobody knows.
    """
    first, second = f"call_{number}_a", f"call_{number}_b"
    asked = samples.pictured(request(number)) if number % 3 == 0 else samples.person(request(number))
    long = f"line of part {number}\n" * OUTPUT_LINES
    return [
        samples.host(f"cwd: /srv/part_{number}"),
        asked,
        *samples.calls(
            {first: f'{{"path":"part_{number}.py"}}', second: '{"command":"make test"}'}, thought=f"Thought {number}."
        ),
        *samples.outputs({first: long, second: "ok"}),
        *([samples.unknown()] if number % 4 == 0 else []),
        samples.answer(f"Part {number} is fine."),
    ]


def turns(samples: DialectSamples, first: int, last: int) -> list[Json]:
    return [item for number in range(first, last + 1) for item in turn(samples, number)]


def arranged(samples: DialectSamples, items: list[Json]) -> list[Json]:
    """Return items as a window shows them where nothing was compacted."""
    parsed = [samples.dialect.parse(item) for item in items]
    return [decode_json(item.raw) for item in samples.dialect.arrange(parsed)]


async def check_window(thread: Thread, samples: DialectSamples, *, states: int = 1) -> list[Json]:
    """Return the window after checking that its provider could be sent it."""
    history, window = await thread.history(), await thread.window()
    views = [samples.dialect.view(item) for item in history.items]
    assert (find_orphans(views), find_open_calls(views)) == ([], [])
    assert [pair for pair in pairwise(window) if not samples.may_follow(*pair)] == []
    thoughts = [after for before, after in pairwise(views) if before.kind is ItemKind.REASONING]
    assert [view.role for view in thoughts] == [Role.ASSISTANT] * len(thoughts)
    assert [entry.kind for entry in history.entries].count(EntryKind.STATE) == states
    assert str(list(window)).count(STATE_OPENING) == states
    return list(window)
