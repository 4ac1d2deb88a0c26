"""Compaction in the path of requests: when it happens, how often, what it costs others, and what becomes of its failures."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.doubles.prefix_growth import prefix_faults
from tests.doubles.provider_rules import BINDING_BETA
from tests.doubles.script import call, say
from tests.gateway.client import WIRES, Client, Provider, outputs_of, person, records, talk, text_of, threads

from threadkeep import Config, Threadkeep
from threadkeep.dialects import find_dialect
from threadkeep.gateway.conversation.compaction import RunningCompactions, find_due
from threadkeep.gateway.conversation.proxy_interface import Forward
from threadkeep.gateway.conversation.rules import CLAUDE_CODE, Rules, make_rules
from threadkeep.gateway.conversation.thread_cache import KnownThread, ThreadCache
from threadkeep.hooks import Facts, FunctionHook, HookEvent, HookReply, Hooks
from threadkeep.store import RecordKind
from threadkeep.threads import Tip
from threadkeep.tokens import Limits, Pressure

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ManualClock
    from tests.doubles.wires import WireName

pytestmark = pytest.mark.anyio

LONG = "The build log follows for reference. " * 60
LIMITS = Limits(soft=50, hard=80, full=100)


async def checkpoints(tk: Threadkeep) -> int:
    return sum(1 for each in await records(tk) for record in each if record.kind is RecordKind.CHECKPOINT)


async def filled(client: Client, *, turns: int = 6) -> None:
    for turn in range(turns):
        await client.ask(f"Step {turn}. {LONG}")


@pytest.mark.parametrize(
    ("tokens", "mode", "called_for"),
    [
        (99, "off", "nothing"),
        (49, "on", "nothing"),
        (50, "on", "nothing"),
        (80, "on", "now"),
        (49, "background", "nothing"),
        (50, "background", "in_background"),
        (80, "background", "now"),
    ],
)
def test_what_a_windows_pressure_calls_for(tokens: int, mode: Any, called_for: str) -> None:
    """Soft prepares, hard waits, off does neither."""
    assert find_due(Pressure(tokens=tokens, limits=LIMITS), mode) == called_for


def test_a_rule_names_a_client_or_how_a_model_begins() -> None:
    """The client counts first, then the longest name; Claude Code is off unless it is named."""
    rules = Rules(auto_compact="on", auto_compact_for={"gpt-5": "background", "gpt-5.1-codex": "off"})
    asked = [("", "gpt-4"), ("", "gpt-5"), ("", "gpt-5.1-codex-max"), (CLAUDE_CODE, "claude-x"), ("codex", "gpt-5")]
    modes = [rules.find_mode(client=client, model=model) for client, model in asked]
    assert modes == ["on", "background", "off", "off", "background"]
    named = replace(rules, auto_compact_for={CLAUDE_CODE: "background"})
    assert named.find_mode(client=CLAUDE_CODE, model="claude-x") == "background"


def test_rules_are_what_the_configuration_says() -> None:
    """Each setting of the gateway's reaches the rules; a switch turns on what is off, and leaves what is not."""
    config = Config(
        auto_compact="background",
        auto_compact_for={"m": "on"},
        gateway_asks_model="yes",
        bound_thinking="drop_block",
        prompt_cache_key="derived",
        compact_commands="/shrink",
        control_commands="/tk",
    )
    rules = make_rules(config, auto_compact=True)
    assert rules.commands.compact == ("/shrink",)
    assert rules.commands.control == ("/tk",)
    plain = replace(rules, commands=Rules().commands)
    assert plain == Rules(
        auto_compact="background",
        auto_compact_for={"m": "on"},
        thinking="drop_block",
        asks_model="yes",
        derives_cache_key=True,
    )
    assert make_rules(Config()) == Rules()
    assert make_rules(Config(), auto_compact=True) == Rules(auto_compact="on")


@pytest.mark.parametrize("wire", WIRES)
async def test_background_compaction_hinders_no_request_and_is_swapped_in(tk: Threadkeep, wire: WireName) -> None:
    """Promise 10: the request that passes the soft limit is sent as it is; a later one has the checkpoint."""
    client = talk(tk, wire, rules=Rules(auto_compact="background"))
    turn = 0
    while await checkpoints(tk) == 0:
        await client.ask(f"Step {turn}. {LONG}")
        assert "session_compact_state" not in text_of(client.provider.last)
        await client.conversations.compactions.wait_idle()
        turn += 1
    await client.ask("Go on.")
    assert "session_compact_state" in text_of(client.provider.last)
    assert prefix_faults(client.provider.requests) == []
    checkpoint = next(record for record in (await records(tk))[0] if record.kind is RecordKind.CHECKPOINT)
    assert (json.loads(checkpoint.body)["trigger"], json.loads(checkpoint.body)["reason"]) == ("auto", "background")
    assert turn < 7


