"""The page that says which of Codex's scenarios hold here names the tests that show it, and no others."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "codex-parity.md"
NOT_YET = "not yet"

_test_name = re.compile(r"`(?:(tests/[\w/]+\.py)::)?(test_\w+)`")


@cache
def rows() -> tuple[tuple[str, str, str], ...]:
    """Return the lines of the page's tables: what Codex has, what holds here, by which tests."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    return tuple((first, second, third) for first, second, third in cells if first not in ("Codex", "---"))


@cache
def found_in(file: Path) -> dict[str, bool]:
    """Return the tests of a file, and of each whether it is expected to fail."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    tests = [function for function in functions if function.name.startswith("test_")]
    return {test.name: any("xfail" in ast.unparse(mark) for mark in test.decorator_list) for test in tests}


def scenarios() -> dict[str, bool]:
    files = [file for file in Path(__file__).parent.glob("test_*.py") if file != Path(__file__)]
    return {name: failing for file in files for name, failing in found_in(file).items()}


def test_the_page_names_exactly_the_scenarios_there_are() -> None:
    """A scenario that is added, renamed or removed changes the page too."""
    named = {name for row in rows() for file, name in _test_name.findall(row[2]) if not file}
    assert named == set(scenarios())


def test_tests_named_elsewhere_are_where_the_page_says() -> None:
    """What the page borrows from other folders exists there, under that name."""
    borrowed = [(file, name) for row in rows() for file, name in _test_name.findall(row[2]) if file]
    assert borrowed != []
    assert [(file, name) for file, name in borrowed if name not in found_in(ROOT / file)] == []


def test_the_page_says_not_yet_exactly_where_a_scenario_is_expected_to_fail() -> None:
    """A defect that is mended is mended on the page, and none is passed off as holding."""
    open_lines = {name for _, holds, shown in rows() if holds.startswith(NOT_YET) for _, name in _test_name.findall(shown)}
    assert open_lines == {name for name, failing in scenarios().items() if failing}


def test_every_line_has_a_test_or_a_reason() -> None:
    """No line is left without either, and each of the ten defects has one."""
    bare = [first for first, holds, shown in rows() if not _test_name.search(shown) and not holds.startswith(NOT_YET)]
    assert bare == []
    assert {f"D{number}" for number in range(1, 11)} <= {first.split(" ")[0] for first, _, _ in rows()}
