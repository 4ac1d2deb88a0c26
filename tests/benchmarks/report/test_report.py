"""The one report: every bound of the design with a verdict, parts that are kept, and what is missing said."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from benchmarks.command import main as bench
from benchmarks.command import report as bench_report
from benchmarks.report import run as measures
from benchmarks.report.bounds import BOUNDS, Judged, judge_bounds
from benchmarks.report.kit import measure_kit
from benchmarks.report.markdown import TITLES, render_markdown, report_json
from benchmarks.report.origin import Origin
from benchmarks.report.part import NAMES, KeptTable, Part, keep_tables, keep_targets, read_parts, write_part
from benchmarks.report.run import MEASURES, QUICK, Asked, CannotRun, Made, Plan, Say, measure
from benchmarks.result import Found, Target
from benchmarks.tables import Table
from threadkeep.errors import BadInput

HERE = Origin(machine="a machine", versions={"msgspec": "0.20"}, commit="none", source="abc")


def part(name: str, *targets: Target) -> Part:
    table = Table(title="Figures", aside="beside", columns=["", ">ms"], rows=[["fork|copy", "1.5"]])
    return Part(
        name=name,
        plan="full",
        seed=1,
        seconds=2.0,
        at="2026-01-01 00:00",
        threadkeep="0.1.0",
        facts=["measured here"],
        targets=keep_targets(targets),
        tables=keep_tables([table]),
        data={},
        origin=HERE,
    )


def test_without_a_run_every_bound_of_the_design_is_said_not_to_be_run() -> None:
    """None is left out: one line a bound."""
    lines = judge_bounds({})
    assert [(line.row, line.what) for line in lines] == [(bound.row, bound.what) for bound in BOUNDS]
    assert {line.verdict for line in lines} == {"not run"}
    assert {bound.part for bound in BOUNDS} <= set(MEASURES)
    assert tuple(MEASURES) == tuple(TITLES) == NAMES


def test_a_bound_is_met_missed_not_told_or_not_run() -> None:
    """As the part's own target says; what was not measured is not run, and a shorter thread than the bound's tells nothing."""
    found = part(
        "store",
        Target(what="append 1 row : raw SQLite", bound="≤ 1.3 ×", found="1.2 ×", met=True),
        Target(what="append 1 turn : raw SQLite", bound="≤ 1.3 ×", found="2.0 ×", met=False),
        Target(what="file with search, over 50 checkpoints", bound="≤ 2 ×", found="1.5 ×", met=None),
        Target(what="resume at 10,000 records", bound="≤ 10 ms", found="not measured", met=None),
        Target(what="append, 10,000 : 10", bound="≤ 1.5 ×", found="1.1 ×", met=True),
    )
    lines = {line.what: line for line in judge_bounds({"store": found}) if line.verdict != "not run"}
    assert lines == {
        "one row : raw SQLite": Judged(
            row="append, durable", what="one row : raw SQLite", bound="≤ 1.3 ×", found="1.2 ×", verdict="met", part="store"
        ),
        "one turn : raw SQLite": Judged(
            row="append, durable", what="one turn : raw SQLite", bound="≤ 1.3 ×", found="2.0 ×", verdict="missed", part="store"
        ),
        "with search : raw JSON": Judged(
            row="store size", what="with search : raw JSON", bound="≤ 2 ×", found="1.5 ×", verdict="not told", part="store"
        ),
        "flat with the thread's length": Judged(
            row="append, durable",
            what="flat with the thread's length",
            bound="≤ 1.5 ×",
            found="1.1 ×",
            verdict="not told",
            part="store",
        ),
    }


def test_several_targets_of_one_bound_are_told_apart() -> None:
    """A provider that answers at once, and one that thinks."""
    found = part(
        "gateway",
        Target(what="1 MB streamed, known history: added", bound="≤ 5 ms", found="4 ms", met=True),
        Target(what="1 MB streamed, known history, provider thinks 0.2 s: added", bound="≤ 5 ms", found="9 ms", met=False),
    )
    lines = [line for line in judge_bounds({"gateway": found}) if line.verdict != "not run"]
    assert [(line.what, line.verdict) for line in lines] == [
        ("known prefix, added", "met"),
        ("known prefix, added, provider thinks 0.2 s", "missed"),
    ]


def test_parts_are_kept_and_read_back_whole(tmp_path: Path) -> None:
    """Byte for byte the same value; a file that is none is named, and so is one that holds another part than it says."""
    made = part("store", Target(what="x", bound="1", found="2", met=None))
    path = write_part(made, tmp_path)
    assert read_parts(tmp_path) == {"store": made}
    path.write_bytes(msgspec.json.encode(part("gateway")))
    with pytest.raises(BadInput, match=r"store\.json.*'gateway'"):
        read_parts(tmp_path)
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(BadInput, match=r"store\.json"):
        read_parts(tmp_path)


def test_the_page_has_machine_bounds_parts_and_what_was_not_run() -> None:
    """Verdicts are counted, what is missed stands out, and no cell breaks a table."""
    found = {"store": part("store", Target(what="append 1 row : raw SQLite", bound="≤ 1.3 ×", found="2 ×", met=False))}
    text = render_markdown(found, skipped={"kit": "it is not installed"}, here=HERE)
    assert f"{len(BOUNDS)} in all: 1 missed, {len(BOUNDS) - 1} not run." in text
    assert "| append, durable | one row : raw SQLite | 2 × | ≤ 1.3 × | **missed** |" in text
    assert "- kit: it is not installed" in text
    row = "| [store](#the-store) | full | 1 | 2 | 2026-01-01 00:00 | 0.1.0 | abc, none | here |"
    assert f"{row}\n| all | | | 2 | | | | |" in text
    assert "| fork∣copy | 1.5 |" in text
    told = report_json(found, skipped={}, here=HERE)
    assert [*told] == ["bench", "machine", "versions", "commit", "source", "design", "parts", "skipped"]


def test_long_tables_behind_the_first_are_folded_away() -> None:
    """What a part is about is shown; what one looks things up in opens with a click."""
    long = KeptTable(title="Long", aside="", columns=["", ">ms"], rows=[[str(number), "1"] for number in range(20)])
    short = KeptTable(title="Short", aside="", columns=["", ">ms"], rows=[["one", "1"]])
    made = msgspec.structs.replace(part("store"), tables=[long, short, long])
    text = render_markdown({"store": made}, skipped={}, here=HERE)
    shown = text.partition("## The store")[2]
    assert shown.count("<details><summary>20 rows</summary>\n\n| ") == shown.count("</details>") == 1
    assert shown.index("### Short") < shown.index("<details>")


def test_the_command_measures_keeps_and_writes_all_that_its_folder_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A part that cannot be run stops nobody; one that was measured before stays; nothing is measured twice."""

    def fine(plan: Plan, asked: Asked, say: Say) -> Made:
        say(f"with seed {asked.seed}")
        target = Target(what="import threadkeep", bound="≤ 60 ms", found="10 ms", met=True)
        return Made(facts=["here"], targets=[target], tables=[], data={})

    def cannot(plan: Plan, asked: Asked, say: Say) -> Made:
        raise CannotRun("it is not installed")

    for module in (measures, bench_report):
        monkeypatch.setattr(module, "MEASURES", {"start": fine, "kit": cannot})
    asked = {"what": "report", "full": False, "seed": 7, "output": str(tmp_path), "json": True, "peer": [], "proxy": []}
    assert bench.run(Namespace(**asked, part=[], write_only=False)) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["skipped"] == {"kit": "it is not installed"}
    assert [line["verdict"] for line in told["design"] if line["what"].startswith("import threadkeep")] == ["met"]
    assert (tmp_path / "report.md").read_text(encoding="utf-8").startswith("# Report\n")
    assert bench.run(Namespace(**asked, part=[], write_only=True)) == 0
    again = json.loads(capfd.readouterr().out)
    assert again["parts"] == told["parts"]
    with pytest.raises(BadInput, match="there is no part 'tape'"):
        bench.run(Namespace(**asked, part=["tape"], write_only=False))


def test_a_start_is_measured_beside_the_bare_interpreter() -> None:
    """Both bounds of the design, each with what was found."""
    found = measure("start", replace(QUICK, starts=1), asked=Asked(seed=1), say=lambda text: None)
    assert [target.what for target in found.targets] == [
        "import threadkeep, beyond the interpreter, by the clock",
        "threadkeep --help, all of it, by the clock",
    ]
    assert len(found.data["figures"]) == 6


def test_the_kit_is_run_where_it_is_installed() -> None:
    """threadkeep beside every compactor it ships, at three budgets."""
    pytest.importorskip("compaction_kit", reason="needs compaction-conformance-kit")
    found, tables, _ = measure_kit(seeds=1, rounds=1)
    assert isinstance(found, Found)
    assert [target.what for target in found.targets] == [
        "survival at 30 %",
        "survival at 20 %",
        "survival at 10 %",
        "stale values in view, by the kit's count",
    ]
    assert len({row[1] for row in tables[0].rows}) == len(tables[0].rows) / 3
