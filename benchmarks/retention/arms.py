"""The ways to make a window that are compared with threadkeep, each of the size that `extractive` reached.

`none` and `full` are the floor and the ceiling and have no size to keep to. Arms that summarise remember their last text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from benchmarks.retention.summarisers import SUMMARISERS, Note, Shown, Summariser
from benchmarks.retention.windows import Piece, Place, make_piece, make_summary_piece
from threadkeep.dialects import Dialect
from threadkeep.dialects.values import STATE_OPENING
from threadkeep.tokens import estimate_item

CLEARED = "[old tool output cleared]"
# What Codex keeps of the user's messages, newest first.
HANDOFF_USER_TOKENS = 20_000
HANDOFF_OPENING = "Summary of the session so far, for whoever goes on with it:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A compaction that is due: the whole history, where its newest span begins, the key to it, and the size allowed."""

    history: Sequence[Piece]
    begin: int
    key: Sequence[Note]
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
        text = "\n".join((HANDOFF_OPENING, self._text.rewritten(moment) or "(no summary)"))
        summary = make_summary_piece(text, dialect=moment.dialect)
        spoken = [piece for piece in moment.history if piece.place is Place.PERSON]
        room = min(HANDOFF_USER_TOKENS, moment.budget_tokens - summary.tokens)
        return [*_newest(spoken, budget_tokens=room), summary]


class WholeBlockRewrite:
    """One block that the summariser writes anew every time, then the newest items that fit beside it."""

    def __init__(self, summarise: Summariser, *, seed: str) -> None:
        self._text = _Text(summarise, seed=seed)

    def window(self, moment: Moment) -> list[Piece]:
        text = "\n".join((STATE_OPENING, self._text.rewritten(moment) or "(no summary)"))
        block = make_piece(moment.dialect.make_user_message(text), dialect=moment.dialect)
        if block.place is not Place.STATE:
            block = make_summary_piece(text, dialect=moment.dialect)
        return [block, *_newest(moment.history, budget_tokens=moment.budget_tokens - block.tokens)]


class _Text:
    """A summary that lives through hops: what it says at one is what it goes on from at the next."""

    def __init__(self, summarise: Summariser, *, seed: str) -> None:
        self._summarise = summarise
        self._rng = Random(seed)
        self._last = ""

    def rewritten(self, moment: Moment) -> str:
        new = moment.history[moment.begin :]
        spoken = (" ".join(piece.text.split()) for piece in new if piece.place is Place.PERSON)
        shown = Shown(
            before=self._last,
            messages="\n".join(f"#{number}: {text}" for number, text in enumerate(spoken, start=1)),
            span="\n".join(piece.text for piece in new),
            whole=True,
            key=moment.key,
        )
        self._last = self._summarise(shown, self._rng)
        return self._last


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
        item = moment.dialect.replace_output(piece.item, CLEARED) if piece.place is Place.OUTPUT else None
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


NONE, FULL, EXTRACTIVE, SESSION = "none", "full", "extractive", "session"
STATELESS: Mapping[str, Callable[[Moment], list[Piece]]] = {
    NONE: _none,
    FULL: _full,
    "keep last": _keep_last,
    "drop old tool output": _drop_old_outputs,
    "user messages only": _user_messages,
}
SUMMARISING: Mapping[str, Callable[..., Arm]] = {"handoff layout": HandoffLayout, "whole-block rewrite": WholeBlockRewrite}
# threadkeep's own arms, by the summariser each asks; None asks no model.
LIBRARY: Mapping[str, str | None] = {EXTRACTIVE: None, **{f"{SESSION}, {name}": name for name in SUMMARISERS}}


def arm_names() -> list[str]:
    """Return every arm in the order of the report, the library's own last."""
    return [*STATELESS, *(f"{arm}, {name}" for arm in SUMMARISING for name in SUMMARISERS), *LIBRARY]


def new_arms(*, seed: int) -> Iterator[tuple[str, Arm]]:
    """Yield every arm but the library's own, none of which has seen anything yet."""
    for name, make in STATELESS.items():
        yield name, Stateless(make)
    for arm, kind in SUMMARISING.items():
        for name, summarise in SUMMARISERS.items():
            yield f"{arm}, {name}", kind(summarise, seed=f"{seed}:{arm}:{name}")
