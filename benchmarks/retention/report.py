"""The tables of a retention run: all arms, every kind of fact."""

from __future__ import annotations

import statistics
from collections.abc import Collection

from benchmarks.retention.arms import EXTRACTIVE, LIBRARY, arm_names
from benchmarks.retention.facts import USER_KINDS, FactKind
from benchmarks.retention.run import Retained
from benchmarks.retention.tally import list_hops
from benchmarks.tables import Table

# Kinds with a column of their own beside what the user said.
ALONE = (FactKind.TOOL_REUSED, FactKind.TOOL_UNUSED, FactKind.WORKING, FactKind.SET_ASIDE)
OMISSIONS = ("summarisers are scripted, no model is asked; `faithful` has a key to what matters, which no model has",)


def list_facts(result: Retained) -> list[str]:
    """Return how it was measured, a line each."""
    plan, tally = result.plan, result.tally
    histories = tally.tokens(arm=EXTRACTIVE, hop=plan.hops, of=lambda size: size.history_tokens)
    return [
        f"{', '.join(plan.dialects)}; seeds {result.seed} to {result.seed + plan.seeds - 1}; "
        f"{plan.turns} turns, {plan.hops} compactions",
        f"histories of {min(histories):,} to {max(histories):,} tokens; {tally.refused} compactions refused as not worth it",
        "single choice of four, options shuffled by the seed; judged by exact value, without a reader",
        "intervals: Wilson, 95 %, seeds pooled, a fact counted once however many dialects it was asked in",
        "every baseline but none and full has at most the size that extractive had at that hop",
        *OMISSIONS,
    ]


def build_tables(result: Retained) -> list[Table]:
    """Return what was found: all arms at the end, all arms hop by hop, extractive kind by kind."""
    return [_build_arm_table(result), _build_hop_table(result), _build_kind_table(result)]


def _build_arm_table(result: Retained) -> Table:
    hop, tally = result.plan.hops, result.tally
    rows = []
    for arm in _list_arms(result):
        user = tally.share(arm=arm, hop=hop, kinds=USER_KINDS)
        low, high = user.interval
        everything = tally.share(arm=arm, hop=hop, kinds=frozenset(FactKind))
        by_seed = tally.seeds(arm=arm, hop=hop, kinds=USER_KINDS)
        sizes = tally.tokens(arm=arm, hop=hop, of=lambda size: size.window_tokens)
        rows.append(
            [
                arm,
                f"{user.kept_share:.1%}",
                f"{low:.0%}–{high:.0%}",
                f"{by_seed[0]:.0%}–{by_seed[-1]:.0%}",
                *(_format_kept(result, arm, hop, {kind}) for kind in ALONE),
                str(everything.beside),
                f"{everything.stale} ({everything.outdated})" if everything.stale else "0",
                f"{everything.credit:.1%}",
                f"{statistics.mean(sizes):,.0f}",
                f"{statistics.median(tally.ms(arm=arm)):.1f}",
            ]
        )
    return Table(
        title=f"Told by the window alone after {hop} compactions",
        aside="beside: with a wrong value; stale (newer gone); score: single choice, a guess where nothing is told",
        columns=[
            "arm, summariser",
            ">user-stated",
            ">95 %",
            ">by seed",
            ">reused",
            ">tool-only",
            ">in hand",
            ">set aside",
            ">beside",
            ">stale",
            ">score",
            ">tokens",
            ">ms",
        ],
        rows=rows,
    )


def _list_arms(result: Retained) -> list[str]:
    """Return every arm that was judged, guests before the library's own."""
    known = arm_names()
    guests = [arm for arm in dict.fromkeys(cell.arm for cell in result.tally.cells) if arm not in known]
    return [*(arm for arm in known if arm not in LIBRARY), *guests, *LIBRARY]


def _build_hop_table(result: Retained) -> Table:
    hops = list_hops(result.tally.cells)
    return Table(
        title="User-stated facts told, by the number of compactions",
        aside="of those said by then",
        columns=["arm, summariser", *(f">{hop}" for hop in hops)],
        rows=[[arm, *(_format_kept(result, arm, hop, USER_KINDS) for hop in hops)] for arm in _list_arms(result)],
    )


def _build_kind_table(result: Retained) -> Table:
    hop, tally = result.plan.hops, result.tally
    sessions = [arm for arm, summariser in LIBRARY.items() if summariser]
    rows = []
    for kind in FactKind:
        share = tally.share(arm=EXTRACTIVE, hop=hop, kinds={kind})
        if not share.asked:
            continue
        found = [each for each in tally.recalled if each.kind is kind]
        asked = sum(each.asked for each in found)
        low, high = share.interval
        worst = min(sessions, key=lambda arm: tally.share(arm=arm, hop=hop, kinds={kind}).kept_share)
        rows.append(
            [
                kind.value,
                str(share.asked),
                f"{share.kept_share:.1%}",
                f"{low:.0%}–{high:.0%}",
                str(share.stale),
                f"{_format_kept(result, worst, hop, {kind})} {LIBRARY[worst]}",
                f"{sum(each.quoted for each in found) / asked:.1%}" if asked else "–",
                f"{sum(each.record for each in found) / asked:.1%}" if asked else "–",
            ]
        )
    return Table(
        title=f"Kind by kind after {hop} compactions",
        aside="recall@5 by the question alone: the value quoted, or at least its record found",
        columns=["kind", ">asked", ">extractive", ">95 %", ">stale", ">session, worst", ">recalled", ">record"],
        rows=rows,
    )


def _format_kept(result: Retained, arm: str, hop: int, kinds: Collection[FactKind]) -> str:
    share = result.tally.share(arm=arm, hop=hop, kinds=kinds)
    return f"{share.kept_share:.1%}" if share.asked else "–"
