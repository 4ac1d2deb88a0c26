"""`compact_strategy = "remote"` behind the gateway: the client's own provider compacts, on the client's account."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.client import WIRES, Client, person, records, talk, text_of

from threadkeep import Config, Threadkeep
from threadkeep.gateway.conversation.proxy_interface import Answered, AnswerTooLong, Forward, ProviderAnswer
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.store import RecordKind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from tests.conftest import ManualClock
    from tests.doubles.wires import WireName

pytestmark = pytest.mark.anyio

LONG = "The build log follows for reference. " * 60
BETA = "compact-2026-09-04"
REFUSAL = ProviderAnswer(status=404, headers={"content-type": "application/json"}, body=b'{"error":{"message":"no such path"}}')
SEALED: dict[WireName, Any] = {
    "responses": {"type": "compaction", "encrypted_content": "OPAQUE"},
    "messages": {"role": "assistant", "content": [{"type": "compaction", "content": "OPAQUE"}]},
}
WHOLE: dict[WireName, Any] = {
    "responses": {"id": "r", "object": "response.compaction", "status": "completed", "output": [SEALED["responses"]]},
    "messages": {"id": "m", "type": "message", "stop_reason": "compaction", "usage": {}, **SEALED["messages"]},
}


@pytest.fixture
async def remote(store_file: Path, clock: ManualClock) -> AsyncIterator[Threadkeep]:
    """A store whose compactions are the provider's own."""
    config = Config(store=str(store_file), model_context_window=100_000, compact_strategy="remote")
    async with Threadkeep(config, clock=clock) as opened:
        yield opened


class Beside:
    """The provider's other paths; `asked` is where, with which headers beside the client's own, and what it was asked."""

    def __init__(self, answer: ProviderAnswer) -> None:
        self._answer = answer
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []

    async def __call__(self, path: str, body: bytes, headers: Mapping[str, str]) -> ProviderAnswer:
        self.asked.append((path, dict(headers), json.loads(body)))
        return self._answer


async def refuses(body: bytes) -> ProviderAnswer:
    return REFUSAL


def answering(wire: WireName) -> ProviderAnswer:
    return ProviderAnswer(status=200, headers={"content-type": "application/json"}, body=json.dumps(WHOLE[wire]).encode())


async def compacted(tk: Threadkeep, wire: WireName, beside: Beside) -> Client:
    client = talk(tk, wire, rules=Rules(asks_model="yes"), authorization="Bearer sk-one")
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    client.history.append(person(wire, "/compact"))
    decided = await client.open(ask_provider=refuses, ask_path=beside)
    assert isinstance(decided, Answered)
    client.history += [{"role": "assistant", "content": decided.text}, person(wire, "Go on.")]
    return client


async def strategy(tk: Threadkeep) -> str:
    [checkpoint] = [record for record in (await records(tk))[0] if record.kind is RecordKind.CHECKPOINT]
    return str(json.loads(checkpoint.body)["strategy"])


@pytest.mark.parametrize("wire", ["responses", "messages"])
async def test_what_the_provider_made_goes_out_first_beside_a_readable_state(remote: Threadkeep, wire: WireName) -> None:
    """It is asked where its API says, with the turn's own model and tools; in Messages under the beta that knows it."""
    beside = Beside(answering(wire))
    client = await compacted(remote, wire, beside)
    [(path, headers, body)] = beside.asked
    history = "input" if wire == "responses" else "messages"
    assert path == f"/{wire}"
    beta = {"x-codex-beta-features": "remote_compaction_v2"} if wire == "responses" else {"anthropic-beta": BETA}
    assert headers == beta
    assert body.get("compaction") == (None if wire == "responses" else {"type": "summarize"})
    turn = json.loads(client.body())
    assert [body[name] for name in ("model", "tools")] == [turn[name] for name in ("model", "tools")]
    assert "Step 0." in text_of(body[history])
    assert "/compact" not in text_of(body[history])
    assert await strategy(remote) == "remote"
    decided = await client.open()
    assert isinstance(decided, Forward)
    sent = json.loads(decided.body)[history]
    assert sent[0] == SEALED[wire]
    assert "session_compact_state" in text_of(sent)
    assert decided.headers.get("anthropic-beta") == (None if wire == "responses" else BETA)


@pytest.mark.parametrize("wire", ["responses", "messages"])
async def test_another_account_gets_the_readable_state_alone(remote: Threadkeep, wire: WireName) -> None:
    """What one account's provider sealed is not shown to another's."""
    client = await compacted(remote, wire, Beside(answering(wire)))
    client.headers["authorization"] = "Bearer sk-two"
    decided = await client.open()
    assert isinstance(decided, Forward)
    assert b"OPAQUE" not in decided.body
    assert b"session_compact_state" in decided.body
    assert "anthropic-beta" not in decided.headers


@pytest.mark.parametrize("wire", WIRES)
async def test_a_provider_that_does_not_compact_costs_no_compaction(remote: Threadkeep, wire: WireName) -> None:
    """The ladder goes on: to the model, and at last to none."""
    beside = Beside(REFUSAL)
    await compacted(remote, wire, beside)
    # OpenAI is asked twice: on the way to an answer, and where that is refused, at the endpoint for it.
    assert len(beside.asked) == {"messages": 1, "responses": 2}.get(wire, 0)
    assert await strategy(remote) == "extractive"


@pytest.mark.parametrize("wire", ["responses", "messages"])
async def test_an_answer_that_would_not_end_is_asked_for_once(remote: Threadkeep, wire: WireName) -> None:
    """Asking again would not make it shorter, and each time is paid for."""
    asked: list[str] = []

    async def endless(path: str, body: bytes, headers: Mapping[str, str]) -> ProviderAnswer:
        asked.append(path)
        raise AnswerTooLong("the answer is longer than anybody would write")

    client = talk(remote, wire, rules=Rules(asks_model="yes"))
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    client.history.append(person(wire, "/compact"))
    assert isinstance(await client.open(ask_provider=refuses, ask_path=endless), Answered)
    assert asked == [f"/{wire}"]
    assert await strategy(remote) == "extractive"