async def test_one_compaction_serves_everyone_who_needs_it(tk: Threadkeep) -> None:
    """Rule 17, single flight: requests of one conversation that arrive together make one checkpoint and are all answered."""
    client = talk(tk, "responses")
    await filled(client)
    same = talk(tk, "responses", rules=Rules(auto_compact="on")).conversations
    asking = [client.forked() for _ in range(5)]
    for each in asking:
        each.conversations = same
    await asyncio.gather(*(each.ask("Go on.") for each in asking))
    assert await checkpoints(tk) == 1
    assert {request.raw for request in client.provider.requests[-5:]} == {client.provider.requests[-1].raw}


async def test_the_lease_of_a_killed_gateway_holds_nothing_up(tk: Threadkeep) -> None:
    """Killed while it drafted a compaction, it left a lease; the next gateway compacts a full window all the same."""
    client = talk(tk, "responses")
    await filled(client)
    [thread] = await threads(tk)
    now_ms = tk.backend.clock.now_ms()
    assert await tk.backend.store.acquire(f"compact:{thread.id}", holder="killed", now_ms=now_ms, ttl_ms=120_000)
    client.conversations = talk(tk, "responses", rules=Rules(auto_compact="background")).conversations
    await client.ask("Go on.")
    assert "session_compact_state" in text_of(client.provider.last)


async def test_another_thread_is_not_slowed(tk: Threadkeep) -> None:
    """While a compaction of one conversation is held up, another's requests are decided."""
    held = asyncio.Event()

    async def never(body: bytes) -> Any:
        await held.wait()
        raise ConnectionError("nobody there")

    client = talk(tk, "responses", rules=Rules(auto_compact="background", asks_model="yes"))
    for turn in range(6):
        client.history += [person("responses", f"{turn} {LONG}"), {"role": "assistant", "content": "a"}]
    client.history.append(person("responses", "Go on."))
    other = client.forked(length=0)
    assert isinstance(await client.open(ask_provider=never), Forward)
    await other.ask("Meanwhile.")
    await other.ask("And again.")
    assert await checkpoints(tk) == 0
    held.set()
    await client.conversations.compactions.wait_idle()


@pytest.mark.parametrize("wire", WIRES)
async def test_an_overflow_is_answered_with_a_smaller_request(tk: Threadkeep, wire: WireName) -> None:
    """The provider refuses; the same turn goes out compacted, and is answered; the checkpoint says why it was made."""
    await filled(writing := talk(tk, wire), turns=4)
    client = writing.forked()
    client.conversations = talk(tk, wire, rules=Rules(auto_compact="on")).conversations
    client.history = client.history[:4]
    client.history.append(person(wire, "Go on."))
    decided = await client.open()
    assert isinstance(decided, Forward)
    assert decided.overflowed is not None
    smaller = await decided.overflowed()
    assert smaller is not None
    assert len(smaller.body) < len(decided.body) * 0.8
    sent = Provider(wire).receive(smaller.body, client.headers, say("fine"))
    assert sent
    assert b"Go on." in smaller.body
    [checkpoint] = [record for each in await records(tk) for record in each if record.kind is RecordKind.CHECKPOINT]
    assert json.loads(checkpoint.body)["reason"] == "provider_overflow"


async def test_an_overflow_right_after_a_compaction_is_answered_too(tk: Threadkeep) -> None:
    """What the provider refuses is made smaller whether or not much was said since the last checkpoint."""
    client = talk(tk, "responses", rules=Rules(auto_compact="on"))
    await filled(client, turns=3)
    await client.ask("/compact")
    client.history.append(person("responses", "Go on."))
    decided = await client.open()
    assert isinstance(decided, Forward)
    assert decided.overflowed is not None
    smaller = await decided.overflowed()
    assert smaller is not None
    assert len(smaller.body) < len(decided.body)


async def test_an_overflow_within_a_loop_that_thinks_is_answered_too(tk: Threadkeep) -> None:
    """The smaller request asks the provider to drop thinking that no longer fits, with the header that allows it."""
    client = talk(tk, "messages")
    client.fields = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    await client.ask("Check all files.", call("bash", {"command": "0"}, call_id="c0", encrypted_reasoning="why 0"))
    for number in range(8):
        reply = call("bash", {"command": f"{number + 1}"}, call_id=f"c{number + 1}", encrypted_reasoning=f"why {number + 1}")
        await client.tool({f"c{number}": f"file {number} " + "is fine " * 80}, reply)
    client.history.extend(outputs_of("messages", {"c8": "done"}))
    client.conversations = talk(tk, "messages", rules=Rules(auto_compact="on")).conversations
    decided = await client.open()
    assert isinstance(decided, Forward)
    assert decided.overflowed is not None
    smaller = await decided.overflowed()
    assert smaller is not None
    assert smaller.headers == {"anthropic-beta": BINDING_BETA}
    assert len(smaller.body) < len(decided.body) * 0.8
    assert client.provider.receive(smaller.body, {**client.headers, **smaller.headers}, say("fine"))


