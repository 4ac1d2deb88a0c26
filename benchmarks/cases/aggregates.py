"""Sums up the answers of a run: how many are right, how many do harm, and how much of the baseline is retained."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.cases.lab import CHAIN_CONTROL, NONE, SOURCE
from benchmarks.cases.manifest import WORKING_STATE
from benchmarks.cases.progress import AnsweredCase, Prepared
from benchmarks.cases.run import CasesRun
from benchmarks.retention.tally import compute_wilson
from benchmarks.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Answers together: `exact` are worth a whole point, `mean` is the mean score, both of what was answered at all."""

    asked: int
    unanswered: int
    exact: int
    mean: float
    hard_fails: int
    verdicts: dict[str, int]

    @property
    def answered(self) -> int:
        return self.asked - self.unanswered

    @property
    def rate(self) -> float:
        return self.exact / self.answered if self.answered else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """Of what the baseline got right after the same hop (`comparable`), how much a variant did.

    Rates and mean scores are of everything that both answered (`compared`).
    """

    compared: int
    comparable: int
    kept: int
    baseline_rate: float
    rate: float
    baseline_mean: float
    mean: float

    @property
    def share(self) -> float | None:
        return self.kept / self.comparable if self.comparable else None

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "share": self.share}


def outcome(answers: Iterable[AnsweredCase]) -> Outcome:
    """Return what these answers come to."""
    found = list(answers)
    heard = [each.score for each in found if each.error is None]
    return Outcome(
        asked=len(found),
        unanswered=len(found) - len(heard),
        exact=sum(score == 1 for score in heard),
        mean=round(statistics.fmean(heard), 4) if heard else 0.0,
        hard_fails=sum(each.hard_fail for each in found),
        verdicts=dict(sorted(Counter(each.verdict for each in found).items())),
    )


def retained(answers: Iterable[AnsweredCase], *, variant: str, baseline: str) -> Retained:
    """Return what a variant kept of what the baseline knew, case by case and hop by hop, where both gave an answer."""
    found = [each for each in answers if each.error is None]
    own, known = (
        {(each.session, each.hop, each.case): each.score for each in found if each.variant == name}
        for name in (variant, baseline)
    )
    both = own.keys() & known.keys()
    comparable = [key for key in both if known[key] == 1]
    return Retained(
        compared=len(both),
        comparable=len(comparable),
        kept=sum(own[key] == 1 for key in comparable),
        baseline_rate=len(comparable) / len(both) if both else 0.0,
        rate=sum(own[key] == 1 for key in both) / len(both) if both else 0.0,
        baseline_mean=statistics.fmean(known[key] for key in both) if both else 0.0,
        mean=statistics.fmean(own[key] for key in both) if both else 0.0,
    )


def count_unanswered(run: CasesRun) -> dict[str, int]:
    """Return how many probes had no answer, by the error's code; none, where every probe had one."""
    return dict(sorted(Counter(each.error for each in run.answered if each.error is not None).items()))


def compute_aggregates(run: CasesRun) -> dict[str, Any]:
    """Return every cell: variant by hop, by category, by priority, against the baseline, and the size of its windows."""
    answers = run.answered
    baseline = _baseline(answers)
    told: dict[str, Any] = {"baseline": baseline, "variants": {}}
    for variant in _list_variants(answers):
        own = [each for each in answers if each.variant == variant]
        told["variants"][variant] = {
            "all": asdict(outcome(own)),
            "hops": {hop: _at_hop(run, variant, hop, baseline) for hop in _list_hops(own)},
            "categories": {name: _of_category(answers, name, variant, baseline) for name in _list_categories(own)},
            "priorities": {
                name: asdict(outcome(each for each in own if each.priority == name)) for name in sorted({e.priority for e in own})
            },
            "hard_fail_cases": sorted({each.case for each in own if each.hard_fail}),
            "run_errors": dict(Counter(each.error for each in own if each.error)),
        }
    return told


