"""Keeps the results of a run, one line each, so that an interrupted run can continue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from threadkeep.errors import BadInput


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag="prepared"):
    """A thread that is ready for questions: what was compacted, by which strategy, in which phase, with which result.

    `took` is the strategy that was taken; `refused` why there was no compaction where one was wanted.
    """

    variant: str
    session: str
    hop: int
    thread: str
    window_tokens: int
    history_tokens: int
    phase: str
    took: str | None = None
    fell_back_from: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    invented: int = 0
    repaired: int = 0
    refused: str | None = None
    ms: int = 0


class AnsweredCase(msgspec.Struct, frozen=True, kw_only=True, tag="answered"):
    """A probe that was asked, the reply word for word, and what it is worth."""

    variant: str
    session: str
    hop: int
    case: str
    category: str
    priority: str
    form: str
    reply: str
    score: float
    verdict: str
    hard_fail: bool
    error: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    ms: int = 0


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun"):
    """What the run is; one that goes on must be the same. There is one more where it went on with other code."""

    terms: dict[str, Any]

    @property
    def code(self) -> str:
        return str(self.terms.get("code", "of an older form"))


# By what a run was made: it may differ where that is wanted.
MADE_BY = ("threadkeep", "code")
Line = Begun | Prepared | AnsweredCase


@dataclass(slots=True)
class Progress:
    """The lines of a run, in memory and, with a file, there too as soon as they are known; `codes` are those that took part."""

    file: Path | None
    terms: dict[str, Any]
    codes: list[str]
    prepared: dict[tuple[str, str, int], Prepared]
    answered: dict[tuple[str, str, int, str], AnsweredCase]

    def add(self, line: Line) -> None:
        match line:
            case Begun():
                self.codes.append(line.code)
            case Prepared():
                self.prepared[line.variant, line.session, line.hop] = line
            case AnsweredCase():
                self.answered[line.variant, line.session, line.hop, line.case] = line
        if self.file is not None:
            with self.file.open("ab") as out:
                out.write(msgspec.json.encode(line) + b"\n")


def open_progress(file: Path, *, terms: dict[str, Any], mixed: bool) -> Progress:
    """Return the progress in `file`, begun if it is not there; `mixed` lets it go on with other code than it was made by.

    Raises:
        BadInput: The file belongs to a run with other terms or of other code, or is none.
    """
    progress = Progress(file=None, terms=terms, codes=[], prepared={}, answered={})
    for line in _lines(file) if file.exists() else ():
        if isinstance(line, Begun):
            _same(file, line.terms, terms)
        progress.add(line)
    now = Begun(terms=terms)
    if progress.codes and progress.codes[-1] != now.code and not mixed:
        raise BadInput(
            f"{str(file)!r} was made with code {progress.codes[-1]}, and this is {now.code}; take another folder for the lab, or "
            "say --mixed: the run goes on, and its result says that it is not one"
        )
    progress.file = file
    if progress.codes[-1:] != [now.code]:
        progress.add(now)
    return progress


def _lines(file: Path) -> Iterator[Line]:
    decoder = msgspec.json.Decoder(Line)
    for number, text in enumerate(file.read_bytes().splitlines(keepends=True), start=1):
        if not text.endswith(b"\n"):
            # The line being written when it was broken off; what it tells is found out again, and written on a line of its own.
            with file.open("ab") as out:
                out.write(b"\n")
            return
        if not text.strip():
            continue
        try:
            yield decoder.decode(text)
        except msgspec.DecodeError as error:
            if number == 1:
                raise BadInput(f"{str(file)!r} holds no progress of a run: {error}") from error


def _same(file: Path, was: dict[str, Any], now: dict[str, Any]) -> None:
    other = [name for name in now if name not in MADE_BY and was.get(name) != now[name]]
    if other:
        raise BadInput(
            f"{str(file)!r} holds a run with another {', '.join(other)}; go on with the same, or take another folder for the lab"
        )
