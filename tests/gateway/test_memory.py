"""What is remembered, shown to models through the gateway: opt-in, stable, in no history, counted when it is cited."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.doubles.prefix_growth import prefix_faults
from tests.doubles.script import call, say
from tests.doubles.wires import WireName
from tests.gateway.client import WIRES, Client, person, records, talk, text_of, threads

from threadkeep import Config, Threadkeep
from threadkeep.gateway.conversation.proxy_interface import Forward, Incoming
from threadkeep.gateway.conversation.rules import Rules, make_rules
from threadkeep.memory.memory_thread import MEMORY_THREAD
from threadkeep.memory.settings import DAY_MS
from threadkeep.store import RecordKind
from threadkeep.tokens import estimate_text

pytestmark = pytest.mark.anyio

HOUR_MS = 3_600_000
RULE = "You must never rename the crate table."
LATER = "You must never rename the shelf table."
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
SHOWS = Rules(memory="on")
LONG = "The build is slow and the tests are slower, so look at every file of it. " * 12


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> WireName:
    found: WireName = request.param
    return found


@pytest.fixture
async def tk(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Threadkeep]:
    """A store in which one rule is remembered."""
    async with Threadkeep(Config(store=str(tmp_path / "s.db"), model_context_window=4_000), clock=clock) as opened:
        await remember(opened, clock, "first", RULE)
        yield opened


async def remember(tk: Threadkeep, clock: ManualClock, thread: str, text: str) -> None:
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    await (await tk.thread(thread)).record([said])
    clock.ms += 7 * HOUR_MS
    await tk.memory.run()


async def name_of(tk: Threadkeep, text: str) -> str:
    return next(memory.id for memory in (await tk.memory.state()).memories if memory.text == text)


def before_history(client: Client) -> str:
    """Return what the newest request tells the model outside the client's own items."""
    body = client.provider.requests[-1].body
    head = [item for item in client.provider.last if item.get("role") in ("system", "developer")]
    return json.dumps([body.get("instructions"), body.get("system"), body.get("systemInstruction"), head])


async def test_it_is_off_unless_somebody_turns_it_on(tk: Threadkeep, wire: WireName) -> None:
    """However much is remembered, a gateway that was told nothing sends the client's own bytes."""
    client = talk(tk, wire, rules=make_rules(tk.config))
    await client.ask("Begin.")
    assert client.provider.requests[-1].raw == client.forked(length=-1).body()


async def test_a_new_conversation_is_shown_it_before_its_history(tk: Threadkeep, wire: WireName) -> None:
    """Behind the client's instructions, once and under the cap; the history goes out as the client sends it."""
    client = talk(tk, wire, rules=SHOWS)
    await client.ask("Begin.")
    await client.ask("Go on.")
    told = before_history(client)
    assert told.index("Be brief.") < told.index(RULE)
    assert client.provider.requests[-1].raw.count(RULE.encode()) == 1
    assert client.provider.last[-3:] == client.history[:-1]
    assert estimate_text(await tk.memory.summary()) <= tk.config.memory_summary_tokens


async def test_it_stands_in_no_record_of_the_conversation(tk: Threadkeep, wire: WireName) -> None:
    """Neither the chain nor what is noted beside it holds a word: only which memory it was."""
    client = talk(tk, wire, rules=SHOWS)
    await client.ask("Begin.")
    await client.ask("tk status")
    await client.ask("Go on.")
    thread = next(each for each in await threads(tk) if each.id != "first")
    stored = b"".join(record.body for record in await thread.records())
    assert b"crate table" not in stored
    assert b'"memory":"' in stored
    restarted = talk(tk, wire, rules=SHOWS)
    restarted.history, restarted.provider = client.history, client.provider
    await restarted.ask("More.")
    assert len([each for each in await threads(tk) if each.id != "first"]) == 1


