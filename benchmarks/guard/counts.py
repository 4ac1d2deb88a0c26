"""The counts: facts kept and stale, window tokens, model calls, cases answered, statements, rows and bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import build_child_environ
from benchmarks.cases.lab import make_scripted_model
from benchmarks.cases.manifest import load_manifest
from benchmarks.cases.readers import LiteralReader
from benchmarks.cases.run import CHAIN, Terms, run_cases
from benchmarks.retention.arms import EXTRACTIVE, LIBRARY
from benchmarks.retention.facts import USER_KINDS, FactKind
from benchmarks.retention.run import Plan, Retained, run_retention

Say = Callable[[str], None]
Counts = dict[str, dict[str, int]]

PLAN = Plan(name="guard", dialects=("chat",), seeds=1, turns=24, hops=6, scored=(6,))
SEED = 11
ARMS = (EXTRACTIVE, *(f"session, {name}" for name in ("faithful", "lossy", "lying", "hostile")))


async def count_all(*, say: Say) -> Counts:
    """Return every count; the same code gives the same counts on any machine."""
    found: Counts = {}
    for family in ("story", "frozen"):
        say(f"{family}: {PLAN.hops} compactions")
        found |= _count_retention(await run_retention(PLAN, family=family, seed=SEED, say=_unheard))
    say("cases, one session")
    found |= await _count_cases()
    say("statements and bytes")
    found |= _count_store()
    return found


def list_changes(was: Mapping[str, Mapping[str, int]], now: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return each count that is not what it was, as a line."""
    lines = []
    for group in sorted({*was, *now}):
        before, after = was.get(group, {}), now.get(group, {})
        lines += [
            f"{group}: {name}: {before.get(name, 'new')} → {after.get(name, 'gone')}"
            for name in sorted({*before, *after})
            if before.get(name) != after.get(name)
        ]
    return lines


def find_expected_file() -> Path:
    """Return where the committed counts are."""
    return Path(__file__).with_name("expected.json")


def read_expected(file: Path) -> Counts:
    """Return the committed counts; none, where the file is not there yet."""
    found: Counts = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def write_expected(found: Counts, file: Path) -> None:
    """Write the counts, sorted, so that a change is a line of a diff."""
    file.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def _count_retention(result: Retained) -> Counts:
    tally, hop = result.tally, result.plan.hops
    found: Counts = {}
    for arm in ARMS:
        assert arm in LIBRARY
        user = tally.share(arm=arm, hop=hop, kinds=USER_KINDS)
        reused = tally.share(arm=arm, hop=hop, kinds={FactKind.TOOL_REUSED})
        everything = tally.share(arm=arm, hop=hop, kinds=frozenset(FactKind))
        sizes = tally.tokens(arm=arm, hop=hop, of=lambda size: size.window_tokens)
        found[f"{result.family}, {arm}"] = {
            "user-stated asked": user.asked,
            "user-stated kept": user.kept,
            "tool-only reused kept": reused.kept,
            "all kept": everything.kept,
            "stale": everything.stale,
            "window tokens": sum(sizes),
        }
    recalled = tally.recall(USER_KINDS)
    found[f"{result.family}, recall"] = {"asked": recalled.asked, "quoted": recalled.kept}
    return found


async def _count_cases() -> Counts:
    manifest = load_manifest().only(["orchard"])
    terms = Terms(chain=True, variants=CHAIN, asked_at=(5,))
    run = await run_cases(
        manifest, terms, reader=LiteralReader(), summariser=make_scripted_model("faithful", seed=1), say=_unheard
    )
    found: Counts = {}
    for variant in CHAIN:
        answers = [each for each in run.answered if each.variant == variant]
        made = [each for each in run.prepared if each.variant == variant]
        found[f"cases, {variant}"] = {
            "right": sum(each.score == 1 for each in answers),
            "hard fails": sum(each.hard_fail for each in answers),
            "window tokens": made[-1].window_tokens,
            "model calls": sum(each.model_calls for each in made),
            "repaired": sum(each.repaired for each in made),
        }
    return found


def _count_store() -> Counts:
    process = [sys.executable, "-m", "benchmarks.guard.statements"]
    told: Counts = json.loads(
        subprocess.run(process, check=True, capture_output=True, text=True, env=build_child_environ()).stdout
    )
    return told


def _unheard(text: str) -> None:
    """The parts of a guard's run are told by the guard."""
