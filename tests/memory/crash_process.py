"""A store under a worker that dies at one of its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

WRITES = ("append", "create", "acquire", "release", "erase")
READS = ("get", "threads", "read")


class PowerCut(Exception):
    """The moment a worker dies."""


def cut() -> None:
    raise PowerCut


class Dying:
    """Lets its worker die at the nth of the calls that are `counted`, right before or right after it; `calls` names all made.

    From then on nothing works: a dead worker tidies nothing up.
    """

    def __init__(
        self, store: Any, *, at: int, after: bool, dies: Callable[[], None] = cut, counted: tuple[str, ...] = WRITES
    ) -> None:
        self.calls: list[str] = []
        self._store = store
        self._at = at
        self._after = after
        self._dies = dies
        self._counted = counted

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in self._counted:
            return method

        async def counting(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            reached = len(self.calls) >= self._at > 0
            if reached and (not self._after or len(self.calls) > self._at):
                self._dies()
            done = await method(*args, **kwargs)
            if reached:
                self._dies()
            return done

        return counting
