"""The design's bounds on what is kept, beside what was found; and the two controls without which no figure means anything."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.bench.result import Target
from holdfast.bench.retention.arms import EXTRACTIVE, FULL, NONE
from holdfast.bench.retention.facts import TOOL_KINDS, USER_KINDS, FactKind
from holdfast.bench.retention.probes import CHANCE
from holdfast.bench.retention.tally import Share, Tally

HOPS = 50
HISTORY_TOKENS = 500_000
WINDOW_TOKENS = 20_000
SEEDS = 4


def targets_of(tally: Tally, *, hops: int, seeds: int) -> list[Target]:
    """Return every target; what a run is too short to tell is not told, whatever it found."""
    history = min(tally.tokens(arm=EXTRACTIVE, hop=hops, of=lambda size: size.history_tokens), default=0)
    window = max(tally.tokens(arm=EXTRACTIVE, hop=hops, of=lambda size: size.window_tokens), default=0)
    long_enough = hops >= HOPS and history >= HISTORY_TOKENS and seeds >= SEEDS

    def kept(kinds: Collection[FactKind]) -> Share:
        return tally.share(arm=EXTRACTIVE, hop=hops, kinds=kinds)

    def held(what: str, share: Share, at_least: float) -> Target:
        met = share.kept_share >= at_least if long_enough else None
        return Target(what=what, bound=f"≥ {at_least:.0%}", found=told(share), met=met)

    stale = kept(frozenset(FactKind)).stale
    return [
        *_controls(tally, hops=hops),
        held("user-stated facts kept, extractive, closed book", kept(USER_KINDS), 0.99),
        held("tool-only facts that a later call reused", kept({FactKind.TOOL_REUSED}), 0.90),
        held("recall@5 from the question alone", tally.recall(USER_KINDS | TOOL_KINDS), 0.95),
        Target(
            what="stale values active without the newer", bound="0", found=str(stale), met=stale == 0 if long_enough else None
        ),
        Target(
            what="largest window after the last compaction, tokens",
            bound=f"≤ {WINDOW_TOKENS:,}",
            found=f"{window:,}",
            met=window <= WINDOW_TOKENS if long_enough else None,
        ),
        Target(
            what=f"shortest history, tokens; hops; seeds ({tally.refused} compactions were refused as not worth it)",
            bound=f"≥ {HISTORY_TOKENS:,}; {HOPS}; {SEEDS}",
            found=f"{history:,}; {hops}; {seeds}",
            met=True if long_enough else None,
        ),
        Target(what="the same with a harmful summariser (session)", bound="the same", found="no such arm yet", met=None),
    ]


def told(share: Share) -> str:
    """Return a share as a person reads it, with its interval."""
    if share.asked == 0:
        return "nothing asked"
    low, high = share.interval
    return f"{share.kept_share:.1%} ({low:.1%}–{high:.1%}) of {share.asked}"


def _controls(tally: Tally, *, hops: int) -> list[Target]:
    none = tally.share(arm=NONE, hop=hops, kinds=frozenset(FactKind))
    full = tally.share(arm=FULL, hop=hops, kinds=frozenset(FactKind))
    return [
        Target(
            what="control: no history scores at chance",
            bound=f"{CHANCE:.0%}",
            found=f"{none.credit:.1%}",
            met=abs(none.credit - CHANCE) < 1e-9,
        ),
        Target(
            what="control: the whole history tells every fact, none of them stale",
            bound="100%, 0",
            found=f"{full.kept_share:.1%}, {full.stale}",
            met=full.kept == full.asked and full.stale == 0,
        ),
    ]
