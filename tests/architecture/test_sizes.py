"""A source file is read in one sitting, a function on one screen."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.architecture.conftest import Source

MEDIAN_FILE = 250
P90_FILE = 450
LONGEST_FILE = 600
LONGEST_FUNCTION = 60

# Path within the package -> why it may be longer.
EXCUSED: dict[str, str] = {}


def test_no_file_is_longer_than_one_sitting(sources: list[Source]) -> None:
    """A file over the ceiling has a written excuse, and no excuse outlives its file."""
    too_long = {source.name for source in sources if source.lines > LONGEST_FILE}
    assert too_long == set(EXCUSED)


def test_most_files_are_short(sources: list[Source]) -> None:
    """Half of the files that hold anything stay under the median bound, nine of ten under the upper one."""
    lengths = sorted(source.lines for source in sources if source.lines)
    assert lengths[len(lengths) // 2] <= MEDIAN_FILE
    assert lengths[len(lengths) * 9 // 10] <= P90_FILE


def test_every_function_fits_a_screen(sources: list[Source]) -> None:
    """No function is longer than the ceiling, its signature and docstring included."""
    too_long = [
        f"{source.name}: {node.name} has {length} lines"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    ]
    assert too_long == []
