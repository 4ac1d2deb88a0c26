"""Compares every host's own compactor with threadkeep in that host, in a table of their own."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks.compactors.driver import COMPACTORS
from benchmarks.compactors.peer import PeerArm
from benchmarks.compactors.process import Named
from benchmarks.retention.facts import USER_KINDS, FactKind
from benchmarks.retention.run import Retained
from benchmarks.tables import Table

THROUGH, BEHIND = "threadkeep-", "-gateway"
# LiteLLM has no compactor of its own, and the Claude Agent SDK no slot that could take its own out; headroom is no host.
HOSTS = ("hermes", "langchain", "openai-agents", "pydantic-ai", "litellm", "claude-agent-sdk")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """One compactor at the end of a run: shares of what was asked, mean tokens of its windows, model calls of all sessions.

    `failures` are the hops at which it failed and went on with what it had.
    """

    arm: str
    user_stated: float
    low: float
    high: float
    reused: float
    stale: int
    window_tokens: float
    model_calls: int
    failures: int

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def list_host_peers(named: Sequence[Named]) -> list[Named]:
    """Return every host's compactor and threadkeep in it, then the others that were named.

    Each is looked for in the interpreter it was named with, else in its host's, else in this one.
    """
    pythons = {peer.name: peer.python for peer in named}
    made = [
        Named(name=name, python=pythons.get(name) or pythons.get(host) or sys.executable)
        for host in HOSTS
        for name in (host, f"{host}{BEHIND}", f"{THROUGH}{host}")
        if name in COMPACTORS
    ]
    chosen = {peer.name for peer in made}
    return [*made, *(peer for peer in named if peer.name not in chosen)]


def list_host_rows(result: Retained, arms: Sequence[tuple[str, PeerArm]]) -> list[HostRow]:
    """Return a row for each of `arms`, which played the run; those of several sessions under one name are one."""
    hop, tally = result.plan.hops, result.tally
    rows = []
    for name in dict.fromkeys(name for name, _ in arms):
        user = tally.share(arm=name, hop=hop, kinds=USER_KINDS)
        low, high = user.interval
        played = [arm for other, arm in arms if other == name]
        rows.append(
            HostRow(
                arm=name,
                user_stated=user.kept_share,
                low=low,
                high=high,
                reused=tally.share(arm=name, hop=hop, kinds={FactKind.TOOL_REUSED}).kept_share,
                stale=tally.share(arm=name, hop=hop, kinds=frozenset(FactKind)).stale,
                window_tokens=statistics.mean(tally.tokens(arm=name, hop=hop, of=lambda size: size.window_tokens)),
                model_calls=sum(arm.asked for arm in played),
                failures=sum(arm.failures for arm in played),
            )
        )
    return rows


def build_hosts_table(rows: Sequence[HostRow], *, hops: int, sessions: int) -> Table:
    """Return the rows for people."""
    return Table(
        title=f"Through hosts, after {hops} compactions",
        aside=f"at each hop everyone is asked for the same size; facts the window tells; model calls in {sessions} sessions",
        columns=["compactor, summariser", ">user-stated", ">95 %", ">reused", ">stale", ">tokens", ">calls"],
        rows=[
            [
                row.arm,
                f"{row.user_stated:.1%}",
                f"{row.low:.0%}–{row.high:.0%}",
                f"{row.reused:.1%}",
                str(row.stale),
                f"{row.window_tokens:,.0f}",
                str(row.model_calls),
            ]
            for row in rows
        ],
    )
