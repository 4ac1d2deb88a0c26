"""Threadkeep through hosts beside their own compactors: each driver that can run here, who is chosen, and the table."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from benchmarks.command.arguments import add_measures
from benchmarks.compactors.driver import COMPACTORS
from benchmarks.compactors.hosts import BEHIND, HostRow, build_hosts_table, list_host_peers, list_host_rows
from benchmarks.compactors.peer import Peers, parse_peer
from benchmarks.compactors.process import Asked, Named, PeerMissing, PeerProcess
from benchmarks.retention.run import Plan, run_retention
from threadkeep.compaction.state_text import TAG

pytestmark = pytest.mark.slow

THROUGH = [name for name in COMPACTORS if name.startswith("threadkeep-")]
# Whoever asks a model by itself; behind the gateway the SDK is handed a window of threadkeep's.
ASKING = [name for name, entry in COMPACTORS.items() if entry.asks == "always" and not name.endswith(BEHIND)]
RULE = "The gate of pier 0-0 must stay shut."
NOTE = "the harbour office closes at half past four"
NOTED = f"""<{TAG}>
Objective:
- go on

Active Memory:
- {NOTE}

Inactive Changes:
- none

Current Handoff:
- none

Evidence Pointers:
- none
</{TAG}>"""


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


def refused(asked: Asked) -> str:
    raise AssertionError(f"a model was asked: {asked.prompt[:80]}")


def skip_without(name: str) -> tuple[str, ...]:
    packages = COMPACTORS[name].packages
    absent = [package for package in packages if is_missing(package)]
    if absent:
        pytest.skip(f"{absent[0]} is not installed")
    return packages


@pytest.mark.parametrize("name", THROUGH)
def test_threadkeep_compacts_through_a_host_and_asks_nobody(name: str) -> None:
    """After four hops the window is far shorter than what was said, and tells what was demanded first."""
    packages = skip_without(name)
    said = [hop_of(number) for number in range(4)]
    with PeerProcess(parse_peer(name)) as process:
        process.begin(has_model=False)
        windows = [process.compact(new, budget_tokens=1_500, summarise=refused) for new in said]
        process.begin(has_model=False)
        anew = process.compact(said[3], budget_tokens=1_500, summarise=refused)
    last = windows[-1]
    assert last is not None
    assert len(str(last)) * 3 < len(str(said))
    assert RULE in str(last)
    assert process.version == f"{version('threadkeep')} with {packages[1]} {version(packages[1])}"
    assert anew is not None
    assert RULE not in str(anew)


@pytest.mark.parametrize("name", THROUGH)
def test_threadkeep_through_a_host_asks_the_model_it_is_given_and_keeps_each_budget(name: str) -> None:
    """It shows its ledger, takes what changes, and has room for more as soon as it is allowed more."""
    skip_without(name)
    asked: list[Asked] = []

    def noted(question: Asked) -> str:
        asked.append(question)
        return NOTED

    with PeerProcess(parse_peer(name)) as process:
        process.begin(has_model=True)
        small = process.compact(hop_of(0), budget_tokens=900, summarise=noted)
        large = process.compact([*hop_of(1), *hop_of(2)], budget_tokens=3_000, summarise=noted)
    assert [question.instruction is not None for question in asked] == [True, True]
    assert "pier 2-0" in asked[1].prompt
    assert small is not None
    assert large is not None
    assert NOTE in str(small)
    assert RULE in str(large)
    assert len(str(small)) * 1.5 < len(str(large)) < 3_000 * 4.5


@pytest.mark.parametrize("name", ASKING)
def test_what_stands_only_in_a_call_is_shown_to_whoever_summarises(name: str) -> None:
    """As every host shows it to its own model: an argument is part of what happened."""
    skip_without(name)
    asked: list[str] = []
    berth = "QUAY-7741 => Sønner & Co"
    call = {"id": "call-1", "type": "function", "function": {"name": "moor", "arguments": f'{{"berth": "{berth}"}}'}}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "Moor the barge where it fits."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call-1", "content": "moored"},
        {"role": "assistant", "content": "It is moored."},
        *hop_of(0),
    ]

    def summarised(question: Asked) -> str:
        asked.append(question.prompt)
        return "ALL PIERS ARE SHUT"

    with PeerProcess(parse_peer(name)) as process:
        process.begin(has_model=True)
        process.compact(said, budget_tokens=900, summarise=summarised)
    assert process.trouble is None
    assert [berth in prompt for prompt in asked] == [True]


def test_threadkeep_without_its_host_takes_no_part() -> None:
    """That threadkeep is there is not enough."""
    absent = next((name for name in THROUGH if is_missing(COMPACTORS[name].packages[1])), None)
    if absent is None:
        pytest.skip("every host is installed")
    missing = COMPACTORS[absent].packages[1]
    with pytest.raises(PeerMissing, match=f"^{missing} is not installed$"), PeerProcess(parse_peer(absent)):
        pass


def test_hosts_are_looked_for_where_they_were_named() -> None:
    """Threadkeep through a host is looked for where the host is; who is no host is kept."""
    there, elsewhere, here = "/opt/h/bin/python", "/opt/l/bin/python", sys.executable
    named = [parse_peer(f"hermes={there}"), parse_peer(f"threadkeep-litellm={elsewhere}"), parse_peer("headroom")]
    assert list_host_peers(named) == [
        Named(name="hermes", python=there),
        Named(name="threadkeep-hermes", python=there),
        Named(name="langchain", python=here),
        Named(name="threadkeep-langchain", python=here),
        Named(name="openai-agents", python=here),
        Named(name="openai-agents-gateway", python=here),
        Named(name="threadkeep-openai-agents", python=here),
        Named(name="pydantic-ai", python=here),
        Named(name="threadkeep-pydantic-ai", python=here),
        Named(name="threadkeep-litellm", python=elsewhere),
        Named(name="claude-agent-sdk", python=here),
        Named(name="headroom", python=here),
    ]


def test_every_driver_is_a_host_s_or_named_by_itself() -> None:
    """Only headroom, which hosts nobody, needs to be named; through hosts a model may be asked or not."""
    assert set(COMPACTORS) - {peer.name for peer in list_host_peers([])} == {"headroom"}
    assert {name for name, entry in COMPACTORS.items() if entry.asks == "either"} == set(THROUGH)


def test_the_flag_is_one_of_retention(capsys: pytest.CaptureFixture[str]) -> None:
    """Off by default, and told in the help, where every driver that can be named is told too."""
    parser = ArgumentParser()
    add_measures(parser)
    assert parser.parse_args(["retention"]).hosts is False
    assert parser.parse_args(["retention", "--hosts"]).hosts is True
    with pytest.raises(SystemExit):
        parser.parse_args(["retention", "--help"])
    told = "".join(capsys.readouterr().out.split())
    assert "--hosts" in told
    assert [name for name in COMPACTORS if name.removeprefix("threadkeep") not in told] == []


@pytest.mark.anyio
@pytest.mark.skipif(is_missing("openai-agents"), reason="openai-agents is not installed")
async def test_a_host_s_own_compactor_stands_beside_threadkeep_through_it(tmp_path: Path) -> None:
    """Facts, tokens and the model's calls of both, from one run of the same session."""
    plan = Plan(name="tiny", dialects=("chat",), seeds=1, turns=12, hops=2, scored=(2,))
    named = [parse_peer("openai-agents"), parse_peer("threadkeep-openai-agents")]
    with Peers(named, summarisers=("faithful",)) as peers:
        found = await run_retention(plan, family="story", seed=1, say=lambda text: None, folder=tmp_path, more=peers.arms)
    rows = list_host_rows(found, peers.arms_made)
    assert [(row.arm, row.model_calls, row.failures) for row in rows] == [
        ("openai-agents, faithful", 2, 0),
        ("threadkeep-openai-agents, no model", 0, 0),
        ("threadkeep-openai-agents, faithful", 2, 0),
    ]
    assert [(row.user_stated, row.stale) for row in rows[1:]] == [(1.0, 0)] * 2
    assert all(row.window_tokens > 0 for row in rows)


