"""The gateway's benchmark: real processes on loopback, requests that grow, figures beside the provider itself."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from holdfast.bench.gateway.contenders import BARE, DIRECT, HOLDFAST
from holdfast.bench.gateway.conversation import Conversation
from holdfast.bench.gateway.run import ADDED, KNOWN, QUICK, RATE, UNKNOWN, run_gateway


@pytest.mark.parametrize("size", [1_000, 100_000, 1_000_000])
def test_a_conversation_has_about_the_size_that_was_asked_for(size: int) -> None:
    """Within a tenth, and 500 bytes for the smallest."""
    body = Conversation(size, seed=1).next_body()
    assert abs(len(body) - size) <= max(500, size // 10)


def test_every_request_begins_with_the_one_before() -> None:
    """A client that resends its history, and one turn more."""
    conversation = Conversation(10_000, seed=1)
    first, second = (json.loads(conversation.next_body())["messages"] for _ in range(2))
    assert second[: len(first)] == first
    assert len(second) == len(first) + 2


def test_two_seeds_share_no_first_message() -> None:
    """What is meant to be unknown is."""
    one, other = (json.loads(Conversation(1_000, seed=seed).next_body())["messages"][0] for seed in (1, 2))
    assert one != other


@pytest.mark.anyio
async def test_a_run_measures_everyone_at_every_size() -> None:
    """The provider itself, a bare pass-through and holdfast, known and unknown, and requests a second."""
    plan = replace(QUICK, sizes=(1_000, 20_000), rounds=2, clients=2, seconds=0.5, probes=2)
    result = await run_gateway(plan, seed=5, say=lambda _: None, only=(BARE, HOLDFAST))
    measured = {(figure.measure, figure.contender, figure.size) for figure in result.figures}
    for size in plan.sizes:
        assert {(measure, name, size) for measure in (KNOWN, UNKNOWN) for name in (DIRECT, BARE, HOLDFAST)} <= measured
        assert (f"{KNOWN}: {ADDED}", HOLDFAST, size) in measured
    assert {(RATE, name, None) for name in (DIRECT, BARE, HOLDFAST)} <= measured
    assert [target.met for target in result.targets] == [None]
