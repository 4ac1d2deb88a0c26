"""Everything that pure code remembers from call to call, forgotten: a real compaction sees its span once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType

# The layers whose answers depend on their arguments alone, and who may therefore remember them.
PURE = ("threadkeep.compaction", "threadkeep.items", "threadkeep.dialects")


def forget() -> int:
    """Empty every cache of the pure layers, as a process that has just started has them; return how many there are."""
    clears = [clear for module in _loaded() for clear in _clears(module)]
    for clear in clears:
        clear()
    return len(clears)


def _loaded() -> list[ModuleType]:
    names = [name for name in sys.modules if any(name == layer or name.startswith(f"{layer}.") for layer in PURE)]
    return [sys.modules[name] for name in names]


def _clears(module: ModuleType) -> Iterator[Callable[[], object]]:
    """Yield how each cache of a module is emptied: of its functions, of what it names, and of its classes' methods.

    One that several modules name is emptied by each: that costs nothing, and no name can hide it.
    """
    for value in list(vars(module).values()):
        yield from _clear_of(value)
        if isinstance(value, type) and value.__module__ == module.__name__:
            for method in list(vars(value).values()):
                yield from _clear_of(method)


def _clear_of(value: object) -> Iterator[Callable[[], object]]:
    clear = getattr(value, "cache_clear", None)
    if callable(clear):
        yield clear