async def test_a_conversation_keeps_what_it_began_with(tk: Threadkeep, wire: WireName, clock: ManualClock) -> None:
    """New memories, citations, a checkpoint and a restart change nothing of what it is shown; the next conversation gets it."""
    client = talk(tk, wire, rules=SHOWS)
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}", say(f"Done [memory:{await name_of(tk, RULE)}]"))
    shown = before_history(client)
    await remember(tk, clock, "second", LATER)
    await client.ask("Go on.")
    assert before_history(client) == shown
    await client.ask("/compact")
    again = talk(tk, wire, rules=SHOWS)
    again.history, again.provider = client.history, client.provider
    await again.ask("After it.")
    assert "<session_compact_state>" in text_of(again.provider.last)
    assert before_history(again) == shown
    assert prefix_faults(client.provider.requests) == []
    other = talk(tk, wire, rules=SHOWS)
    await other.ask("Something else.")
    assert (RULE in before_history(other), LATER in before_history(other)) == (True, True)


async def test_a_fork_is_shown_what_its_root_was(tk: Threadkeep, wire: WireName, clock: ManualClock) -> None:
    """It shares the prefix, so it shares what stands before it."""
    client = talk(tk, wire, rules=SHOWS)
    await client.ask("Begin.")
    await client.ask("Go on.")
    shown = before_history(client)
    await remember(tk, clock, "second", LATER)
    fork = client.forked(length=2)
    await fork.ask("Another way.")
    assert before_history(fork) == shown
    assert len([each for each in await threads(tk) if each.id not in ("first", "second")]) == 2


async def test_what_began_without_it_goes_on_without(tk: Threadkeep, wire: WireName) -> None:
    """Turning it on moves no prefix that is there: such a conversation is forwarded as it comes."""
    client = talk(tk, wire)
    await client.ask("Begin.")
    later = talk(tk, wire, rules=SHOWS)
    later.history, later.provider = client.history, client.provider
    await later.ask("Go on.")
    assert later.provider.requests[-1].raw == later.forked(length=-1).body()


@pytest.mark.parametrize(("memory", "shown"), [("on", 0), ("all", 1)])
async def test_claude_code_is_left_alone_unless_everybody_is_meant(tk: Threadkeep, memory: str, shown: int) -> None:
    """Its vendor asks gateways not to change its requests."""
    client = talk(tk, "messages", rules=make_rules(Config(gateway_memory=memory)), x_claude_code_session_id="s")
    await client.ask("Begin.")
    assert before_history(client).count(RULE) == shown


async def test_bound_thinking_fits_what_it_was_shown_with(tk: Threadkeep, clock: ManualClock) -> None:
    """A provider that binds thinking to the system's text accepts every step, whatever is remembered meanwhile."""
    client = talk(tk, "messages", rules=SHOWS)
    client.fields = dict(THINKING)
    await client.ask("Begin.", call("bash", {"command": "ls"}, call_id="c1", encrypted_reasoning="hm"))
    await remember(tk, clock, "second", LATER)
    await client.tool({"c1": "files"}, say("Seen.", encrypted_reasoning="so"))
    await client.ask("Go on.", say("Well.", encrypted_reasoning="well"))
    assert text_of(client.provider.last).count('"type": "thinking"') == 2
    assert LATER not in before_history(client)


@pytest.mark.moves_prefix(reason="what was taken back is shown to nobody, whatever that costs")
async def test_what_is_taken_back_is_shown_no_more(tk: Threadkeep, wire: WireName) -> None:
    """After an edit the very next request holds the memory as it is now, and its provider accepts it, thinking or not."""
    client = talk(tk, wire, rules=SHOWS)
    client.fields = dict(THINKING) if wire == "messages" else {}
    await client.ask("Begin.", say("Well.", encrypted_reasoning="hm"))
    await tk.memory.edit("## Rules\n- Ask Ana first.\n")
    await client.ask("Go on.", say("Yes.", encrypted_reasoning="so"))
    assert (RULE in before_history(client), "Ask Ana first." in before_history(client)) == (False, True)
    shown = before_history(client)
    await client.ask("And on.", say("Yes.", encrypted_reasoning="so"))
    assert before_history(client) == shown


