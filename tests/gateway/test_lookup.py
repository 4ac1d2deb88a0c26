"""Rules 3, 6, 12, 13 and 23: whose history it is, what it is found by, and what it is not found by."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.doubles.script import say
from tests.gateway.client import WIRES, Client, answer, person, records, talk, text_of, threads

from threadkeep import Config, Threadkeep
from threadkeep.gateway.conversation.lookup import UNIT_ITEMS
from threadkeep.gateway.conversation.rules import CLAUDE_CODE, Rules
from threadkeep.store import RecordKind

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ManualClock
    from tests.doubles.wires import WireName

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

LONG = "The build log follows for reference. " * 60


def kinds(kept: list[Any]) -> list[RecordKind]:
    return [record.kind for record in kept]


async def filled(client: Client, *, turns: int = 4) -> None:
    for turn in range(turns):
        await client.ask(f"Step {turn}. {LONG}")


@pytest.mark.parametrize("wire", WIRES)
async def test_a_lost_race_looks_again_and_forks(tk: Threadkeep, wire: WireName) -> None:
    """Ten next steps of one conversation at once: all are kept, one in the thread itself and nine in forks of it."""
    client = talk(tk, wire)
    await client.ask("Begin.")
    await asyncio.gather(*(client.forked().ask(f"Way {number}.") for number in range(10)))
    kept = [text_of(list(await thread.window())) for thread in await threads(tk)]
    assert sorted(number for number in range(10) for text in kept if f'"Way {number}."' in text) == list(range(10))
    assert all('"Begin."' in text for text in kept)
    assert (await tk.verify()).problems == ()


@pytest.mark.parametrize("wire", WIRES)
async def test_a_step_repeated_at_the_same_time_is_one_step(tk: Threadkeep, wire: WireName) -> None:
    """A client that tries again is the same conversation, whichever try arrives first."""
    client = talk(tk, wire)
    await client.ask("Begin.")
    await asyncio.gather(*(client.forked().ask("Go on.") for _ in range(5)))
    assert len(await threads(tk)) == 1
    assert kinds((await records(tk))[0]).count(RecordKind.ITEM) == 3


async def test_two_gateways_on_one_store_share_conversations(store_file: Path, clock: ManualClock) -> None:
    """Each learns from the store what the other wrote; neither goes by what it remembers."""
    config = Config(store=str(store_file), model_context_window=4_000)
    async with Threadkeep(config, clock=clock) as one, Threadkeep(config, clock=clock) as two:
        client = talk(one, "messages")
        gateways = [client.conversations, talk(two, "messages").conversations]
        for turn in range(8):
            client.conversations = gateways[turn % 2]
            await client.ask(f"Step {turn}. {LONG}")
        client.conversations = gateways[0]
        await client.ask("/compact")
        client.conversations = gateways[1]
        await client.ask("Go on.")
        assert "session_compact_state" in text_of(client.provider.last)
        assert len(await threads(one)) == 1


async def test_what_is_remembered_of_a_thread_is_not_trusted(tk: Threadkeep) -> None:
    """A checkpoint that somebody else makes counts for the very next request, though nothing in it is new."""
    client = talk(tk, "responses")
    await filled(client)
    again = client.forked(length=-1)
    [thread] = await threads(tk)
    await thread.compact()
    await again.send(say("fine"))
    assert "session_compact_state" in text_of(again.provider.last)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_shorter_thread_that_is_remembered_does_not_hide_a_longer_one(tk: Threadkeep, wire: WireName) -> None:
    """After a compaction someone goes back to an early request: the conversation itself goes on where it was, compacted."""
    client = talk(tk, wire)
    await filled(client)
    early = client.forked(length=1)
    [thread] = await threads(tk)
    await thread.compact()
    client.conversations = early.conversations = talk(tk, wire).conversations
    await early.send(say("again"))
    await client.ask("Go on.")
    assert "session_compact_state" in text_of(client.provider.last)
    assert '"Go on."' in text_of(list(await thread.window()))


@pytest.mark.moves_prefix(reason="the client spells its history anew")
async def test_rule_4_renewed_ids_another_order_of_keys_and_another_date_are_the_same_history(tk: Threadkeep) -> None:
    """What Codex, opencode and pi change without changing the history: one thread, and their own bytes upstream."""
    client = talk(tk, "responses")
    client.history = [{"type": "message", "id": "msg_1", "role": "user", "content": [{"type": "input_text", "text": "Begin."}]}]
    client.fields = {"instructions": "Be brief. Today is 2026-01-01."}
    await client.send(say("fine"))
    client.history[0] = {"content": [{"text": "Begin.", "type": "input_text"}], "role": "user", "id": "msg_2"}
    client.history[1]["id"] = "msg_3"
    client.fields = {"instructions": "Be brief. Today is 2026-01-02."}
    await client.ask("Go on.")
    assert client.provider.requests[-1].raw == client.forked(length=-1).body()
    assert len(await threads(tk)) == 1
    other = client.forked()
    other.history[0] = person("responses", "Begin!")
    await other.ask("And on.")
    assert len(await threads(tk)) == 2


async def test_rule_13_tenants_share_no_checkpoint(store_file: Path, clock: ManualClock) -> None:
    """The same history under two tenants is two conversations."""
    config = Config(store=str(store_file), model_context_window=4_000)
    async with Threadkeep(config, clock=clock) as one:
        client = talk(one, "chat")
        await filled(client)
        await client.ask("/compact")
    async with Threadkeep(Config(store=str(store_file), tenant="other"), clock=clock) as two:
        other = client.forked()
        other.conversations = talk(two, "chat").conversations
        await other.ask("Go on.")
        assert "session_compact_state" not in text_of(other.provider.last)
        assert len(await threads(two)) == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_a_step_taken_again_keeps_the_checkpoint_made_for_it(tk: Threadkeep, wire: WireName) -> None:
    """An answer that is generated anew is asked for with the window it was asked for with before."""
    client = talk(tk, wire)
    await filled(client, turns=5)
    again = client.forked()
    client.conversations = talk(tk, wire, rules=Rules(auto_compact="on")).conversations
    await client.ask(f"Now this. {LONG * 2}")
    sent = client.provider.requests[-1].raw
    assert b"session_compact_state" in sent
    await client.ask("And that.")
    await again.ask(f"Now this. {LONG * 2}", say("answered anew"))
    assert client.provider.requests[-1].raw == sent


async def test_rule_2_claude_code_is_left_alone_unless_it_is_named(tk: Threadkeep) -> None:
    """Automatic compaction for all others does not touch it; named, it is compacted."""
    client = talk(tk, "messages", rules=Rules(auto_compact="on"), x_claude_code_session_id="s")
    await filled(client, turns=9)
    assert "session_compact_state" not in text_of(client.provider.last)
    named = client.forked()
    named.conversations = talk(tk, "messages", rules=Rules(auto_compact_for={CLAUDE_CODE: "on"})).conversations
    await named.ask("Go on.")
    assert "session_compact_state" in text_of(named.provider.last)


async def test_rule_23_a_gateway_whose_store_is_gone_forwards_what_the_client_sends(tk: Threadkeep, tmp_path: Path) -> None:
    """State lost in the middle of a conversation: the provider sees the client's own history, and is the one to refuse it."""
    client = talk(tk, "messages")
    await filled(client)
    await client.ask("/compact")
    async with Threadkeep(Config(store=str(tmp_path / "new.db"))) as empty:
        client.conversations = talk(empty, "messages").conversations
        before = client.history[:-2]
        await client.ask("Go on.")
        assert client.provider.last == [*before, person("messages", "Go on.")]


