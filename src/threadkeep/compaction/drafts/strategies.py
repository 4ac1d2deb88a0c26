"""The strategies and the order of their fallbacks.

A new one costs a module, its lines here, and its name in the settings and in `compact --strategy`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from threadkeep.compaction.drafts import handoff, remote, session
from threadkeep.compaction.drafts.draft import EXTRACTIVE, Brief, Draft, Summariser
from threadkeep.errors import UnknownStrategy

Drafter = Callable[[Brief, Summariser], Awaitable[Draft]]

# The strategies that ask a model. `extractive` has no drafter: every compaction includes its work.
DRAFTERS: Final[Mapping[str, Drafter]] = {session.NAME: session.draft, handoff.NAME: handoff.draft, remote.NAME: remote.draft}
DEFAULT: Final = "default"
STRATEGIES: Final = (DEFAULT, *DRAFTERS, EXTRACTIVE)

# The fallback of each strategy; the last one needs no model.
_NEXT: Final[Mapping[str, str]] = {remote.NAME: session.NAME, session.NAME: EXTRACTIVE, handoff.NAME: EXTRACTIVE}


def order_strategies(strategy: str | None, *, model: bool) -> tuple[str, ...]:
    """Return the strategies to try, in order. `default` is `session` if there is a model, else `extractive`.

    Raises:
        UnknownStrategy: There is no strategy of that name.
    """
    name = strategy or DEFAULT
    if name not in STRATEGIES:
        raise UnknownStrategy(name, known=STRATEGIES)
    if name == DEFAULT:
        name = session.NAME if model else EXTRACTIVE
    names = [name]
    while (following := _NEXT.get(names[-1])) is not None:
        names.append(following)
    return tuple(names)


def needs_model(strategy: str) -> bool:
    """Whether a strategy needs a model."""
    return strategy in DRAFTERS
