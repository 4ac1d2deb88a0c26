"""The strategies by name. A new one costs a module and a line here; a program registers its own with `register_strategy`."""

from __future__ import annotations

from typing import Final

from threadkeep.compaction.strategies.handoff import HANDOFF
from threadkeep.compaction.strategies.remote import REMOTE
from threadkeep.compaction.strategies.session import SESSION
from threadkeep.compaction.strategies.strategy import EXTRACTIVE, Brief, Draft, DraftRefused, Strategy, Summariser, lay_out_state
from threadkeep.errors import InvalidArgument, UnknownStrategy

STRATEGIES: Final = {strategy.name: strategy for strategy in (SESSION, HANDOFF, REMOTE, EXTRACTIVE)}
# The name of `session` if there is a model, else of `extractive`.
DEFAULT: Final = "default"


def list_names() -> tuple[str, ...]:
    """Return the names that a person may write."""
    return (DEFAULT, *STRATEGIES)


def register_strategy(strategy: Strategy) -> None:
    """Add a strategy under its name, for this process: orders, settings, the command line and the viewer then know it.

    Raises:
        InvalidArgument: There is one of that name.
    """
    if strategy.name in list_names():
        raise InvalidArgument("strategy", f"there is a strategy {strategy.name!r} already; give yours another name")
    STRATEGIES[strategy.name] = strategy


def find_strategy(name: str, *, model: bool) -> Strategy:
    """Return the strategy called `name`; `model` says whether there is one to ask.

    Raises:
        UnknownStrategy: There is no strategy of that name.
    """
    if name == DEFAULT:
        return SESSION if model else EXTRACTIVE
    if name not in STRATEGIES:
        raise UnknownStrategy(name, known=list_names())
    return STRATEGIES[name]


__all__ = [
    "DEFAULT",
    "EXTRACTIVE",
    "HANDOFF",
    "REMOTE",
    "SESSION",
    "STRATEGIES",
    "Brief",
    "Draft",
    "DraftRefused",
    "Strategy",
    "Summariser",
    "find_strategy",
    "lay_out_state",
    "list_names",
    "register_strategy",
]
