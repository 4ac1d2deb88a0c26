"""`python -m benchmarks report`: parts that fail, files that are not its own, narrow terminals, installed peers."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.command import main as bench
from benchmarks.command import report as bench_report
from benchmarks.compactors.process import Named
from benchmarks.gateway.run import Unhelpful
from benchmarks.report import participants
from benchmarks.report import run as measures
from benchmarks.report.bounds import BOUNDS
from benchmarks.report.part import Part, keep_targets, write_part
from benchmarks.report.participants import list_participants
from benchmarks.report.run import Asked, Made, Plan, Say
from benchmarks.result import Target

ASKED = {"what": "report", "full": False, "seed": 7, "peer": [], "proxy": [], "part": []}
FAILURES = [
    BrokenPipeError(32, "Broken pipe"),
    json.JSONDecodeError("Expecting value", "x", 0),
    subprocess.CalledProcessError(3, ["python"]),
    RuntimeError("what should answer ended with 1"),
    Unhelpful("http://127.0.0.1:1", status=500, body=b"no"),
    KeyError("entries"),
]


def fine(plan: Plan, asked: Asked, say: Say) -> Made:
    target = Target(what="import threadkeep, by the clock", bound="≤ 60 ms", found="10 ms", met=True)
    return Made(facts=[], targets=[target], tables=[], data={})


def store_part(*targets: Target) -> Part:
    return Part(
        name="store",
        plan="full",
        seed=1,
        seconds=2.0,
        at="2026-01-01 00:00",
        threadkeep="0.1.0",
        facts=[],
        targets=keep_targets(targets),
        tables=[],
        data={"figures": []},
    )


@pytest.mark.parametrize("failure", FAILURES, ids=[type(each).__name__ for each in FAILURES])
def test_a_part_that_fails_is_recorded_and_the_others_are_measured(
    failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever a peer's process or a server does; the report says how, and the exit code that something is missing."""

    def breaks(plan: Plan, asked: Asked, say: Say) -> Made:
        raise failure

    for module in (measures, bench_report):
        monkeypatch.setattr(module, "MEASURES", {"kit": breaks, "start": fine})
    assert bench.run(Namespace(**ASKED, output=str(tmp_path), json=True, write_only=False)) == 1
    told = json.loads(capfd.readouterr().out)
    assert told["skipped"] == {"kit": f"failed: {type(failure).__name__}: {failure}"}
    assert list(told["parts"]) == ["start"]
    assert f"- kit: failed: {type(failure).__name__}" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_a_file_that_has_the_name_of_no_part_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is in no table, no sum and no list, and need not even be a part."""
    write_part(store_part(), tmp_path)
    (tmp_path / "parts" / "real-model.json").write_text("{}", encoding="utf-8")
    (tmp_path / "parts" / "other.json").write_bytes((tmp_path / "parts" / "store.json").read_bytes())
    assert bench.run(Namespace(**ASKED, output=str(tmp_path), json=True, write_only=True)) == 0
    assert list(json.loads(capfd.readouterr().out)["parts"]) == ["store"]
    assert "| all | | | 2 |" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_a_narrow_terminal_cuts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """At 80 columns every bound is told whole, below the row of the design's table that it is of."""
    monkeypatch.setenv("COLUMNS", "80")
    write_part(store_part(Target(what="append 1 row : raw SQLite", bound="≤ 1.3 ×", found="2 ×", met=False)), tmp_path)
    assert bench.run(Namespace(**ASKED, output=str(tmp_path), json=False, write_only=True)) == 0
    shown = capfd.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    words = " ".join(shown.split())
    assert [bound.what for bound in BOUNDS if f"{bound.what}: " not in words] == []
    assert "missed one row : raw SQLite: 2 × (bound ≤ 1.3 ×) †" in words


def test_whoever_is_installed_takes_part_without_being_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others' own compactors, in this interpreter; one that was named is asked where it was named, and nobody twice."""
    monkeypatch.setattr(
        participants, "_is_installed", lambda packages: set(packages) <= {"langchain", "openai-agents", "threadkeep"}
    )
    here = sys.executable
    assert list_participants([]) == [Named(name="langchain", python=here), Named(name="openai-agents", python=here)]
    there = Named(name="langchain", python="elsewhere/python")
    assert list_participants([there]) == [there, Named(name="openai-agents", python=here)]