@pytest.mark.parametrize("sealed", [True, False])
async def test_rule_18_what_is_sealed_counts(tk: Threadkeep, sealed: bool) -> None:  # noqa: FBT001
    """4,000 characters of encrypted reasoning weigh; the gateway says how much the window holds."""
    client = talk(tk, "responses")
    await client.ask("Begin.", say("fine", encrypted_reasoning="x" * 4_000 if sealed else None))
    await client.ask("Go on.")
    client.history.append(person("responses", "tk status"))
    await client.send(say("never asked"))
    tokens = int(client.answers[0].split("Window: ")[1].split(" of ")[0].replace(",", ""))
    assert (tokens > 500) == sealed


REMINDERS = {
    "environment": "# Environment\nPrimary working directory: /w",
    "agents": "Available agent types for the Agent tool: a",
    "git_status": "# gitStatus\nclean",
}


def reminder(name: str) -> str:
    return f"<system-reminder>\n{REMINDERS[name]}\n</system-reminder>"


def context_shapes() -> dict[str, list[Json]]:
    """Return how Claude Code's releases tell a model about its world, before the first answer."""
    old = [person("messages", *(reminder(name) for name in REMINDERS), f"Begin. {LONG}")]
    system = {"role": "system", "content": "\n".join((REMINDERS["environment"], REMINDERS["agents"]))}
    new = [person("messages", reminder("git_status"), f"Begin. {LONG}"), system]
    own = [
        person("messages", "This session is being continued from a previous conversation. All well."),
        answer("messages", "Fine."),
        person("messages", *(reminder(name) for name in REMINDERS), f"Begin. {LONG}"),
    ]
    return {"old": old, "new": new, "after its own compaction": own}