def build_tables(run: CasesRun) -> list[Table]:
    """Return the same as people read it; what was retained, only where there is a baseline and something to hold against it."""
    answers, baseline = run.answered, _baseline(run.answered)
    last = [each for each in answers if each.hop == max(_list_hops(answers), default=0)]
    by_category = Table(
        title="Right, category by category",
        aside="after the last hop; all answers of a variant",
        columns=["category", ">asked", *(f">{name}" for name in _list_variants(answers))],
        rows=_category_rows(last),
    )
    others = [name for name in _list_variants(answers) if name != baseline]
    if baseline is None or not others:
        return [_build_variant_table(run), by_category]
    return [
        _build_variant_table(run),
        Table(
            title="Retained, hop by hop",
            aside=f"of what {baseline} got right after the same hop; work counts where all four parts are right",
            columns=["variant", ">hop", ">retained", ">work retained", ">work score"],
            rows=_build_hop_table(answers, baseline=baseline, others=others),
        ),
        by_category,
        Table(
            title="Retained, category by category",
            aside=f"after the last hop; of what {baseline} got right, how much each variant did",
            columns=["category", f">{baseline}", *(f">{name}" for name in others)],
            rows=_build_category_table(last, baseline=baseline, others=others),
        ),
    ]


def list_facts(run: CasesRun) -> list[str]:
    """Return how it was asked, a line each."""
    terms = run.terms
    asked, made = terms["run"], terms["manifest"]
    mode = "a compaction after every hop" if asked["chain"] else "one compaction over the whole session"
    return [
        f"sessions {', '.join(made['sessions'])}; {made['cases']} cases and a working state a hop; manifest {made['digest']}",
        f"{mode}; reader {terms['reader']}; summariser {terms['summariser'] or 'none'}; seed {asked['seed']}",
        f"window {asked['window_tokens']:,} tokens, target {asked['target']}; blind probes in forks that never compact",
        f"tool output {'with' if asked['noisy'] else 'without'} noise; {_asked(asked)}",
        _made_by(run),
    ]


def _asked(run: dict[str, Any]) -> str:
    if not run["chain"]:
        return "asked after the last hop only"
    return f"asked after hop {', '.join(map(str, run['asked_at']))}" if run["asked_at"] else "asked after every hop"


def _made_by(run: CasesRun) -> str:
    if len(run.codes) > 1:
        return f"NOT ONE RUN: begun with code {', gone on with code '.join(run.codes)}"
    return f"threadkeep {run.terms['threadkeep']}, code {run.terms['code']}"


def _build_variant_table(run: CasesRun) -> Table:
    rows = []
    for variant in _list_variants(run.answered):
        own = [each for each in run.answered if each.variant == variant]
        for hop in _list_hops(own):
            found = outcome(each for each in own if each.hop == hop)
            low, high = compute_wilson(found.exact, found.answered)
            sizes = [each.window_tokens for each in run.prepared if each.variant == variant and each.hop == hop]
            rows.append(
                [
                    variant,
                    str(hop),
                    f"{found.exact} of {found.answered}",
                    f"{low:.0%}–{high:.0%}",
                    f"{found.mean:.2f}",
                    str(found.hard_fails),
                    str(found.unanswered),
                    f"{statistics.fmean(sizes):,.0f}" if sizes else "–",
                ]
            )
    return Table(
        title="Variant by variant, hop by hop",
        aside="right and score: of what was answered",
        columns=["variant", ">hop", ">right", ">95 %", ">score", ">hard fails", ">no answer", ">window"],
        rows=rows,
    )


