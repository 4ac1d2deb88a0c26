"""When a gateway asks the client's own model: where it compacts by itself, within a bound; never where it only records."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.doubles.script import say
from tests.gateway.client import Client, heard, person, records, talk, text_of
from tests.gateway.test_compaction_model import DRAFT, LONG

from threadkeep import Config, Threadkeep
from threadkeep.gateway.conversation.proxy_interface import Answered, Forward, ProviderAnswer
from threadkeep.gateway.conversation.rules import CLAUDE_CODE, AutoCompact, Rules, make_rules
from threadkeep.store import RecordKind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.conftest import ManualClock

pytestmark = pytest.mark.anyio


def answering(client: Client, asked: list[bytes]) -> Any:
    """Return a provider that drafts at once, and notes what it was asked."""

    async def ask_provider(body: bytes) -> ProviderAnswer:
        asked.append(body)
        await asyncio.sleep(0)
        return heard(client.provider.receive(body, client.headers, say(DRAFT)))

    return ask_provider


async def filled(tk: Threadkeep, rules: Rules, *, turns: int) -> Client:
    """Return a client whose next request is beyond the soft limit, or, with more turns, the hard one."""
    client = talk(tk, "responses", rules=rules)
    for turn in range(turns):
        client.history += [person("responses", f"{turn} {LONG}"), {"role": "assistant", "content": "a"}]
    client.history.append(person("responses", "Go on."))
    return client


async def attempts(tk: Threadkeep) -> list[list[tuple[str, str]]]:
    made = [json.loads(each.body) for thread in await records(tk) for each in thread if each.kind is RecordKind.CHECKPOINT]
    return [[(each["strategy"], each["outcome"]) for each in body["attempts"]] for body in made]


@pytest.fixture
async def impatient(store_file: Path, clock: ManualClock) -> AsyncIterator[Threadkeep]:
    """A store whose turns wait for no draft."""
    async with Threadkeep(Config(store=str(store_file), model_context_window=4_000, compact_wait_s=0), clock=clock) as opened:
        yield opened


def test_the_default_asks_where_the_gateway_compacts_by_itself_and_no_request_waits() -> None:
    """Where it only records it never does; each of the other answers holds everywhere."""
    urgent: dict[AutoCompact, tuple[bool, bool]] = {
        mode: (may_ask(Rules(auto_compact=mode), is_urgent=False), may_ask(Rules(auto_compact=mode), is_urgent=True))
        for mode in ("off", "background", "on")
    }
    assert urgent == {"off": (False, False), "background": (True, False), "on": (True, False)}
    assert not Rules(auto_compact="on").may_ask_model(client=CLAUDE_CODE, model="m", is_urgent=False)
    assert may_ask(Rules(asks_model="yes"), is_urgent=True)
    assert not may_ask(Rules(auto_compact="on", asks_model="no"), is_urgent=False)
    assert make_rules(Config()).asks_model == "auto"


def may_ask(rules: Rules, *, is_urgent: bool) -> bool:
    return rules.may_ask_model(client="codex", model="m", is_urgent=is_urgent)


@pytest.mark.moves_prefix(reason="a draft for a window this small is told as a transcript, a request of its own")
async def test_in_the_background_the_conversations_own_model_drafts(tk: Threadkeep) -> None:
    """With the client's credential, which `threadkeep run` and automatic compaction have; nothing is set for it."""
    client, asked = await filled(tk, Rules(auto_compact="background"), turns=6), list[bytes]()
    assert isinstance(await client.open(ask_provider=answering(client, asked)), Forward)
    await client.conversations.compactions.wait_idle()
    assert (await attempts(tk), bool(asked)) == ([[("session", "taken")]], True)


@pytest.mark.parametrize("mode", ["background", "on"])
async def test_a_request_that_needs_the_room_now_waits_for_no_model(tk: Threadkeep, mode: AutoCompact) -> None:
    """It goes out compacted without one."""
    client, asked = await filled(tk, Rules(auto_compact=mode), turns=8), list[bytes]()
    assert isinstance(await client.open(ask_provider=answering(client, asked)), Forward)
    await client.conversations.compactions.wait_idle()
    assert (await attempts(tk), asked) == ([[("extractive", "taken")]], [])


async def test_recording_alone_asks_nobody(tk: Threadkeep) -> None:
    """Not beyond every limit, and not where a person has the conversation compacted."""
    client, asked = await filled(tk, Rules(), turns=12), list[bytes]()
    sends = answering(client, asked)
    assert isinstance(await client.open(ask_provider=sends), Forward)
    await client.conversations.compactions.wait_idle()
    assert await attempts(tk) == []
    client.history[-1] = person("responses", "/compact")
    assert isinstance(await client.open(ask_provider=sends), Answered)
    assert (await attempts(tk), asked) == ([[("extractive", "taken")]], [])


@pytest.mark.parametrize(("mode", "turns"), [("background", 6), ("on", 8)])
async def test_one_setting_turns_it_off(store_file: Path, mode: AutoCompact, turns: int) -> None:
    """The same as in the library."""
    config = Config(store=str(store_file), model_context_window=4_000, compact_strategy="extractive")
    async with Threadkeep(config) as tk:
        client, asked = await filled(tk, Rules(auto_compact=mode), turns=turns), list[bytes]()
        assert isinstance(await client.open(ask_provider=answering(client, asked)), Forward)
        await client.conversations.compactions.wait_idle()
        assert (await attempts(tk), asked) == ([[("extractive", "taken")]], [])


async def test_a_hanging_draft_holds_no_request_up(impatient: Threadkeep) -> None:
    """The request that needs the room goes out compacted without the model; the draft was asked for once, and is dropped."""
    client, begun = await filled(impatient, Rules(auto_compact="background"), turns=6), asyncio.Event()

    async def never(body: bytes) -> ProviderAnswer:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    assert isinstance(await client.open(ask_provider=never), Forward)
    await begun.wait()
    client.history += [{"role": "assistant", "content": "a"}, person("responses", LONG * 2)]
    decided = await client.open(ask_provider=never)
    assert isinstance(decided, Forward)
    assert "session_compact_state" in text_of(json.loads(decided.body)["input"])
    assert (await attempts(impatient))[0] == [("session", "timed_out"), ("extractive", "taken")]