@pytest.mark.moves_prefix(reason="what was taken back is shown to nobody, whatever that costs")
async def test_a_running_tool_loop_survives_what_is_taken_back(tk: Threadkeep) -> None:
    """Its thinking may neither stay as it is nor go: the provider is asked to drop what no longer fits as long as it is sent."""
    client = talk(tk, "messages", rules=SHOWS)
    client.fields = dict(THINKING)
    await client.ask("Begin.", call("bash", {"command": "ls"}, call_id="c1", encrypted_reasoning="hm"))
    await tk.memory.reset()
    await client.tool({"c1": "files"}, call("bash", {"command": "cat"}, call_id="c2", encrypted_reasoning="so"))
    await client.tool({"c2": "words"}, say("Done.", encrypted_reasoning="well"))
    assert RULE not in before_history(client)
    await client.ask("Go on.", say("Fine."))
    asked = [request.body["thinking"].get("block_binding") for request in client.provider.requests]
    assert asked == [None, *[{"prefix_mismatch_behavior": "drop_block"}] * 3]
    assert prefix_faults(client.provider.requests) == []


async def test_citations_count_and_disuse_retires(tk: Threadkeep, wire: WireName, clock: ManualClock) -> None:
    """An answer that cites a memory uses it, once; what nobody cites or says for thirty days is not shown any more."""
    await remember(tk, clock, "second", LATER)
    name = await name_of(tk, RULE)
    client = talk(tk, wire, rules=SHOWS)
    clock.ms += 20 * DAY_MS
    await client.ask("May I?", say(f"No, because of [memory:{name}], and again [memory:{name}, m0000000000]."))
    await client.ask("Sure?", say("Sure."))
    assert {memory.text: memory.used for memory in (await tk.memory.state()).memories} == {RULE: 1, LATER: 0}
    clock.ms += 20 * DAY_MS
    await tk.memory.run()
    fresh = talk(tk, wire, rules=SHOWS)
    await fresh.ask("Begin.")
    assert (RULE in before_history(fresh), LATER in before_history(fresh)) == (True, False)


async def test_another_tenant_is_shown_nothing(tk: Threadkeep, wire: WireName) -> None:
    """Memories belong to one tenant, and citations of another tenant's answers are not counted."""
    other = talk(await tk.for_tenant("other"), wire, rules=SHOWS)
    await other.ask("Begin.", say(f"As in [memory:{await name_of(tk, RULE)}]."))
    assert other.provider.requests[-1].raw == other.forked(length=-1).body()
    assert [memory.used for memory in (await tk.memory.state()).memories] == [0]


@pytest.mark.parametrize(
    "system",
    [None, "Be kind.", [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]],
    ids=["none", "text", "blocks"],
)
async def test_every_form_of_instructions_takes_it(tk: Threadkeep, system: object) -> None:
    """The Messages API has instructions as a text, as blocks or not at all; markers stay where the client set them."""
    client = talk(tk, "messages", rules=SHOWS)
    client.fields = {"system": system} if system is not None else {"system": []}
    await client.ask("Begin.")
    told = client.provider.requests[-1].body["system"]
    if isinstance(system, list):
        assert told[:-1] == system
    assert RULE in str(told)


async def test_chat_without_a_system_message_is_given_one(tk: Threadkeep) -> None:
    """Where nobody instructs the model, what is remembered stands first."""
    client = talk(tk, "chat", rules=SHOWS)
    body = json.dumps({"model": "m", "messages": [person("chat", "Begin.")]}).encode()
    decided = await client.conversations.open(Incoming(path="/chat/completions", headers={}, body=body))
    assert isinstance(decided, Forward)
    sent = json.loads(decided.body)["messages"]
    assert [message["role"] for message in sent] == ["system", "user"]
    assert RULE in sent[0]["content"]
    await client.conversations.close()


async def test_the_memory_is_no_conversation(tk: Threadkeep, wire: WireName) -> None:
    """Showing it writes nothing into it; only a citation does."""
    before = await (await tk.find(MEMORY_THREAD)).records()
    client = talk(tk, wire, rules=SHOWS)
    await client.ask("Begin.")
    assert await (await tk.find(MEMORY_THREAD)).records() == before
    kinds = [record.kind for thread in await records(tk) for record in thread]
    assert RecordKind.CONTEXT in kinds
