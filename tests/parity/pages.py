"""Reading the pages that say what of another program's behaviour holds here, and the tests they name."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = Path(__file__).parent
CODEX: Final = ROOT / "docs" / "codex-parity.md"
SEEDS: Final = ROOT / "docs" / "seeds.md"
PAGES: Final = (CODEX, SEEDS)

NOT_YET: Final = "not yet"
# What belongs to the other program alone: a header of its wire, an account of its maker, a feature nothing here is like.
ITS_OWN: Final = "its own"
# What is otherwise here on purpose.
NOT_HERE: Final = "not here"

_test_name = re.compile(r"`(?:(tests/[\w/]+\.py)::)?(test_\w+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a table: what the other program has, what holds here, and the tests that show it, by file and name.

    A test without a file is one of this folder.
    """

    section: str
    what: str
    holds: str
    shown: tuple[tuple[str, str], ...]

    @property
    def is_open(self) -> bool:
        return self.holds.startswith(NOT_YET)


@cache
def lines_of(page: Path) -> tuple[Line, ...]:
    """Return the lines of a page's tables, without their headings."""
    found: list[Line] = []
    section, begun = "", False
    for text in page.read_text(encoding="utf-8").splitlines():
        if text.startswith("## "):
            section = text.removeprefix("## ")
        if not text.startswith("| "):
            begun = False
            continue
        first, holds, shown = (cell.strip() for cell in text.strip("|").split("|"))
        if begun and first != "---":
            found.append(Line(section=section, what=first, holds=holds, shown=tuple(_test_name.findall(shown))))
        begun = True
    return tuple(found)


@cache
def found_in(file: Path) -> dict[str, bool]:
    """Return the tests of a file, and of each whether it is expected to fail."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    tests = [function for function in functions if function.name.startswith("test_")]
    return {test.name: any("xfail" in ast.unparse(mark) for mark in test.decorator_list) for test in tests}


def scenarios() -> dict[str, bool]:
    """Return the tests of this folder, those about the pages themselves left out."""
    files = [file for file in HERE.glob("test_*.py") if file.name != "test_parity_pages.py"]
    return {name: failing for file in files for name, failing in found_in(file).items()}