def _build_hop_table(answers: Sequence[AnsweredCase], *, baseline: str, others: Sequence[str]) -> list[list[str]]:
    rows = []
    for variant in others:
        for hop in _list_hops(each for each in answers if each.variant == variant):
            cases, work = (
                retained(part, variant=variant, baseline=baseline) for part in _parted([e for e in answers if e.hop == hop])
            )
            shares = ["–" if each.share is None else f"{each.share:.0%} of {each.comparable}" for each in (cases, work)]
            rows.append([variant, str(hop), *shares, f"{work.mean:.2f} of {work.baseline_mean:.2f}" if work.compared else "–"])
    return rows


def _parted(answers: Sequence[AnsweredCase]) -> tuple[list[AnsweredCase], list[AnsweredCase]]:
    """Return the answers to cases, and those about the work under way, which is asked after one hop only and scored by parts."""
    work = [each for each in answers if each.category == WORKING_STATE]
    return [each for each in answers if each.category != WORKING_STATE], work


def _build_category_table(answers: Sequence[AnsweredCase], *, baseline: str, others: Sequence[str]) -> list[list[str]]:
    rows = []
    for name in _list_categories(answers):
        there = [each for each in answers if each.category == name]
        known = outcome(each for each in there if each.variant == baseline).exact
        found = [retained(there, variant=variant, baseline=baseline) for variant in others]
        # Where a variant was asked less, or did not answer, the row's number is not what it can be held against.
        cells = [str(each.kept) if each.comparable == known else f"{each.kept} of {each.comparable}" for each in found]
        rows.append([name, str(known), *cells])
    return rows


def _category_rows(answers: Sequence[AnsweredCase]) -> list[list[str]]:
    rows = []
    for name in _list_categories(answers):
        found = {
            variant: outcome(each for each in answers if each.variant == variant and each.category == name)
            for variant in _list_variants(answers)
        }
        most = max(each.asked for each in found.values())
        cells = [str(each.exact) if each.answered == most else f"{each.exact} of {each.answered}" for each in found.values()]
        rows.append([name, str(most), *cells])
    return rows


def _at_hop(run: CasesRun, variant: str, hop: int, baseline: str | None) -> dict[str, Any]:
    ready: list[Prepared] = [each for each in run.prepared if each.variant == variant and each.hop == hop]
    here = [each for each in run.answered if each.hop == hop]
    own = [each for each in here if each.variant == variant]
    told: dict[str, Any] = asdict(outcome(own))
    told["window_tokens"] = [each.window_tokens for each in ready]
    told["taken"] = dict(Counter(each.took or each.refused or "not compacted" for each in ready))
    if baseline is not None and baseline != variant:
        cases, work = _parted(here)
        told["retained_vs_baseline"] = retained(cases, variant=variant, baseline=baseline).as_json()
        told["working_state_vs_baseline"] = retained(work, variant=variant, baseline=baseline).as_json()
        told["retained_by_category"] = {
            name: retained((e for e in here if e.category == name), variant=variant, baseline=baseline).as_json()
            for name in _list_categories(own)
        }
    return told


def _of_category(answers: Sequence[AnsweredCase], name: str, variant: str, baseline: str | None) -> dict[str, Any]:
    there = [each for each in answers if each.category == name]
    told: dict[str, Any] = asdict(outcome(each for each in there if each.variant == variant))
    if baseline is not None and baseline != variant:
        told["retained_vs_baseline"] = retained(there, variant=variant, baseline=baseline).as_json()
    return told


def _baseline(answers: Sequence[AnsweredCase]) -> str | None:
    there = {each.variant for each in answers}
    return next((name for name in (CHAIN_CONTROL, SOURCE) if name in there), None)


def _list_variants(answers: Sequence[AnsweredCase]) -> list[str]:
    order = [CHAIN_CONTROL, SOURCE, "session", "handoff", "extractive", NONE]
    there = {each.variant for each in answers}
    return [name for name in order if name in there]


def _list_hops(answers: Iterable[AnsweredCase]) -> list[int]:
    return sorted({each.hop for each in answers})


def _list_categories(answers: Iterable[AnsweredCase]) -> list[str]:
    return sorted({each.category for each in answers})
