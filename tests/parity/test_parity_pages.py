"""The pages that say what of Codex and of the five documents holds here name the tests that show it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from tests.parity.pages import CODEX, HERE, ITS_OWN, NOT_HERE, PAGES, ROOT, SEEDS, found_in, lines_of, scenarios

# How many tests Codex has for each matter; a line that is told in several parts names the same test in each.
CODEX_TESTS = {"Local compaction": 42, "Remote compaction": 46, "Compact, resume, fork": 4, "Reconstruction": 26}


@pytest.fixture(params=PAGES, ids=[page.stem for page in PAGES])
def page(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def test_the_pages_name_exactly_the_scenarios_there_are() -> None:
    """A scenario that is added, renamed or removed changes a page too."""
    here = f"{HERE.relative_to(ROOT).as_posix()}/"
    shown = [place for page in PAGES for line in lines_of(page) for place in line.shown]
    assert {name for file, name in shown if not file or file.startswith(here)} == set(scenarios())


def test_tests_named_elsewhere_are_where_the_page_says(page: Path) -> None:
    """What a page borrows from other folders exists there, under that name."""
    borrowed = [(file, name) for line in lines_of(page) for file, name in line.shown if file]
    assert borrowed != []
    assert [(file, name) for file, name in borrowed if name not in found_in(ROOT / file)] == []


def test_the_pages_say_not_yet_exactly_where_a_scenario_is_expected_to_fail() -> None:
    """A defect that is mended is mended on the page, and none is passed off as holding."""
    found = scenarios()
    lines = [line for page in PAGES for line in lines_of(page)]
    shown = {name for line in lines if line.is_open for file, name in line.shown if not file}
    assert shown == {name for name, failing in found.items() if failing}
    passed_off = [name for line in lines if not line.is_open for file, name in line.shown if file and found_in(ROOT / file)[name]]
    assert passed_off == []


def test_every_line_has_a_test_or_a_reason(page: Path) -> None:
    """No line is left without either."""
    excused = (ITS_OWN, NOT_HERE)
    bare = [line.what for line in lines_of(page) if not line.shown and not line.is_open and not line.holds.startswith(excused)]
    assert bare == []


def test_every_test_a_page_names_is_collected(page: Path) -> None:
    """Pytest would run it: a function of a module or class, in a file whose name it looks for."""
    named = {file for line in lines_of(page) for file, _ in line.shown if file}
    assert [file for file in sorted(named) if not (ROOT / file).name.startswith("test_")] == []


def test_each_document_has_a_section() -> None:
    """And every line of the page is in one."""
    sections = {line.section.partition(":")[0] for line in lines_of(SEEDS)}
    assert sections == {"000", "001", "002", "003", "004", "Newer Codex"}


def test_every_test_of_codex_has_a_line() -> None:
    """As many as it has, by section; and each of the ten defects."""
    named = {(line.section, name) for line in lines_of(CODEX) for name in re.findall(r"^`(\w+)`", line.what)}
    assert Counter(section for section, _ in named) == CODEX_TESTS
    defects = {line.what.split(" ")[0] for line in lines_of(CODEX) if line.section == "Defects not to inherit"}
    assert defects == {f"D{number}" for number in range(1, 11)}


def test_every_item_of_the_checklist_and_every_weakness_has_a_line() -> None:
    """Items 1 to 23, what the documents admit (A1 to A5) and what the code shows (W1 to W12)."""
    items = [f"{number}" for number in range(1, 24)]
    weak = [*(f"A{number}" for number in range(1, 6)), *(f"W{number}" for number in range(1, 13))]
    named = {line.what.split(" ")[0].rstrip(".") for line in lines_of(SEEDS) if line.section.startswith("000")}
    assert {*items, *weak} <= named


def test_every_behaviour_part_and_reason_of_hermes_has_a_line() -> None:
    """Behaviours 1 to 11 of the pull request, the four parts that were taken (P) and five reasons and omissions (R)."""
    named = {line.what.split(" ")[0] for line in lines_of(SEEDS) if line.section.startswith("003")}
    wanted = (*map(str, range(1, 12)), *(f"P{number}" for number in range(1, 5)), *(f"R{number}" for number in range(1, 6)))
    assert set(wanted) <= named
