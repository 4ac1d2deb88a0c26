"""Rule 17, A1: a compaction may ask the client's own model, on its own warm prefix, once."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.doubles.script import say
from tests.gateway.client import HISTORY, WIRES, Client, answer, base_fields, heard, person, records, talk, text_of

from threadkeep import Config, Threadkeep
from threadkeep.dialects import find_dialect
from threadkeep.gateway.conversation.proxy_interface import Answered, AnswerTooLong, ProviderAnswer
from threadkeep.gateway.conversation.rules import Rules

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.conftest import ManualClock
    from tests.doubles.wires import WireName

pytestmark = pytest.mark.anyio

LONG = "The build log follows for reference. " * 60
DRAFT = """<session_compact_state>
Objective:
- ship the release

Active Memory:
- retain all

Inactive Changes:
- none

Current Handoff:
- the model says: the readme is done

Evidence Pointers:
- none
</session_compact_state>"""


@pytest.fixture
async def roomy(store_file: Path, clock: ManualClock) -> AsyncIterator[Threadkeep]:
    """A store whose models have room for a whole history and an instruction behind it."""
    async with Threadkeep(Config(store=str(store_file), model_context_window=100_000), clock=clock) as opened:
        yield opened


class Asked:
    """The provider as the gateway itself asks it; `bodies` is what it was asked."""

    def __init__(self, client: Client, *, answer: str = DRAFT) -> None:
        self._client = client
        self._answer = answer
        self.bodies: list[dict[str, Any]] = []

    async def __call__(self, body: bytes) -> ProviderAnswer:
        self.bodies.append(json.loads(body))
        await asyncio.sleep(0)
        return heard(self._client.provider.receive(body, self._client.headers, say(self._answer)))


async def compacted(tk: Threadkeep, wire: WireName) -> tuple[Client, Asked, str]:
    client = talk(tk, wire, rules=Rules(asks_model="yes"))
    if wire == "responses":
        client.fields = {"prompt_cache_key": "ses_1"}
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}", say("fine", encrypted_reasoning="SEALED" if wire == "responses" else None))
    asked = Asked(client)
    client.history.append(person(wire, "/codex-compact mind the port"))
    decided = await client.open(ask_provider=asked)
    assert isinstance(decided, Answered)
    return client, asked, decided.text


@pytest.mark.parametrize("wire", WIRES)
async def test_one_request_goes_out_with_everything_a_turn_sends_and_the_instruction_last(
    roomy: Threadkeep, wire: WireName
) -> None:
    """Same model, instructions, tools and key; the history unchanged; then one message, and the command nowhere."""
    client, asked, text = await compacted(roomy, wire)
    assert ", 1 model calls." in text
    [body] = asked.bodies
    turn = json.loads(client.forked(length=-1).body())
    history = HISTORY[wire]
    beside = {name: value for name, value in body.items() if name not in (history, "tool_choice", "toolConfig")}
    assert beside == {name: value for name, value in turn.items() if name != history}
    said = find_dialect(wire)
    before = [said.canonical(said.parse(item)) for item in turn[history]]
    sent = [said.canonical(said.parse(item)) for item in body[history]]
    assert sent[:-1] == before[: len(sent) - 1]
    assert len(sent) == len(before) + 1
    assert "mind the port" in text_of(body[history][-1:])
    assert "/codex-compact" not in text_of(body[history])


@pytest.mark.parametrize("wire", WIRES)
async def test_neither_instruction_nor_command_appears_in_any_later_request(roomy: Threadkeep, wire: WireName) -> None:
    """A4: three turns later the provider has seen the instruction once, in the request that was it."""
    client, asked, text = await compacted(roomy, wire)
    last = asked.bodies[0][HISTORY[wire]][-1]
    instruction = last.get("content", last.get("parts"))
    words = instruction if isinstance(instruction, str) else instruction[-1]["text"]
    client.history.append(answer(wire, text))
    for turn in range(3):
        await client.ask(f"Later {turn}.")
        assert words[:80] not in json.dumps(client.provider.last, ensure_ascii=False)
        assert "/codex-compact" not in text_of(client.provider.last)
        assert "session_compact_state" in text_of(client.provider.last)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_history_that_leaves_no_room_is_told_in_parts_to_the_same_model(tk: Threadkeep, wire: WireName) -> None:
    """Each part says what the provider must be told with any request, and nothing of the conversation's own beside it."""
    _, asked, _ = await compacted(tk, wire)
    history = HISTORY[wire]
    fields = {"responses": {"model", "store", "stream"}, "chat": {"model"}, "messages": {"model", "max_tokens"}}
    expected: set[str] = fields.get(wire, set())
    assert len(asked.bodies) > 1
    assert [set(body) - {history} for body in asked.bodies] == [expected] * len(asked.bodies)
    assert {body.get("model") for body in asked.bodies} == {base_fields(wire).get("model")}


async def test_a_model_that_cannot_be_asked_costs_no_compaction(tk: Threadkeep) -> None:
    """The ladder ends without a model: the compaction happens all the same."""
    client = talk(tk, "chat", rules=Rules(asks_model="yes"))
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    client.history.append(person("chat", "/compact"))
    refusal = ProviderAnswer(status=400, headers={"content-type": "application/json"}, body=b'{"error":{"message":"no"}}')
    decided = await client.open(ask_provider=_answering(refusal))
    assert isinstance(decided, Answered)
    assert decided.text.startswith("Compacted: ")
    [checkpoint] = [record for record in (await records(tk))[0] if record.kind == "checkpoint"]
    assert json.loads(checkpoint.body)["strategy"] == "extractive"


async def test_a_model_that_does_not_come_to_an_end_is_asked_once(roomy: Threadkeep) -> None:
    """Its answer is broken off, which asking again would not change; the compaction happens without it."""
    client = talk(roomy, "chat", rules=Rules(asks_model="yes"))
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    client.history.append(person("chat", "/compact"))
    asked: list[bytes] = []

    async def goes_on_and_on(body: bytes) -> ProviderAnswer:
        asked.append(body)
        raise AnswerTooLong("the answer is too long")

    decided = await client.open(ask_provider=goes_on_and_on)
    assert isinstance(decided, Answered)
    assert (decided.text.startswith("Compacted: "), len(asked)) == (True, 1)


def _answering(answer: ProviderAnswer) -> Any:
    async def ask_provider(body: bytes) -> ProviderAnswer:
        return answer

    return ask_provider
