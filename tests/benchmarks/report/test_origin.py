"""No number without where it comes from: each part keeps machine, packages and code, and a report marks what is not from here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from benchmarks.report import run as measures
from benchmarks.report.markdown import render_markdown, report_json
from benchmarks.report.origin import Origin, find_commit, list_differences, read_origin
from benchmarks.report.part import KeptTarget, Part, read_parts, write_part
from benchmarks.report.run import QUICK, Asked, Made, measure

HERE = Origin(machine="a machine", versions={"msgspec": "0.20"}, commit="none", source="abc")
TARGET = KeptTarget(what="import threadkeep, by the clock", bound="≤ 60 ms", found="10 ms", met=True)


def part(made_at: Origin) -> Part:
    return Part(
        name="start",
        plan="full",
        seed=1,
        seconds=2.0,
        at="2026-01-01 00:00",
        threadkeep="0.1.0",
        facts=[],
        targets=[TARGET],
        tables=[],
        data={},
        origin=made_at,
    )


def test_a_part_that_is_measured_keeps_where_and_of_what(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine, the packages and the code of the process that measures it."""
    monkeypatch.setattr(measures, "MEASURES", {"start": lambda *_: Made(facts=[], targets=[], tables=[], data={})})
    there = measure("start", QUICK, asked=Asked(seed=1), say=lambda text: None).origin
    assert there == read_origin()
    assert "unknown" not in (there.machine, there.commit, there.source)
    assert there.versions["msgspec"]


def test_a_commit_is_that_of_a_checkout_of_the_package(tmp_path: Path) -> None:
    """A package that merely lies in somebody's checkout is at no commit of theirs; changed files are said."""

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True, capture_output=True)

    (tmp_path / "__init__.py").write_text("", encoding="utf-8")
    assert find_commit(tmp_path) == "none"
    git("init")
    assert find_commit(tmp_path) == "none"
    git("add", "__init__.py")
    git("commit", "-m", "one")
    commit = find_commit(tmp_path)
    assert len(commit) == 12
    (tmp_path / "__init__.py").write_text("a = 1\n", encoding="utf-8")
    assert find_commit(tmp_path) == f"{commit} with changes"


def test_what_is_not_as_here_is_said() -> None:
    """Machine, code and packages; a commit of another name over the same source is the same code."""
    assert list_differences(msgspec.structs.replace(HERE, commit="0123"), HERE) == []
    there = Origin(machine="another", versions={"langchain": "1.0"}, commit="none", source="def")
    assert list_differences(there, HERE) == [
        "other machine: another",
        "other code",
        "langchain 1.0, here not installed",
        "msgspec not installed, here 0.20",
    ]
    assert list_differences(Origin(), HERE) == ["unknown machine and code"]


def test_a_part_of_an_earlier_threadkeep_is_from_an_unknown_place(tmp_path: Path) -> None:
    """Its file has no such fields; it is read all the same, and marked."""
    path = write_part(part(HERE), tmp_path)
    old = msgspec.json.decode(path.read_bytes())
    del old["origin"]
    path.write_bytes(msgspec.json.encode(old))
    found = read_parts(tmp_path)
    assert found == {"start": part(Origin())}
    assert "| unknown, unknown | † unknown machine and code |" in render_markdown(found, skipped={}, here=HERE)


def test_a_report_marks_parts_and_verdicts_from_elsewhere() -> None:
    """In the table of parts, beside each verdict they come to, and in the JSON; what is from here has no mark."""
    there = Origin(machine="another", versions=HERE.versions, commit="0123", source="def")
    text = render_markdown({"start": part(there)}, skipped={}, here=HERE)
    assert "| def, 0123 | † other machine: another; other code |" in text
    assert "| ≤ 60 ms | met † |" in text
    assert text.count("†") == 3
    assert render_markdown({"start": part(HERE)}, skipped={}, here=HERE).count("†") == 1
    told = report_json({"start": part(there)}, skipped={}, here=HERE)
    parts, design = msgspec.to_builtins(told["parts"]), msgspec.to_builtins(told["design"])
    assert parts["start"]["machine"] == "another"
    assert parts["start"]["elsewhere"] == ["other machine: another", "other code"]
    assert {line["part"] for line in design if line["elsewhere"]} == {"start"}
