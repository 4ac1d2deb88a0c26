"""Every failure has one name, one code and one place in the tree; nothing catches what it cannot name."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from typing import TYPE_CHECKING

from threadkeep import errors

if TYPE_CHECKING:
    from tests.architecture.conftest import Source

BLIND = {"Exception", "BaseException"}

# Path within the package -> why it must catch what it cannot name, and where the failure goes instead.
EXCUSED: dict[str, str] = {
    "adapters/hermes/engine.py": "goes to the status and the host's own warning; raised here it would end the host's turn",
    "store/sqlite/workers.py": "goes to the task that awaits the operation; raised here it would end the thread",
    "hooks/runner.py": "goes to the compaction that awaits the hook, as its fault; raised here nobody would hear of it",
    "compaction/fallback.py": "is on record and logged; a model that breaks its contract must not cost the turn",
}


def error_classes() -> list[type[errors.ThreadkeepError]]:
    """Return every class of the tree that `threadkeep.errors` defines."""
    return [
        value
        for _, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, errors.ThreadkeepError) and value.__module__.startswith(errors.__name__)
    ]


def drawn_parents() -> dict[str, str | None]:
    """Return each class drawn in the module's docstring with the class it hangs from."""
    parents: dict[str, str | None] = {}
    branch: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        drawn = re.match(r"(?P<bars>(?:[│├└ ][─ ]{2} )*)(?P<name>[A-Z]\w+)", line.removeprefix("    "))
        if drawn is None or not line.startswith("    "):
            continue
        depth = len(drawn["bars"]) // 4
        branch[depth:] = [drawn["name"]]
        parents[drawn["name"]] = branch[depth - 1] if depth else None
    return parents


def test_every_error_has_its_own_code() -> None:
    """Each class states its code itself and shares it with no other, so that a machine can tell all of them apart."""
    assert [cls.__name__ for cls in error_classes() if "code" not in vars(cls)] == []
    shared = [code for code, count in Counter(cls.code for cls in error_classes()).items() if count > 1]
    assert shared == []


def test_the_drawn_tree_is_the_real_one() -> None:
    """The tree at the top of `errors` names exactly the classes it defines, each under its base."""
    real = {cls.__name__: base.__name__ if (base := cls.__bases__[0]) is not Exception else None for cls in error_classes()}
    assert drawn_parents() == real


def test_every_error_is_in_the_tree() -> None:
    """No exception class is defined in `errors` outside the one tree."""
    strays = [
        name
        for name, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, BaseException) and value.__module__.startswith(errors.__name__) and value not in error_classes()
    ]
    assert strays == []


def swallows_anything(node: ast.AST) -> bool:
    """Whether `node` stops exceptions it cannot name; one that ends by raising again stops none."""
    match node:
        case ast.ExceptHandler(type=None, body=[*_, last]):
            return not isinstance(last, ast.Raise)
        case ast.ExceptHandler(type=caught, body=[*_, last]) if caught is not None:
            return bool(BLIND & names_in(caught)) and not isinstance(last, ast.Raise)
        case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=caught):
            return any(BLIND & names_in(arg) for arg in caught)
        case _:
            return False


def names_in(expression: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def test_nothing_catches_what_it_cannot_name(sources: list[Source]) -> None:
    """A blind except has a written excuse, and no excuse outlives it."""
    blind = {source.name for source in sources for node in ast.walk(source.tree) if swallows_anything(node)}
    assert blind == set(EXCUSED)
