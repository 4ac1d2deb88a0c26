"""Imports point down, and the page that says so agrees with the contract that checks it.

The layers themselves are import-linter's to check (`make lint`); here is what its contracts do not say.
"""

from __future__ import annotations

import re
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest


def test_no_module_sits_in_an_import_cycle() -> None:
    """No two modules import each other by any route: lazy imports, type-only imports and packages count too."""
    graph = grimp.build_graph("threadkeep", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_layer_table_is_the_contract(root: Path) -> None:
    """AGENTS.md lists the same layers, in the same order, as the contract in pyproject.toml."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {contract["id"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}
    rows = re.findall(r"^\| (`.+`) \|", (root / "AGENTS.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [re.findall(r"`(\w+)`", row) for row in rows] == [layer.split(" | ") for layer in contracts["layers"]["layers"]]
