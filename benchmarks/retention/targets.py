"""The design's targets for retention compared with a run, and the two controls that give the figures a meaning."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from benchmarks.result import Target
from benchmarks.retention.arms import EXTRACTIVE, FULL, LIBRARY, NONE
from benchmarks.retention.facts import TOOL_KINDS, USER_KINDS, FactKind
from benchmarks.retention.probes import CHANCE
from benchmarks.retention.tally import Share, Tally

HOPS = 50
HISTORY_TOKENS = 500_000
WINDOW_TOKENS = 20_000
SEEDS = 4
EVERY = frozenset(FactKind)


def targets_of(tally: Tally, *, hops: int, seeds: int) -> list[Target]:
    """Return every target, first without a model, then with the summariser that did worst; what a run is too short to tell is
    not told, whatever it found."""
    history = min(tally.tokens(arm=EXTRACTIVE, hop=hops, of=lambda size: size.history_tokens), default=0)
    told = hops >= HOPS and history >= HISTORY_TOKENS and seeds >= SEEDS
    recalled = tally.recall(USER_KINDS | TOOL_KINDS)
    return [
        *_controls(tally, hops=hops),
        *_kept_by(tally, [EXTRACTIVE], hops=hops, told=told),
        _hold_share("recall@5 from the question alone", recalled, 0.95, told=told),
        *_kept_by(tally, [arm for arm, summariser in LIBRARY.items() if summariser], hops=hops, told=told),
        Target(
            what=f"shortest history, tokens; hops; seeds ({tally.refused} compactions were refused as not worth it)",
            bound=f"≥ {HISTORY_TOKENS:,}; {HOPS}; {SEEDS}",
            found=f"{history:,}; {hops}; {seeds}",
            met=True if told else None,
        ),
    ]


def _kept_by(tally: Tally, arms: Sequence[str], *, hops: int, told: bool) -> list[Target]:
    """Return the targets on what is kept, each by the arm that does worst at it."""

    def worst(kinds: Collection[FactKind]) -> tuple[str, Share]:
        shares = [(arm, tally.share(arm=arm, hop=hops, kinds=kinds)) for arm in arms]
        return min(shares, key=lambda pair: pair[1].kept_share)

    stale_arm, stale = max(((arm, tally.share(arm=arm, hop=hops, kinds=EVERY).stale) for arm in arms), key=lambda pair: pair[1])
    sizes = {arm: max(tally.tokens(arm=arm, hop=hops, of=lambda size: size.window_tokens), default=0) for arm in arms}
    largest_arm = max(sizes, key=lambda arm: sizes[arm])
    user_arm, user = worst(USER_KINDS)
    window = sizes[largest_arm]
    return [
        _hold_share(f"user-stated facts kept, closed book ({user_arm})", user, 0.99, told=told),
        Target(
            what=f"stale values active without the newer ({stale_arm})",
            bound="0",
            found=str(stale),
            met=stale == 0 if told else None,
        ),
        Target(
            what=f"largest window after the last compaction, tokens ({largest_arm})",
            bound=f"≤ {WINDOW_TOKENS:,}",
            found=f"{window:,}",
            met=window <= WINDOW_TOKENS if told else None,
        ),
    ]


def _hold_share(what: str, share: Share, least: float, *, told: bool) -> Target:
    return Target(what=what, bound=f"≥ {least:.0%}", found=format_share(share), met=share.kept_share >= least if told else None)


def format_share(share: Share) -> str:
    """Return a share as a person reads it, with its interval."""
    if share.asked == 0:
        return "nothing asked"
    low, high = share.interval
    return f"{share.kept_share:.1%} ({low:.1%}–{high:.1%}) of {share.asked}"


def _controls(tally: Tally, *, hops: int) -> list[Target]:
    none = tally.share(arm=NONE, hop=hops, kinds=EVERY)
    full = tally.share(arm=FULL, hop=hops, kinds=EVERY)
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
