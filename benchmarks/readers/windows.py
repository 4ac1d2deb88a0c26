"""Play a session through its compactions and write down what each arm would show to a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import threadkeep
from benchmarks.readers.questions import Asked, order_options, with_near_options
from benchmarks.readers.sessions import DIALECT, Session
from benchmarks.readers.text import render_item, render_items
from threadkeep.errors import NothingToCompact
from threadkeep.llm import Model
from threadkeep.tokens import estimate_text

OURS, NONE, USER_ONLY, NEWEST = "ours", "none", "user messages only", "newest tokens"
ARMS = (OURS, NONE, USER_ONLY, NEWEST)
RECALLED = " + recall"
HITS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A session after its last compaction: the window, and the recall hits of each question by its text."""

    session: Session
    window: Sequence[dict[str, Any]]
    hits: dict[str, list[str]]
    refused: int
    strategies: Sequence[str]


async def play_session(session: Session, *, strategy: str = "extractive", model: Model | None = None) -> Played:
    """Record the session in a new store and compact after every span; a strategy that drafts asks `model`."""
    refused = 0
    strategies = []
    with TemporaryDirectory(prefix="readers-") as folder:
        async with threadkeep.open(Path(folder) / "readers.db") as tk:
            thread = await tk.thread(f"{session.family}-{session.seed}", dialect=DIALECT)
            for span in session.spans:
                await thread.record(span)
                try:
                    checkpoint = await thread.compact(strategy=strategy, model=model)
                    strategies.append(checkpoint.strategy)
                except NothingToCompact:
                    refused += 1
            window = list(await thread.window())
            hits = {}
            for query in dict.fromkeys(question.text for question in session.questions):
                found = await thread.recall(query, limit=HITS)
                hits[query] = [f"[{hit.pointer}]\n{hit.text}" for hit in found]
    return Played(session=session, window=window, hits=hits, refused=refused, strategies=strategies)


def make_lines(played: Played, *, near: bool = False) -> Iterator[dict[str, Any]]:
    """Yield a line for `ask.py` for each arm, then for each arm with the recall hits before each question."""
    session = played.session
    questions = list(session.questions)
    if near:
        questions += with_near_options(session.questions, seed=session.seed)
    asked = order_options(questions, seed=session.seed)
    ours = render_items(played.window)
    contexts = {
        OURS: ours,
        NONE: "",
        USER_ONLY: render_items(session.said),
        NEWEST: newest_text(session.items, tokens=estimate_text(ours)),
    }
    for arm, context in contexts.items():
        yield _line(session, arm, context, [question.as_line() for question in asked])
    for arm, context in contexts.items():
        shown = [question.as_line(before=_recalled(played, question)) for question in asked]
        yield _line(session, f"{arm}{RECALLED}", context, shown)


def newest_text(items: Sequence[dict[str, Any]], *, tokens: int) -> str:
    """Return the newest items as text of at most `tokens` tokens; the oldest of them is cut to its end to fit."""
    texts: list[str] = []
    room = tokens
    for item in reversed(items):
        text = render_item(item)
        size = estimate_text(text)
        if size > room:
            texts.append(end_of(text, tokens=room))
            break
        room -= size
        texts.append(text)
    return "\n\n".join(filter(None, reversed(texts)))


def end_of(text: str, *, tokens: int) -> str:
    """Return the longest end of a text that has at most `tokens` tokens by the library's estimate."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        if estimate_text(text[middle:]) <= tokens:
            high = middle
        else:
            low = middle + 1
    return text[low:]


def _recalled(played: Played, question: Asked) -> str:
    found = played.hits[question.query]
    told = "\n\n".join(found) if found else "Nothing was found."
    return f"Looked up in the record of the session:\n\n{told}\n\n"


def _line(session: Session, arm: str, context: str, questions: list[list[str | None]]) -> dict[str, Any]:
    return {"seed": session.seed, "family": session.family, "arm": arm, "ctx": context, "qs": questions}
