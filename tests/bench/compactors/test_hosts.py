"""Holdfast through hosts beside their own compactors: each driver that can run here, who is chosen, and the table."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from holdfast.bench.compactors.driver import COMPACTORS
from holdfast.bench.compactors.hosts import HostRow, host_peers, host_rows, hosts_table
from holdfast.bench.compactors.peer import MODEL_FREE, Named, PeerMissing, PeerProcess, Peers, named_peer
from holdfast.bench.retention.run import Plan, run_retention
from holdfast.cli.bench_arguments import bench_arguments

THROUGH = [name for name in COMPACTORS if name.startswith("holdfast-")]
RULE = "The gate of pier 0-0 must stay shut."


def is_missing(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return True
    return False


def hop_of(number: int) -> list[dict[str, Any]]:
    """Return six turns, each with a demand, a call and its long output."""
    made: list[dict[str, Any]] = []
    for pier in (f"{number}-{turn}" for turn in range(6)):
        call = {"id": f"call-{pier}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        made += [
            {"role": "user", "content": f"The gate of pier {pier} must stay shut."},
            {"role": "assistant", "content": "I look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call-{pier}", "content": f"all quiet at {pier} " * 60},
            {"role": "assistant", "content": f"Pier {pier} is shut."},
        ]
    return made


def refused(prompt: str) -> str:
    raise AssertionError(f"a model was asked: {prompt[:80]}")


@pytest.mark.parametrize("name", THROUGH)
def test_holdfast_compacts_through_a_host_and_asks_nobody(name: str) -> None:
    """After four hops the window is far shorter than what was said, and tells what was demanded first."""
    packages, _ = COMPACTORS[name]
    absent = [package for package in packages if is_missing(package)]
    if absent:
        pytest.skip(f"{absent[0]} is not installed")
    said = [hop_of(number) for number in range(4)]
    with PeerProcess(named_peer(name)) as process:
        process.begin()
        windows = [process.compacted(new, budget_tokens=1_500, summarise=refused) for new in said]
        process.begin()
        anew = process.compacted(said[3], budget_tokens=1_500, summarise=refused)
    last = windows[-1]
    assert last is not None
    assert len(str(last)) * 3 < len(str(said))
    assert RULE in str(last)
    assert process.version == f"{version('holdfast')} in {packages[1]} {version(packages[1])}"
    assert anew is not None
    assert RULE not in str(anew)


def test_holdfast_without_its_host_takes_no_part() -> None:
    """That holdfast is there is not enough."""
    absent = next((name for name in THROUGH if is_missing(COMPACTORS[name][0][1])), None)
    if absent is None:
        pytest.skip("every host is installed")
    with pytest.raises(PeerMissing, match=f"^{COMPACTORS[absent][0][1]} is not installed$"), PeerProcess(named_peer(absent)):
        pass


def test_hosts_are_looked_for_where_they_were_named() -> None:
    """Holdfast through a host is looked for where the host is; who is no host is kept."""
    there, elsewhere, here = "/opt/h/bin/python", "/opt/l/bin/python", sys.executable
    named = [named_peer(f"hermes={there}"), named_peer(f"holdfast-litellm={elsewhere}"), named_peer("headroom")]
    assert host_peers(named) == [
        Named(name="hermes", python=there),
        Named(name="holdfast-hermes", python=there),
        Named(name="langchain", python=here),
        Named(name="holdfast-langchain", python=here),
        Named(name="openai-agents", python=here),
        Named(name="holdfast-openai-agents", python=here),
        Named(name="pydantic-ai", python=here),
        Named(name="holdfast-pydantic-ai", python=here),
        Named(name="holdfast-litellm", python=elsewhere),
        Named(name="headroom", python=here),
    ]


def test_every_driver_is_a_host_s_or_named_by_itself() -> None:
    """Only headroom, which hosts nobody, needs to be named; through hosts no model is asked."""
    assert set(COMPACTORS) - {peer.name for peer in host_peers([])} == {"headroom"}
    assert set(THROUGH) | {"headroom"} == MODEL_FREE


def test_the_flag_is_one_of_retention(capsys: pytest.CaptureFixture[str]) -> None:
    """Off by default, and told in the help, where every driver that can be named is told too."""
    parser = ArgumentParser()
    bench_arguments(parser)
    assert parser.parse_args(["retention"]).hosts is False
    assert parser.parse_args(["retention", "--hosts"]).hosts is True
    with pytest.raises(SystemExit):
        parser.parse_args(["retention", "--help"])
    told = "".join(capsys.readouterr().out.split())
    assert "--hosts" in told
    assert [name for name in COMPACTORS if name.removeprefix("holdfast") not in told] == []


@pytest.mark.anyio
@pytest.mark.skipif(is_missing("openai-agents"), reason="openai-agents is not installed")
async def test_a_host_s_own_compactor_stands_beside_holdfast_through_it(tmp_path: Path) -> None:
    """Facts, tokens and the model's calls of both, from one run of the same session."""
    plan = Plan(name="tiny", dialects=("chat",), seeds=1, turns=12, hops=2, scored=(2,))
    named = [named_peer("openai-agents"), named_peer("holdfast-openai-agents")]
    with Peers(named, summarisers=("faithful",)) as peers:
        found = await run_retention(plan, family="story", seed=1, say=lambda text: None, folder=tmp_path, more=peers.arms)
    own, through = host_rows(found, peers.arms_made)
    assert [row.arm for row in (own, through)] == ["openai-agents, faithful", "holdfast-openai-agents"]
    assert (own.model_calls, through.model_calls) == (2, 0)
    assert (own.failures, through.failures) == (0, 0)
    assert (through.user_stated, through.stale) == (1.0, 0)
    assert through.window_tokens > 0


def test_rows_are_told_to_people_and_programs() -> None:
    """People get the figures of the run, programs its failures too."""
    row = HostRow(
        arm="hermes, lossy",
        user_stated=0.5,
        low=0.25,
        high=0.75,
        reused=1.0,
        stale=3,
        window_tokens=7_000.4,
        model_calls=40,
        failures=1,
    )
    table = hosts_table([row], hops=10, sessions=4)
    assert table.rows == [["hermes, lossy", "50.0%", "25%–75%", "100.0%", "3", "7,000", "40"]]
    assert len(table.columns) == len(table.rows[0])
    assert HostRow(**row.as_json()) == row  # type: ignore[arg-type]  # JSON tells no types
