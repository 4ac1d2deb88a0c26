"""What is said of many answers: how many are right, how many do harm, and what is left of what the baseline knew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.bench.cases.lab import CHAIN_CONTROL, NONE, SOURCE
from holdfast.bench.cases.progress import AnsweredCase, Prepared
from holdfast.bench.cases.run import CasesRun
from holdfast.bench.report import Table
from holdfast.bench.retention.tally import wilson


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Answers together: `exact` are worth a whole point, `mean` is the mean score."""

    asked: int
    exact: int
    mean: float
    hard_fails: int
    verdicts: dict[str, int]

    @property
    def rate(self) -> float:
        return self.exact / self.asked if self.asked else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """Of what the baseline got right after the same hop (`comparable`), how much a variant did."""

    comparable: int
    kept: int
    baseline_rate: float
    rate: float

    @property
    def share(self) -> float | None:
        return self.kept / self.comparable if self.comparable else None


def outcome(answers: Iterable[AnsweredCase]) -> Outcome:
    """Return what these answers come to."""
    found = list(answers)
    return Outcome(
        asked=len(found),
        exact=sum(each.score == 1 for each in found),
        mean=round(sum(each.score for each in found) / len(found), 4) if found else 0.0,
        hard_fails=sum(each.hard_fail for each in found),
        verdicts=dict(sorted(Counter(each.verdict for each in found).items())),
    )


def retained(answers: Sequence[AnsweredCase], *, variant: str, baseline: str, hops: Collection[int]) -> Retained:
    """Return what a variant kept of what the baseline knew after these hops, case by case, where both were asked."""
    found = [each for each in answers if each.hop in hops]
    right, known = (
        {(each.session, each.hop, each.case): each.score == 1 for each in found if each.variant == name}
        for name in (variant, baseline)
    )
    both = right.keys() & known.keys()
    comparable = [key for key in both if known[key]]
    return Retained(
        comparable=len(comparable),
        kept=sum(right[key] for key in comparable),
        baseline_rate=len(comparable) / len(both) if both else 0.0,
        rate=sum(right[key] for key in both) / len(both) if both else 0.0,
    )


def aggregates(run: CasesRun) -> dict[str, Any]:
    """Return every cell: variant by hop, by category, by priority, against the baseline, and the size of its windows."""
    answers = run.answered
    baseline = _baseline(answers)
    told: dict[str, Any] = {"baseline": baseline, "variants": {}}
    for variant in _variants(answers):
        own = [each for each in answers if each.variant == variant]
        told["variants"][variant] = {
            "all": asdict(outcome(own)),
            "hops": {hop: _at_hop(run, own, variant, hop, baseline) for hop in _hops(own)},
            "categories": {name: asdict(outcome(each for each in own if each.category == name)) for name in _categories(own)},
            "priorities": {
                name: asdict(outcome(each for each in own if each.priority == name)) for name in sorted({e.priority for e in own})
            },
            "hard_fail_cases": sorted({each.case for each in own if each.hard_fail}),
            "run_errors": dict(Counter(each.error for each in own if each.error)),
        }
    return told


def tables(run: CasesRun) -> list[Table]:
    """Return the same as people read it."""
    answers, baseline = run.answered, _baseline(run.answered)
    return [
        _by_variant(run, baseline=baseline),
        Table(
            title="Right, category by category",
            aside="after the last hop; all answers of a variant",
            columns=["category", ">asked", *(f">{name}" for name in _variants(answers))],
            rows=_category_rows([each for each in answers if each.hop == max(_hops(answers), default=0)]),
        ),
    ]


def facts(run: CasesRun) -> list[str]:
    """Return how it was asked, a line each."""
    terms = run.terms
    asked, made = terms["run"], terms["manifest"]
    mode = "a compaction after every hop" if asked["chain"] else "one compaction over the whole session"
    return [
        f"sessions {', '.join(made['sessions'])}; {made['cases']} cases and a working state a hop; manifest {made['digest']}",
        f"{mode}; reader {terms['reader']}; summariser {terms['summariser'] or 'none'}; seed {asked['seed']}",
        f"window {asked['window_tokens']:,} tokens, target {asked['target']}; blind probes in forks that never compact",
        f"tool output {'with' if asked['noisy'] else 'without'} noise; asked after hop {_listed(asked['asked_at'])}",
    ]


def _listed(hops: Sequence[int]) -> str:
    return ", ".join(map(str, hops)) if hops else "1 and every later one"


def _by_variant(run: CasesRun, *, baseline: str | None) -> Table:
    rows = []
    for variant in _variants(run.answered):
        own = [each for each in run.answered if each.variant == variant]
        for hop in _hops(own):
            found = outcome(each for each in own if each.hop == hop)
            low, high = wilson(found.exact, found.asked)
            kept = retained(run.answered, variant=variant, baseline=baseline or variant, hops={hop})
            share = "–" if baseline in (None, variant) or kept.share is None else f"{kept.share:.0%} of {kept.comparable}"
            sizes = [each.window_tokens for each in run.prepared if each.variant == variant and each.hop == hop]
            mean = f"{sum(sizes) / len(sizes):,.0f}" if sizes else "–"
            rows.append(
                [
                    variant,
                    str(hop),
                    f"{found.exact} of {found.asked}",
                    f"{low:.0%}–{high:.0%}",
                    f"{found.mean:.2f}",
                    str(found.hard_fails),
                    share,
                    mean,
                ]
            )
    return Table(
        title="Variant by variant, hop by hop",
        aside=f"retained: of what {baseline} got right after the same hop" if baseline else "no baseline was run",
        columns=["variant", ">hop", ">right", ">95 %", ">score", ">hard fails", ">retained", ">window"],
        rows=rows,
    )


def _category_rows(answers: Sequence[AnsweredCase]) -> list[list[str]]:
    rows = []
    for name in _categories(answers):
        found = {
            variant: outcome(each for each in answers if each.variant == variant and each.category == name)
            for variant in _variants(answers)
        }
        cells = [f"{each.exact}" if each.asked else "–" for each in found.values()]
        rows.append([name, str(max(each.asked for each in found.values())), *cells])
    return rows


def _at_hop(run: CasesRun, own: Sequence[AnsweredCase], variant: str, hop: int, baseline: str | None) -> dict[str, Any]:
    ready: list[Prepared] = [each for each in run.prepared if each.variant == variant and each.hop == hop]
    told: dict[str, Any] = asdict(outcome(each for each in own if each.hop == hop))
    told["window_tokens"] = [each.window_tokens for each in ready]
    told["taken"] = dict(Counter(each.took or each.refused or "not compacted" for each in ready))
    if baseline is not None and baseline != variant:
        kept = retained(run.answered, variant=variant, baseline=baseline, hops={hop})
        told["retained_vs_baseline"] = {**asdict(kept), "share": kept.share}
    return told


def _baseline(answers: Sequence[AnsweredCase]) -> str | None:
    there = {each.variant for each in answers}
    return next((name for name in (CHAIN_CONTROL, SOURCE) if name in there), None)


def _variants(answers: Sequence[AnsweredCase]) -> list[str]:
    order = [CHAIN_CONTROL, SOURCE, "session", "handoff", "extractive", NONE]
    there = {each.variant for each in answers}
    return [name for name in order if name in there]


def _hops(answers: Iterable[AnsweredCase]) -> list[int]:
    return sorted({each.hop for each in answers})


def _categories(answers: Iterable[AnsweredCase]) -> list[str]:
    return sorted({each.category for each in answers})