@pytest.mark.parametrize("shape", ["old", "new", "after its own compaction"])
@pytest.mark.moves_prefix(reason="one of the clients compacts by itself")
async def test_rule_12_what_a_host_says_of_its_world_stays_once(tk: Threadkeep, shape: str) -> None:
    """Each block of context is upstream exactly once after a compaction, wherever the client had put it."""
    client = talk(tk, "messages")
    client.history = context_shapes()[shape]
    await client.send(say("fine"))
    await filled(client)
    await client.ask("/compact")
    await client.ask("Go on.")
    sent = text_of(client.provider.last)
    assert "session_compact_state" in sent
    told = {name: sent.count(text.splitlines()[-1]) for name, text in REMINDERS.items()}
    assert told == dict.fromkeys(REMINDERS, 1)


async def test_rule_12_codex_context_stays_once_before_or_behind_its_summary(tk: Threadkeep) -> None:
    """Developer context and environment, as Codex sends them after its own compaction."""
    client = talk(tk, "responses")
    developer = {
        "type": "message",
        "role": "developer",
        "content": [{"type": "input_text", "text": "<permissions>ask</permissions>"}],
    }
    environment = person("responses", "<environment_context>\n<cwd>/w</cwd>\n</environment_context>")
    summary = person("responses", "Another language model started to solve this problem and produced a summary: well.")
    client.history = [person("responses", "Never touch vendor/."), summary, developer, environment]
    await filled(client)
    await client.ask("/compact")
    await client.ask("Go on.")
    sent = text_of(client.provider.last)
    assert "session_compact_state" in sent
    counts = [sent.count(words) for words in ("<permissions>ask", "<cwd>/w</cwd>", "produced a summary: well.")]
    assert counts == [1, 1, 1]


@pytest.mark.parametrize("extra", [0, 1, 2])
async def test_a_history_written_in_several_units_has_the_turns_of_one(tk: Threadkeep, extra: int) -> None:
    """Wherever a unit ends: host context in front of a person's message stays in that message's turn, and the chain is whole."""
    client = talk(tk, "responses")
    told = {"role": "user", "content": "<environment_context>/b</environment_context>"}
    client.history = [{"role": "user", "content": "first"}] * extra
    for number in range(UNIT_ITEMS):
        client.history += [told, told, person("responses", f"{number}")]
    await client.send(say("done"))
    await client.conversations.wait_idle()
    turns = [(record.kind, record.turn) for record in (await records(tk))[0] if record.kind in (RecordKind.TURN, RecordKind.ITEM)]
    one = [(RecordKind.TURN, RecordKind.ITEM)] * extra + [(RecordKind.TURN, *[RecordKind.ITEM] * 3)] * UNIT_ITEMS
    assert turns == [(kind, number) for number, kinds in enumerate(one, start=1) for kind in kinds]
    assert (await tk.verify()).problems == ()
