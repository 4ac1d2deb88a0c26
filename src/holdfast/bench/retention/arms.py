"""What stands beside `extractive`: each makes a window of the same size from the same history.

`none` and `full` are the floor and the ceiling and have no size to keep to. Arms that summarise remember their last text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from holdfast.bench.retention.summarisers import SUMMARISERS, Note, Summariser
from holdfast.bench.retention.windows import Piece, Place, summary_piece
from holdfast.dialects import Dialect
from holdfast.tokens import estimate_item

CLEARED = "[old tool output cleared]"
# What Codex keeps of the user's messages, newest first.
HANDOFF_USER_TOKENS = 20_000
HANDOFF_OPENING = "Summary of the session so far, for whoever goes on with it:"
REWRITE_OPENING = "State of the session, rewritten as a whole at every compaction:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A compaction that is due: the whole history, what matters in the newest span, and the size the window may have."""

    history: Sequence[Piece]
    notes: Sequence[Note]
    budget_tokens: int
    dialect: Dialect


class Arm(Protocol):
    """One way to make a window out of a history; it is asked at every hop, in order."""

    def window(self, moment: Moment) -> list[Piece]: ...


@dataclass(frozen=True, slots=True)
class Stateless:
    """An arm that needs nothing but the history."""

    make: Callable[[Moment], list[Piece]]

    def window(self, moment: Moment) -> list[Piece]:
        return self.make(moment)


class HandoffLayout:
    """The user's newest messages as they are, then the summary; no work is kept (Codex's own compaction)."""

    def __init__(self, summarise: Summariser, *, seed: str) -> None:
        self._text = _Text(summarise, seed=seed)

    def window(self, moment: Moment) -> list[Piece]:
        summary = self._text.rewritten(moment, opening=HANDOFF_OPENING)
        spoken = [piece for piece in moment.history if piece.place is Place.PERSON]
        room = min(HANDOFF_USER_TOKENS, moment.budget_tokens - summary.tokens)
        return [*_newest(spoken, budget_tokens=room), summary]


class WholeBlockRewrite:
    """One block that the summariser writes anew every time, then the newest items that fit beside it."""

    def __init__(self, summarise: Summariser, *, seed: str) -> None:
        self._text = _Text(summarise, seed=seed)

    def window(self, moment: Moment) -> list[Piece]:
        block = self._text.rewritten(moment, opening=REWRITE_OPENING)
        return [block, *_newest(moment.history, budget_tokens=moment.budget_tokens - block.tokens)]


class _Text:
    """A summary that lives through hops."""

    def __init__(self, summarise: Summariser, *, seed: str) -> None:
        self._summarise = summarise
        self._rng = Random(seed)
        self._lines: list[str] = []

    def rewritten(self, moment: Moment, *, opening: str) -> Piece:
        self._lines = self._summarise(self._lines, moment.notes, self._rng)
        text = "\n".join((opening, *(self._lines or ["(no summary)"])))
        return summary_piece(text, dialect=moment.dialect)


def _none(moment: Moment) -> list[Piece]:
    return []


def _full(moment: Moment) -> list[Piece]:
    return list(moment.history)


def _keep_last(moment: Moment) -> list[Piece]:
    return _newest(moment.history, budget_tokens=moment.budget_tokens)


def _user_messages(moment: Moment) -> list[Piece]:
    spoken = [piece for piece in moment.history if piece.place is Place.PERSON]
    return _newest(spoken, budget_tokens=moment.budget_tokens)


def _drop_old_outputs(moment: Moment) -> list[Piece]:
    """Clear outputs, the oldest first, until the rest fits; if that is not enough, the oldest items go too."""
    pieces = list(moment.history)
    over = sum(piece.tokens for piece in pieces) - moment.budget_tokens
    for at, piece in enumerate(pieces):
        if over <= 0:
            break
        item = moment.dialect.with_output(piece.item, CLEARED) if piece.place is Place.OUTPUT else None
        if item is not None:
            pieces[at] = Piece(item=item, place=Place.OUTPUT, text=CLEARED, tokens=estimate_item(item.raw))
            over -= piece.tokens - pieces[at].tokens
    return _newest(pieces, budget_tokens=moment.budget_tokens)


def _newest(pieces: Sequence[Piece], *, budget_tokens: int) -> list[Piece]:
    """Return the newest pieces that fit, up to the first that does not."""
    kept: list[Piece] = []
    for piece in reversed(pieces):
        budget_tokens -= piece.tokens
        if budget_tokens < 0:
            break
        kept.append(piece)
    return kept[::-1]


NONE, FULL, EXTRACTIVE = "none", "full", "extractive"
STATELESS: Mapping[str, Callable[[Moment], list[Piece]]] = {
    NONE: _none,
    FULL: _full,
    "keep last": _keep_last,
    "drop old tool output": _drop_old_outputs,
    "user messages only": _user_messages,
}
SUMMARISING: Mapping[str, Callable[..., Arm]] = {"handoff layout": HandoffLayout, "whole-block rewrite": WholeBlockRewrite}


def arm_names() -> list[str]:
    """Return every arm in the order of the report, the library's own last."""
    return [*STATELESS, *(f"{arm}, {name}" for arm in SUMMARISING for name in SUMMARISERS), EXTRACTIVE]


def new_arms(*, seed: int) -> Iterator[tuple[str, Arm]]:
    """Yield every arm but the library's own, none of which has seen anything yet."""
    for name, make in STATELESS.items():
        yield name, Stateless(make)
    for arm, kind in SUMMARISING.items():
        for name, summarise in SUMMARISERS.items():
            yield f"{arm}, {name}", kind(summarise, seed=f"{seed}:{arm}:{name}")
