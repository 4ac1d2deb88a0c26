"""Cuts of real sessions: what each arm shows at a user's message, and what the agent really did next."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import threadkeep
from benchmarks.readers.corpus import Skipped, Transcript, half_of
from benchmarks.readers.text import read_parts, render_item, render_items
from benchmarks.readers.windows import NEWEST, OURS, newest_text
from threadkeep import Thread
from threadkeep.errors import NothingToCompact
from threadkeep.tokens import estimate_text

NOTHING, USERS_AND_NEWEST, CEILING = "nothing", "user messages + newest tokens", "newest 25k tokens"
CEILING_TOKENS = 25_000
# Tokens that must lie before a cut.
BEFORE_TOKENS = 40_000
# Of what came next: the agent's tokens that are scored, and the fewest that make a cut worth having.
MOST_AGENT_TOKENS, FEWEST_AGENT_TOKENS = 1_200, 40
OUTPUT_CHARS = 1_500
CHARS_PER_TOKEN = 4
USERS_SHARE = 0.4
TRIES, NEAR = 4, 0.08


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A user's message at which a session is cut: its index, and what followed as `likelihood.py` reads it."""

    at: int
    segments: list[list[Any]]


async def make_cuts(
    transcript: Transcript, *, tokens: int, most: int, before_tokens: int = BEFORE_TOKENS
) -> AsyncIterator[dict[str, Any] | Skipped]:
    """Yield a line for `likelihood.py` for each cut; `ours` is compacted to about `tokens`, the others take its size."""
    with TemporaryDirectory(prefix="readers-") as folder:
        async with threadkeep.open(Path(folder) / "cuts.db") as tk:
            thread = await tk.thread("cuts", dialect=transcript.dialect)
            spoken = [view.by_person for _, view in thread.seen(transcript.items)]
            points = find_points(transcript.items, spoken, before_tokens=before_tokens)
            if not points:
                yield Skipped(name=transcript.name, reason=f"no user message with {before_tokens:,} tokens before it")
            recorded = 0
            for point in _spread(points, most):
                await thread.record(transcript.items[recorded : point.at])
                recorded = point.at
                ours = await compact_to(thread, tokens=tokens)
                if ours is None:
                    yield Skipped(name=f"{transcript.name}#{point.at}", reason="nothing to compact")
                    continue
                before = transcript.items[: point.at]
                users = [item for item, by_person in zip(before, spoken, strict=False) if by_person]
                yield {
                    "thread": transcript.name,
                    "cut": point.at,
                    "half": half_of(transcript.name, point.at),
                    "arms": _arms(before, users, ours=ours),
                    "segs": point.segments,
                }


async def compact_to(thread: Thread, *, tokens: int) -> str | None:
    """Return the text of the thread's window after a compaction, as near to `tokens` as a few tries get it.

    A target counts the items as they are sent, ids and sealed reasoning included; their text is smaller. Each try is a fork.
    """
    found: str | None = None
    target = float(tokens)
    for _ in range(TRIES):
        branch = await thread.fork()
        try:
            await branch.compact(strategy="extractive", target=str(int(target)))
        except NothingToCompact:
            return found
        text = render_items(await branch.window())
        size = max(estimate_text(text), 1)
        if found is None or abs(size - tokens) < abs(estimate_text(found) - tokens):
            found = text
        if abs(size - tokens) <= tokens * NEAR:
            break
        target *= min(max(tokens / size, 0.5), 3)
    return found


def find_points(items: Sequence[dict[str, Any]], spoken: Sequence[bool], *, before_tokens: int) -> list[Point]:
    """Return the people's messages with enough before them and enough of the agent's work behind them."""
    points = []
    seen = 0
    for at, item in enumerate(items):
        if spoken[at] and seen >= before_tokens:
            segments = _next_steps(items[at:], spoken[at:])
            if sum(estimate_text(text) for by_agent, text in segments if by_agent) >= FEWEST_AGENT_TOKENS:
                points.append(Point(at=at, segments=segments))
        seen += estimate_text(render_item(item))
    return points


def _next_steps(items: Sequence[dict[str, Any]], spoken: Sequence[bool]) -> list[list[Any]]:
    """Return the message and what the agent did about it: its own words and calls scored, outputs shown and cut short."""
    segments: list[list[Any]] = [[0, render_item(items[0])]]
    room = MOST_AGENT_TOKENS
    for item, by_person in zip(items[1:], spoken[1:], strict=True):
        if by_person:
            break
        for part in read_parts(item):
            if not part.text:
                continue
            if not part.by_agent:
                segments.append([0, f"[tool output]\n{part.text[:OUTPUT_CHARS]}"])
                continue
            segments.append([1, part.text[: room * CHARS_PER_TOKEN]])
            room -= estimate_text(part.text)
            if room <= 0:
                return segments
    return segments


def _arms(before: Sequence[dict[str, Any]], users: Sequence[dict[str, Any]], *, ours: str) -> dict[str, str]:
    size = estimate_text(ours)
    said = newest_text(users, tokens=int(size * USERS_SHARE))
    rest = newest_text(before, tokens=size - estimate_text(said))
    return {
        OURS: ours,
        NEWEST: newest_text(before, tokens=size),
        USERS_AND_NEWEST: f"{said}\n\n{rest}",
        NOTHING: "",
        CEILING: newest_text(before, tokens=CEILING_TOKENS),
    }


def _spread(points: Sequence[Point], most: int) -> list[Point]:
    """Return at most so many points, spread evenly over the session."""
    if len(points) <= most:
        return list(points)
    return [points[at * len(points) // most] for at in range(most)]
