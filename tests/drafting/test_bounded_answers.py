"""A model that drafts is told how much it may answer, in its provider's own words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doubles.model_server import ModelServer, streamed
from tests.drafting.replies import SUMMARY
from tests.llm.wires import WIRES, Wire
from tests.parity.vocabulary import Speech, play

from threadkeep import Threadkeep
from threadkeep.compaction.strategies.requests import ANSWER_TOKENS, HEADROOM_PERCENT
from threadkeep.compaction.summariser import answer_tokens
from threadkeep.dialects import Request
from threadkeep.llm import ProviderModel, open_model
from threadkeep.testing.model_checks import make_json_reply

pytestmark = pytest.mark.anyio

NAMES = {"responses": "max_output_tokens", "chat": "max_tokens", "messages": "max_tokens"}
BOUND = answer_tokens(3_800)


@pytest.fixture(params=list(WIRES))
def wire(request: pytest.FixtureRequest) -> Wire:
    return WIRES[request.param]


async def test_every_draft_is_bounded(tk: Threadkeep, speech: Speech, wire: Wire) -> None:
    """Whichever API is asked about a thread of whichever dialect."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 4)
    async with ModelServer([streamed(wire.dialect, SUMMARY)]) as server, wire.open(server.origin) as model:
        report = await thread.compact(strategy="handoff", model=model)
    assert report.strategy == "handoff"
    assert [request.body[NAMES[wire.dialect]] for request in server.requests] == [BOUND]


async def test_a_provider_that_refuses_the_bound_is_asked_without(tk: Threadkeep, speech: Speech) -> None:
    """An older model may write less than it; what it says it refuses is left out, once, and both questions are counted."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 4)
    refusal = make_json_reply({"error": {"message": "max_tokens is too large: this model writes at most 1024"}}, status=400)
    wire = WIRES["chat"]
    async with ModelServer([refusal, streamed("chat", SUMMARY)]) as server, wire.open(server.origin) as model:
        report = await thread.compact(strategy="handoff", model=model)
    assert (report.strategy, report.model_calls) == ("handoff", 2)
    assert [request.body.get("max_tokens") for request in server.requests] == [BOUND, None]


async def test_a_provider_that_refuses_anything_else_is_not_asked_again(tk: Threadkeep, speech: Speech) -> None:
    """No means no."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    refusal = make_json_reply({"error": {"message": "no such model"}}, status=404)
    async with ModelServer([refusal]) as server, WIRES["chat"].open(server.origin) as model:
        report = await thread.compact(strategy="handoff", model=model)
    assert [(attempt.outcome, attempt.calls) for attempt in report.attempts] == [("model_rejected", 1), ("taken", 0)]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://team.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("https://openai.com.example/v1", "max_tokens"),
        ("http://127.0.0.1:8080", "max_tokens"),
    ],
)
def test_chat_servers_are_told_in_the_word_they_understand(url: str, name: str) -> None:
    """OpenAI's newer models refuse the older word; other servers know no other."""
    model: ProviderModel = open_model(f"m@{url}", environ={})
    assert model.bound(Request(fields={}, head=(), items=()), answer_tokens=7).fields == {name: b"7"}


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_a_bound_of_the_request_itself_stays(name: str) -> None:
    """What a turn says of its answers counts for the draft that extends it."""
    request = Request(fields={name: b"5"}, head=(), items=())
    assert open_model("m@http://127.0.0.1:1", environ={}).bound(request, answer_tokens=7) == request


@given(window_tokens=st.integers(min_value=40, max_value=2_000_000))
def test_the_bound_fits_beside_the_largest_request(window_tokens: int) -> None:
    """A server that counts what may be answered into the window takes both."""
    largest = window_tokens * HEADROOM_PERCENT // 100 - min(ANSWER_TOKENS, window_tokens // 4)
    assert 0 < answer_tokens(window_tokens) <= min(16_000, window_tokens - largest)
