"""Everything about a wire language lives in its own folder: no other package looks into one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from threadkeep.dialects import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.architecture.conftest import Source

# Words that look like a dialect's name and are another program's: how often, and whose.
OTHERS = {
    "adapters/client_settings/clients.py": (1, "Codex's own setting `wire_api`"),
    "adapters/hermes/engine.py": (1, "an argument of Hermes' engine"),
    "adapters/langchain.py": (7, "a field of LangChain's state"),
    "adapters/litellm.py": (2, "a field of a call to LiteLLM"),
    "compaction/state_budget.py": (8, "the share of the state that holds people's messages"),
    "cli/commands.py": (1, "the client Gemini CLI"),
    "launch/clients.py": (3, "Codex's own setting `wire_api`; the client Gemini CLI"),
    "transfer/gemini_cli_reader.py": (5, "fields of Gemini CLI's own files"),
}


def test_no_other_package_looks_into_a_dialect(sources: list[Source]) -> None:
    """What all dialects share may be imported, and a dialect itself from `threadkeep.dialects`; none of its modules."""
    folders = tuple(f"threadkeep.dialects.{name}" for name in DIALECTS)
    looking = [
        f"{source.name}: {module}"
        for source in _outside(sources)
        for module in _imports(source.tree)
        if module in folders or module.startswith(tuple(f"{folder}." for folder in folders))
    ]
    assert looking == []


def test_no_other_package_names_a_dialect(sources: list[Source]) -> None:
    """Code that branches on a name has to be found and changed for the next dialect; data and methods of the port need not."""
    named = {source.name: sum(_is_name(node) for node in ast.walk(source.tree)) for source in _outside(sources)}
    allowed = {name: count for name, (count, _) in OTHERS.items()}
    assert {name: count for name, count in named.items() if count > allowed.get(name, 0)} == {}


def _outside(sources: list[Source]) -> list[Source]:
    return [source for source in sources if not source.name.startswith("dialects/")]


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in DIALECTS


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
