"""LiteLLM, which has no compactor of its own: threadkeep as its hook."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.compactors.driver import Message, Session


class Through:
    """The client shows its whole history; what would go out in its place is taken."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._shown: list[Message] = []
        self._handed_out = 0

    def window(self, messages: list[Message], budget: int) -> list[Message]:
        hook = import_module("threadkeep.adapters.litellm").ThreadkeepHook(self._session.settings(budget))
        self._shown = [*self._shown, *messages[self._handed_out :]]
        # Shown from here on, also where the hook fails.
        self._handed_out = len(messages)
        window: list[Message] = hook.window(self._shown, conversation="bench")
        self._handed_out = len(window)
        return window
