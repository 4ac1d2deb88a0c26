"""The gateway's benchmark: real processes on loopback, requests that grow, figures beside the provider itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import aiohttp
import pytest

from benchmarks.command.console import parse_proxies
from benchmarks.gateway import run
from benchmarks.gateway.contenders import BARE, DIRECT, LITELLM, THREADKEEP, list_proxies
from benchmarks.gateway.run import ADDED, KNOWN, QUICK, RATE, RATE_SLICES, UNKNOWN, Conversation, run_gateway
from benchmarks.result import Found
from threadkeep.errors import BadInput

pytestmark = pytest.mark.slow


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
    """The provider itself, a bare pass-through and threadkeep, known and unknown, and requests a second."""
    plan = replace(QUICK, sizes=(1_000, 20_000), rounds=2, clients=2, seconds=0.5, probes=2)
    result = await run_gateway(plan, seed=5, say=lambda _: None, only=(BARE, THREADKEEP))
    measured = {(figure.measure, figure.contender, figure.size) for figure in result.figures}
    for size in plan.sizes:
        assert {(measure, name, size) for measure in (KNOWN, UNKNOWN) for name in (DIRECT, BARE, THREADKEEP)} <= measured
        assert (f"{KNOWN}: {ADDED}", THREADKEEP, size) in measured
    assert {(RATE, name, None) for name in (DIRECT, BARE, THREADKEEP)} <= measured
    assert {figure.value.samples for figure in result.figures if figure.measure == RATE} == {RATE_SLICES}
    assert [(target.what, target.met) for target in result.targets] == [
        ("requests a second beside LiteLLM's proxy, 1,000 bytes each, known histories, in turns", None)
    ]


@pytest.mark.anyio
async def test_requests_a_second_are_counted_in_turns_and_compared_slice_by_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has a slice before everyone had the last one; the ratio is the median of the slices' ratios."""
    order: list[str] = []
    rates = {
        DIRECT: iter(range(100, 200)),
        THREADKEEP: iter([1, 1, 60, 60, 60, 60, 600]),
        LITELLM: iter([1, 1, 10, 10, 10, 10, 10]),
    }

    async def counted(session: object, url: str, bodies: Sequence[bytes], *, seconds: float) -> float:
        order.append(url)
        assert {len(body) // 1_000 for body in bodies} == {1}
        return float(next(rates[url]))

    monkeypatch.setattr(run, "_rate", counted)
    found, urls = Found(), {name: name for name in rates}
    async with aiohttp.ClientSession() as session:
        await run._measure_rate(QUICK, found, urls, session=session, seed=1, say=lambda _: None)
    turns = [set(order[at : at + 3]) for at in range(0, len(order), 3)]
    assert turns == [set(rates)] * (2 + RATE_SLICES)
    run._hold(found, replace(QUICK, sizes=()))
    assert [(target.found, target.met) for target in found.targets] == [("6.0 × (6.0–6.0)", True)]


def test_a_proxy_of_another_environment_is_named_with_its_interpreter() -> None:
    """Another name, or none behind it, is refused; an interpreter without it has no version."""
    assert parse_proxies(["litellm=/opt/l/bin/python"]) == {"litellm": "/opt/l/bin/python"}
    with pytest.raises(BadInput, match="litellm or headroom"):
        parse_proxies(["litellm"])
    with pytest.raises(BadInput, match="'tape=x' names no proxy"):
        parse_proxies(["tape=x"])
    there = {proxy.name: proxy.version for proxy in list_proxies({"litellm": "/nowhere/python"})}
    assert there["LiteLLM proxy"] is None
