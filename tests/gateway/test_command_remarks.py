"""`tk pin`, `tk unpin` and `tk note` typed in a chat: recorded in the thread, confirmed by number, and in the next state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.gateway.client import WIRES, Client, talk, text_of, threads

if TYPE_CHECKING:
    from tests.doubles.wires import WireName

    from threadkeep import Threadkeep

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("wire", WIRES)]

LONG = "The build log follows for reference. " * 60
RULE = "Never push to the main branch of orchard."
FACT = "Ruth signs every release."


def told(client: Client) -> str:
    """Return the newest answer of the gateway, without its signature."""
    return client.answers[-1].rsplit("\n\n", 1)[0]


async def begun(tk: Threadkeep, wire: WireName) -> Client:
    client = talk(tk, wire)
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    return client


async def test_a_note_is_confirmed_and_stands_in_the_next_state(tk: Threadkeep, wire: WireName) -> None:
    """The number is the record's; the window does not change before the next compaction."""
    client = await begun(tk, wire)
    await client.ask(f"tk note {FACT}")
    [thread] = await threads(tk)
    [entry] = (await thread.state()).entries
    assert (entry.text, entry.pinned) == (FACT, False)
    assert told(client) == (f"Noted as #{entry.sources[0].ordinal}. It stands in the session state from the next compaction on.")
    await client.ask("Go on.")
    assert FACT not in text_of(client.provider.last)
    await client.ask("tk compact")
    await client.ask("Go on.")
    assert FACT in text_of(client.provider.last)
    assert len(await threads(tk)) == 1


async def test_what_is_pinned_is_kept_until_it_is_unpinned_by_its_number(tk: Threadkeep, wire: WireName) -> None:
    """The number that confirmed it names it, before a compaction and after it."""
    client = await begun(tk, wire)
    await client.ask(f"tk pin {RULE}")
    [thread] = await threads(tk)
    [entry] = (await thread.state()).entries
    number = entry.sources[0].ordinal
    assert (entry.text, entry.pinned) == (RULE, True)
    assert told(client) == (
        f"Pinned as #{number}. It stands in the session state from the next compaction on, and no compaction drops it.\n"
        f"`tk unpin #{number}` lets go of it."
    )
    await client.ask("tk compact")
    await client.ask("Go on.")
    assert RULE in text_of(client.provider.last)
    await client.ask(f"tk pin #{number}")
    assert told(client) == f"Entry {entry.id} is already pinned: {RULE}"
    await client.ask(f"tk unpin #{number}")
    kept = next(each for each in (await thread.state()).entries if each.text == RULE)
    assert kept.pinned is False
    assert told(client).startswith(f"Entry {kept.id} is no longer pinned (#")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("tk note", "Say what to note: `tk note Ask Ruth before you release.`"),
        ("tk pin", "Say what to pin: `tk pin Never push to main.`, or `tk pin #12` for what the session state has from #12."),
        ("tk unpin the rule", "Say which pin to let go of by its number: `tk unpin #12`"),
        ("tk pin #4000", "Not pinned: the session state of thread "),
        ("tk unpin 7", "Not unpinned: the session state of thread "),
        (f"tk note {'word ' * 1000}", "Not noted: a note has at most 4,000 characters, this one has 4,999; say it in several"),
    ],
)
async def test_what_cannot_be_done_is_said_and_nothing_recorded(tk: Threadkeep, wire: WireName, text: str, answer: str) -> None:
    """The answer says what to type instead."""
    client = talk(tk, wire)
    await client.ask("Begin.")
    await client.ask(text)
    assert told(client).startswith(answer)
    [thread] = await threads(tk)
    assert (await thread.state()).entries == ()
    assert len(client.provider.requests) == 1


async def test_a_mistyped_verb_is_answered_with_the_list(tk: Threadkeep, wire: WireName) -> None:
    """It names what was typed and what may have been meant."""
    client = talk(tk, wire)
    await client.ask("tk statsu")
    assert told(client) == (
        "'statsu' is not a command. Did you mean 'status'?\n"
        "Commands for the gateway; the model never sees them:\n"
        "tk compact [FOCUS]: compact this conversation now\n"
        "tk status: how full the window is\n"
        "tk undo: take the newest compaction back\n"
        "tk recall WORDS: find what was compacted away; #N shows that record\n"
        "tk note WORDS: write down what the agent must know after the next compaction\n"
        "tk pin WORDS: the same, and no compaction may drop it; #N pins what is there\n"
        "tk unpin #N: let later compactions drop it again\n"
        "tk help: this list\n"
        "/compact [FOCUS]: the same as compact\n"
        "/codex-compact [FOCUS]: the same as compact"
    )
    assert client.provider.requests == []