@pytest.mark.skipif(is_missing("openai-agents"), reason="openai-agents is not installed")
def test_the_agents_sdk_compacts_through_the_gateway() -> None:
    """What the provider is asked to compact is threadkeep's window, and what it makes of that comes back to the session."""
    asked: list[Asked] = []

    def summarised(question: Asked) -> str:
        asked.append(question)
        return "ALL PIERS ARE SHUT"

    with PeerProcess(parse_peer("openai-agents-gateway")) as process:
        process.begin(has_model=True)
        said = [message for number in range(4) for message in hop_of(number)]
        window = process.compact(said, budget_tokens=1_500, summarise=summarised)
    (question,) = asked
    assert question.instruction is None
    assert len(question.prompt) * 3 < len(str(said)) * 2
    assert f"<{TAG}>" in question.prompt
    assert window is not None
    assert window[-1] == {"role": "assistant", "content": "ALL PIERS ARE SHUT", "sealed": True}


@pytest.mark.skipif(is_missing("claude-agent-sdk"), reason="claude-agent-sdk is not installed")
def test_claude_code_compacts_the_transcript_it_is_handed() -> None:
    """Its own `/compact`, twice: the second summary is asked for over the first one and what is new, and nothing else."""
    asked: list[Asked] = []

    def summarised(question: Asked) -> str:
        asked.append(question)
        return f"SUMMARY {len(asked)}"

    with PeerProcess(parse_peer("claude-agent-sdk")) as process:
        process.begin(has_model=True)
        windows = [process.compact(hop_of(number), budget_tokens=900, summarise=summarised) for number in (0, 1)]
    assert [len(asked), process.trouble] == [2, None]
    told = asked[1].prompt
    assert [mark in told for mark in ("SUMMARY 1", "pier 1-0", "pier 1-5", "pier 0-0", "What comes next?")] == [True] * 3 + [
        False
    ] * 2
    assert ["SUMMARY 2" in str(windows[1]), "SUMMARY 1" in str(windows[1])] == [True, False]


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
    table = build_hosts_table([row], hops=10, sessions=4)
    assert table.rows == [["hermes, lossy", "50.0%", "25%–75%", "100.0%", "3", "7,000", "40"]]
    assert table.aside == "at each hop everyone is asked for the same size; facts the window tells; model calls in 4 sessions"
    assert len(table.columns) == len(table.rows[0])
    assert HostRow(**row.as_json()) == row  # type: ignore[arg-type]  # JSON tells no types
