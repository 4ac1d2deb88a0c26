"""Two hundred compactions in a row of one growing thread, in every dialect."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest
from tests.across.script import check_window
from tests.dialects.samples import SAMPLES, Json

from threadkeep import Config, Thread, Threadkeep
from threadkeep.compaction import Section
from threadkeep.compaction.hearing import normalised
from threadkeep.errors import NothingToCompact
from threadkeep.testing.dialect_samples import DialectSamples
from threadkeep.thread import EntryKind, History

pytestmark = pytest.mark.anyio

ROUNDS: Final = 200
# What stays beside the state: a frontier of its floor, the request, what the host says of its world, and what users said.
BESIDE_STATE: Final = 8_000
STATE: Final = 2_000


def turn(samples: DialectSamples, number: int) -> list[Json]:
    """A turn: every tenth demands something new, every seventh says something again, every thirteenth changes a value."""
    said = f"Go on with part {number % 50} of the parser."
    if number % 10 == 0:
        said += f" Never touch locks/part_{number}.lock."
    if number % 7 == 0:
        said += " Always run `make lint` first."
    if number % 13 == 0:
        said += f" The staging port is {4_000 + number}."
    first = f"call_{number}"
    asked = samples.pictured(said) if number % 30 == 0 else samples.person(said)
    arguments = f'{{"path":"src/part_{number % 50}.py"}}'
    output = f"line {number} of the listing, with some words in it\n" * 160
    return [
        samples.host(f"cwd: /srv/part_{number}"),
        asked,
        *samples.calls({first: arguments}, thought=f"Thought {number}."),
        *samples.outputs({first: output}),
        samples.answer(f"Part {number} is fine."),
    ]


async def grown(thread: Thread, items: list[Json]) -> None:
    """Record items and check that what was sent before is still what is sent first; its last message may be merged."""
    before = list(await thread.window())
    await thread.record(items)
    assert list(await thread.window())[: max(0, len(before) - 1)] == before[:-1]


def state_of(history: History) -> tuple[int, bytes]:
    """Return the state's place and bytes; there is exactly one."""
    [found] = [(place, e.item.raw) for place, e in enumerate(history.entries) if e.kind is EntryKind.STATE]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("samples", SAMPLES, ids=[samples.dialect.name for samples in SAMPLES])
async def test_two_hundred_compactions_stay_bounded_and_move_the_prefix_once_each(samples: DialectSamples) -> None:
    """Inside budgets, nothing told twice, no second compaction without growth, every demand in force at the end."""
    async with Threadkeep(Config(store="memory:")) as tk:
        thread = await tk.thread("long", dialect=samples.dialect.name)
        prefixes = []
        for number in range(1, 2 * ROUNDS + 1):
            await grown(thread, turn(samples, number))
            if number % 2:
                continue
            report = await thread.compact()
            assert report.tokens_after <= report.tokens_before * 9 // 10
            with pytest.raises(NothingToCompact):
                await thread.compact()
            prefixes.append(state_of(await thread.history()))
        window, ledger, history = await check_window(thread, samples), await thread.state(), await thread.history()
    assert len(prefixes) == len(set(prefixes)) == ROUNDS
    state = next(entry.tokens for entry in history.entries if entry.kind is EntryKind.STATE)
    assert (state <= STATE, history.tokens - state <= BESIDE_STATE) == (True, True)
    told = Counter((entry.section, normalised(entry.text)) for entry in ledger.entries)
    assert [text for text, times in told.items() if times > 1] == []
    shown = str(window)
    assert [n for n in range(10, 2 * ROUNDS + 1, 10) if f"Never touch locks/part_{n}.lock" not in shown] == []
    assert [entry.text for entry in ledger.section(Section.ACTIVE) if "staging port is" in entry.text] == [
        "The staging port is 4390."
    ]
    assert len(ledger.section(Section.INACTIVE)) <= 20
