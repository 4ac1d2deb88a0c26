"""Long histories that nobody knows go out before they are read, and come to the same as if they had been read first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.doubles.script import say
from tests.gateway.client import ENDPOINTS, HISTORY, WIRES, Client, answer, person, records, talk, text_of, threads

from threadkeep import Config, Threadkeep
from threadkeep.dialects import Dialect, Reply, find_dialect
from threadkeep.gateway.conversation.command_detection import CommandNames
from threadkeep.gateway.conversation.conversations import RecordedConversations
from threadkeep.gateway.conversation.proxy_interface import Forward, Incoming
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.store import Record, RecordKind

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ManualClock
    from tests.doubles.wires import WireName

    from threadkeep.items import Item, View

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("wire", WIRES),
    pytest.mark.moves_prefix(reason="a history that nobody knows begins with answers that this provider never gave"),
]

LINE = "The build log follows for reference. " * 150
DONE = Reply(outcome="completed")


class Counting:
    """A dialect that counts how many items were looked at."""

    def __init__(self, wire: WireName) -> None:
        self._dialect = find_dialect(wire)
        self.viewed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dialect, name)

    def view(self, item: Item) -> View:
        self.viewed += 1
        return self._dialect.view(item)


def long_history(wire: WireName, *, turns: int = 20) -> list[dict[str, Any]]:
    said = ([person(wire, f"Step {turn}. {LINE}"), answer(wire, f"Done with {turn}.")] for turn in range(turns))
    return [*(item for pair in said for item in pair), person(wire, "Go on.")]


def newcomer(tk: Threadkeep, wire: WireName, history: list[dict[str, Any]], *, rules: Rules | None = None) -> Client:
    client = talk(tk, wire, rules=rules)
    client.history = history
    return client


async def forwarded(client: Client) -> bytes:
    """Return what goes upstream for the history as it is, once all is recorded."""
    decided = await client.open()
    assert isinstance(decided, Forward)
    await decided.finished(DONE)
    return decided.body


async def test_a_long_history_that_nobody_knows_is_read_once_its_provider_is_asked(tk: Threadkeep, wire: WireName) -> None:
    """The client's own bytes go out when no more than the beginning was looked at; all of it is durable with the answer."""
    client = newcomer(tk, wire, long_history(wire))
    dialect = Counting(wire)
    client.conversations = RecordedConversations(tk, cast(Dialect, dialect), rules=Rules())
    decided = await client.open()
    assert isinstance(decided, Forward)
    assert (decided.body, dialect.viewed < 16) == (client.body(), True)
    await decided.finished(DONE)
    kept = [json.loads(record.body) for record in (await records(tk))[0] if record.kind is RecordKind.ITEM]
    assert kept == client.history


async def test_what_is_recorded_is_what_would_be_recorded_of_one_that_is_read_first(
    tmp_path: Path, clock: ManualClock, wire: WireName
) -> None:
    """Turns, links, estimates and bodies, with those of a gateway whose commands have names it must look for."""
    kept: list[list[Any]] = []
    for name in ("/compact", "/côpact"):
        async with Threadkeep(Config(store=str(tmp_path / f"{len(kept)}.db")), clock=clock) as tk:
            client = newcomer(tk, wire, long_history(wire), rules=Rules(commands=CommandNames(compact=(name,))))
            await client.send(say("fine"))
            await client.ask("And on.")
            laid_down = [each for each in (await records(tk))[0] if each.kind is not RecordKind.CONTEXT]
            kept.append([(each.kind, each.turn, each.tokens, each.depth, _told(each)) for each in laid_down])
    assert kept[0] == kept[1]


def _told(record: Record) -> object:
    """What a record says; the account a turn asks is told by a digest that is each store's own."""
    body = json.loads(record.body)
    return {name: value for name, value in body.items() if name != "issuer"} if record.kind is RecordKind.TURN else record.body