async def test_an_overflow_that_cannot_be_helped_is_relayed(tk: Threadkeep) -> None:
    """Nothing to compact: the client is told the provider's own error, and can compact itself (rule 23)."""
    client = talk(tk, "responses", rules=Rules(auto_compact="on"))
    client.history = [person("responses", "Only this.")]
    decided = await client.open()
    assert isinstance(decided, Forward)
    assert decided.overflowed is not None
    assert await decided.overflowed() is None


async def test_rule_2_where_it_is_off_an_overflow_is_the_clients_business(tk: Threadkeep) -> None:
    """No rewriting that nobody asked for."""
    client = talk(tk, "responses")
    client.history = [person("responses", LONG)]
    decided = await client.open()
    assert isinstance(decided, Forward)
    assert decided.overflowed is None


async def test_what_gains_nothing_costs_no_turn(tk: Threadkeep) -> None:
    """One huge message cannot be compacted: it goes out as it is, and so does the next request."""
    client = talk(tk, "responses", rules=Rules(auto_compact="on"))
    for text in ("Read this. " + "word " * 4000, "Go on."):
        await client.ask(text)
        assert client.provider.requests[-1].raw == client.forked(length=-1).body()
    assert await checkpoints(tk) == 0


async def test_what_gained_nothing_is_tried_again_after_growth(tk: Threadkeep) -> None:
    """It is tried again when the window has grown by a tenth, and not before; other threads are not affected."""
    compactions = RunningCompactions(tk.backend, find_dialect("responses"), ThreadCache())
    tip = Tip(next=1, turn=1, depth=1, chain=b"")
    known, other = KnownThread(thread_id="t", tip=tip), KnownThread(thread_id="o", tip=tip)
    compactions.mark_futile(known, tokens=1_000)
    assert [compactions.is_futile(known, tokens=tokens) for tokens in (900, 1_099, 1_100)] == [True, True, False]
    assert not compactions.is_futile(other, tokens=900)


async def test_a_failure_in_the_background_is_recorded_and_costs_nothing(store_file: Path, clock: ManualClock) -> None:
    """The thread records that it could not be compacted, and why; the conversation goes on."""
    told: list[Facts] = []

    def stop(facts: Facts) -> HookReply:
        told.append(facts)
        return HookReply(stop=True, reason="not now")

    hooks = Hooks().on(HookEvent.PRE_COMPACT, FunctionHook(function=stop))
    config = Config(store=str(store_file), model_context_window=4_000)
    async with Threadkeep(config, clock=clock, hooks=hooks) as tk:
        client = talk(tk, "responses", rules=Rules(auto_compact="background"))
        while not told:
            await client.ask(f"Go on. {LONG}")
            await client.conversations.compactions.wait_idle()
        notes = [json.loads(record.body) for record in (await records(tk))[0] if record.kind is RecordKind.NOTE]
        assert [(note["event"], note["code"]) for note in notes] == [("compaction_failed", "compaction_stopped")]
        await client.ask("And on.")
        assert client.provider.requests[-1].raw == client.forked(length=-1).body()
        await client.conversations.compactions.wait_idle()
        assert (await tk.verify()).problems == ()


async def test_rule_7_a_gateway_that_comes_back_sends_the_same_prefix(store_file: Path, clock: ManualClock) -> None:
    """A7: checkpoints are stored before their first use, so a restarted gateway sends the same bytes."""
    config = Config(store=str(store_file), model_context_window=4_000)
    async with Threadkeep(config, clock=clock) as first:
        client = talk(first, "messages", rules=Rules(auto_compact="on"))
        await filled(client, turns=9)
        before = client.provider.requests[-1]
    async with Threadkeep(config, clock=clock) as second:
        resumed = client.forked()
        resumed.conversations = talk(second, "messages").conversations
        resumed.history = resumed.history[:-1]
        await resumed.send(say("fine"))
        assert client.provider.requests[-1].raw == before.raw
        assert (await second.verify()).problems == ()


async def test_closing_breaks_compactions_off(tk: Threadkeep) -> None:
    """What is under way ends, and the thread is what it was."""
    held = asyncio.Event()

    async def never(body: bytes) -> Any:
        await held.wait()

    client = talk(tk, "responses", rules=Rules(auto_compact="background", asks_model="yes"))
    for turn in range(6):
        client.history += [person("responses", f"{turn} {LONG}"), {"role": "assistant", "content": "a"}]
    client.history.append(person("responses", "Go on."))
    assert isinstance(await client.open(ask_provider=never), Forward)
    await client.conversations.close()
    await client.conversations.compactions.wait_idle()
    assert await checkpoints(tk) == 0
