"""Two hundred compactions in a row of one growing thread, in every dialect."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import pytest
from tests.client.every_dialect.script import check_window
from tests.dialects.samples import SAMPLES, Json

from threadkeep import Config, Thread, Threadkeep
from threadkeep.compaction import Ledger, Section, Speaker
from threadkeep.errors import NothingToCompact
from threadkeep.testing.dialect_checks import DialectSamples
from threadkeep.threads import EntryKind, History

pytestmark = pytest.mark.anyio

ROUNDS: Final = 200
# Small enough that both are full well before the tenth compaction.
STATE: Final = 1_500
QUOTED: Final = 800
RATCHET: Final = 1.2


def request(number: int) -> str:
    return f"Look at part {number} of the parser, please. Never touch locks/part_{number}.lock. " + "Mind the older cases. " * 12


def turn(samples: DialectSamples, number: int) -> list[Json]:
    """A turn: every seventh says the same again, every thirteenth only acknowledges."""
    said = "go on" if number % 13 == 0 else "Always run `make lint` first." if number % 7 == 0 else request(number)
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
    """The window does not grow, nothing appears twice, and every message is in the last window or named there."""
    config = Config(store="memory:", compact_state_tokens=STATE, compact_user_message_tokens=2 * QUOTED)
    async with Threadkeep(config) as tk:
        thread = await tk.thread("long", dialect=samples.dialect.name)
        prefixes, sizes = [], []
        for number in range(1, 2 * ROUNDS + 1):
            await grown(thread, turn(samples, number))
            if number % 2:
                continue
            report = await thread.compact()
            assert report.tokens_after <= report.tokens_before * 9 // 10
            with pytest.raises(NothingToCompact):
                await thread.compact()
            prefixes.append(state_of(await thread.history()))
            sizes.append(report.tokens_after)
        window, ledger, history = await check_window(thread, samples), await thread.state(), await thread.history()
    assert len(prefixes) == len(set(prefixes)) == ROUNDS
    assert sizes[-1] <= RATCHET * sizes[9]
    # A picture in the frontier is no ratchet: one came by the fortieth, too.
    assert max(sizes[150:]) <= RATCHET * max(sizes[9:40])
    assert next(entry.tokens for entry in history.entries if entry.kind is EntryKind.STATE) <= STATE
    told = Counter(entry.text for entry in ledger.entries if entry.speaker is Speaker.USER)
    asked = [request(n).strip() for n in range(1, 2 * ROUNDS + 1) if n % 13 and n % 7]
    assert told == Counter([*asked, "Always run `make lint` first."])
    assert ledger.section(Section.INACTIVE) == ()
    check_every_message_is_told(ledger, str(window))


def check_every_message_is_told(ledger: Ledger, shown: str) -> None:
    """Check that each message is in the window, by its beginning at least, or within the numbers it leaves to recall."""
    [(first, last)] = re.findall(r"left out for want of room: \d+ messages of the user \(#(\d+) to #(\d+)\)", shown)
    people = [entry for entry in ledger.entries if entry.speaker is Speaker.USER]
    gone = [entry.sources[-1].ordinal for entry in people if entry.id in ledger.left_out]
    assert (min(gone), max(gone)) == (int(first), int(last))
    assert [entry.text for entry in people if entry.id not in ledger.left_out and entry.text[:60] not in shown] == []