@pytest.mark.parametrize(
    "spelled",
    ["/compact", "\\/compact", "\\u002fcompact", "/c\\u006fmpact", "tk compact", "\\nTK compact", "\\u00a0\\u0074k compact"],
)
async def test_what_was_said_to_the_gateway_never_goes_out(tk: Threadkeep, wire: WireName, spelled: str) -> None:
    """A command in a history that nobody knows is found, however a client spells it."""
    said = long_history(wire)
    client = newcomer(tk, wire, [*said[:20], person(wire, "COMMAND"), answer(wire, "Compacted."), *said[20:]])
    body = client.body().replace(b"COMMAND", spelled.encode())
    decided = await client.conversations.open(Incoming(path=ENDPOINTS[wire], headers={}, body=body))
    assert isinstance(decided, Forward)
    await decided.finished(DONE)
    assert "ompact" not in text_of(json.loads(decided.body)[HISTORY[wire]])


async def test_what_the_gateway_said_never_goes_out(tk: Threadkeep, wire: WireName) -> None:
    """Its signature tells it where the client dropped the command."""
    other = talk(tk, wire)
    await other.ask("Begin.")
    await other.ask("tk status")
    said = long_history(wire)
    client = newcomer(tk, wire, [*said[:20], answer(wire, other.answers[0]), *said[20:]])
    assert other.answers[0].splitlines()[-1] not in text_of(json.loads(await forwarded(client))[HISTORY[wire]])


async def test_a_history_that_does_not_fit_is_compacted_before_it_goes_out(tk: Threadkeep, wire: WireName) -> None:
    """Whether it fits is told before it is read."""
    client = newcomer(tk, wire, long_history(wire), rules=Rules(auto_compact="on"))
    assert len(await forwarded(client)) < len(client.body()) // 4


async def test_one_that_its_provider_refuses_for_its_size_is_compacted_then(
    tmp_path: Path, clock: ManualClock, wire: WireName
) -> None:
    """It is read and recorded by then, and asked again in place of the refusal."""
    async with Threadkeep(Config(store=str(tmp_path / "far.db"), model_context_window=10_000_000), clock=clock) as tk:
        client = newcomer(tk, wire, long_history(wire), rules=Rules(auto_compact="on"))
        decided = await client.open()
        assert isinstance(decided, Forward)
        assert decided.overflowed is not None
        smaller = await decided.overflowed()
        assert smaller is not None
        assert (len(smaller.body) < len(decided.body) // 2, b"session_compact_state" in smaller.body) == (True, True)
        await decided.finished(DONE)


async def test_a_checkpoint_counts_after_a_restart(tk: Threadkeep, wire: WireName) -> None:
    """A gateway that never saw the history finds by its beginning that somebody knows it."""
    client = newcomer(tk, wire, long_history(wire))
    await client.send(say("fine"))
    await client.ask("/compact")
    client.conversations = talk(tk, wire).conversations
    await client.ask("Go on.")
    assert "session_compact_state" in text_of(client.provider.last)
    assert len(await threads(tk)) == 1


async def test_a_long_history_that_comes_again_while_it_is_recorded_is_one_thread(tk: Threadkeep, wire: WireName) -> None:
    """A client that tries again, and one that goes on before the answer, continues what is being recorded."""
    client = newcomer(tk, wire, long_history(wire))
    longer = client.forked()
    longer.history += [answer(wire, "Yes."), person(wire, "More.")]
    await client.open()
    await client.forked().open()
    await longer.open()
    await client.conversations.wait_idle()
    assert [thread.turns for thread in await tk.threads()] == [22]


async def test_one_that_leaves_a_known_beginning_forks_there(tk: Threadkeep, wire: WireName) -> None:
    """Hosts begin conversations with the same items: one that shares three of them is unread too, and a fork."""
    first = newcomer(tk, wire, long_history(wire))
    await forwarded(first)
    dialect = Counting(wire)
    other = newcomer(tk, wire, [*first.history[:3], *(long_history(wire)[5:])])
    other.conversations = RecordedConversations(tk, cast(Dialect, dialect), rules=Rules(), upstream="https://provider.test")
    decided = await other.open()
    assert isinstance(decided, Forward)
    assert dialect.viewed < 16
    await decided.finished(DONE)
    assert [(thread.parent is None) for thread in await tk.threads()] == [False, True]
    assert (await tk.verify()).problems == ()
