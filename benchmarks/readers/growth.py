"""Two checks that need no reader: growth over many compactions, and rules shown as overruled that nobody changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import threadkeep
from benchmarks.compaction.growing_thread import session_turns
from benchmarks.readers.corpus import Transcript
from benchmarks.readers.sessions import Size, make_session
from benchmarks.readers.state import read_state
from benchmarks.readers.text import find_boundaries, render_items
from threadkeep.errors import NothingToCompact
from threadkeep.tokens import estimate_text

RATCHET_AT = (10, 50, 100, 200)
DIALECT = "responses"
# As much work as an agent with a small window does before its next compaction.
NEW_TOKENS = 20_000

OVERRULED_TURNS, OVERRULED_COMPACTIONS = 60, 6
_OVERRULED = re.compile(r"contested|supersed|overrul|replaced by|withdrawn|earlier, ", re.IGNORECASE)

# Rules about one subject each; none says anything about another's subject.
RULES = (
    "Never force-push to the branch {v}.",
    "Write commit messages in the form '{v}: what changed'.",
    "Do not touch the folder {v}/, another team owns it.",
    "Always run the check {v} before you say that something is done.",
    "Keep the public names in {v}.py stable, customers import them.",
    "Use the fixture {v} for tests that need a database.",
    "Amounts are integers of {v} cents.",
    "Dates in file names look like {v}.",
    "The word {v} must not appear in messages to customers.",
    "Put new translations into the file {v}.po.",
    "Ask me before you add a dependency other than {v}.",
    "Logs of the importer go to the channel {v}.",
    "Tests of the scheduler must use the clock {v}.",
    "When a migration fails, page {v} and stop.",
    "The icon set is {v}; no other icons.",
    "Error codes of the gateway begin with {v}.",
    "Nothing may write to the bucket {v}.",
    "Sort imports by the profile {v}.",
    "Include my initials {v} in every changelog entry.",
    "The demo account is {v}, use no real one.",
    "Background jobs get at most {v} megabytes.",
    "Prefer the library {v} for parsing.",
    "Release notes are written in the style of {v}.",
    "Do not use the word {v} as a variable name.",
    # These share everyday words with what people say about other things.
    "Never include my name {v} in your replies.",
    "Use Postgres {v} for the tests.",
    "Don't change the tool {v}, I only want you to look at it.",
    "Always show me the file {v} in full before you edit it.",
    "We don't want the old mode {v} in the new code.",
    "I want the plan in {v} before you write any code.",
    "Keep the session {v} open until I say that we are done.",
    "Put the test for the message type {v} into its own file.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overruled:
    """How many rules were stated, the lines that show one as overruled, and how many are nowhere in the window."""

    rules: int
    overruled: tuple[str, ...]
    missing: int


async def measure_growth(*, seed: int, at: Sequence[int], new_tokens: int = NEW_TOKENS) -> list[tuple[int, int]]:
    """Return the window's tokens, as the library counts them, after so many compactions, each after so much new work."""
    turns = session_turns(seed=seed)
    found = []
    with TemporaryDirectory(prefix="readers-") as folder:
        async with threadkeep.open(Path(folder) / "growth.db") as tk:
            thread = await tk.thread("growth", dialect=DIALECT)
            for number in range(1, max(at) + 1):
                new = 0
                while new < new_tokens:
                    items = next(turns)
                    await thread.record(items)
                    new += estimate_text(render_items(items))
                with suppress(NothingToCompact):
                    await thread.compact(strategy="extractive")
                if number in at:
                    found.append((number, (await thread.window()).tokens))
    return found


async def count_overruled(transcript: Transcript, *, seed: int) -> Overruled:
    """State independent rules in a session, up to three in a paragraph, compact it several times, and read the window."""
    rng = Random(f"{seed}:overruled")
    values = [f"{word}{number}" for number, word in enumerate(rng.sample(WORDS, len(RULES)), start=11)]
    with TemporaryDirectory(prefix="readers-") as folder:
        async with threadkeep.open(Path(folder) / "overruled.db") as tk:
            thread = await tk.thread("overruled", dialect=transcript.dialect)
            items = [deepcopy(item) for item in transcript.items]
            _state_rules([item for item in items if thread.seen([item])[0][1].by_person], values, rng)
            for span in _spans(items):
                await thread.record(span)
                with suppress(NothingToCompact):
                    await thread.compact(strategy="extractive")
            window = await thread.window()
    text = render_items(window)
    shown = [line for line in read_state(window) if any(value in line.text for value in values)]
    wrong = [line.text for line in shown if line.section == "Inactive Changes" or _OVERRULED.search(line.text)]
    return Overruled(rules=len(RULES), overruled=tuple(wrong), missing=sum(value not in text for value in values))


def synthetic_transcript(*, seed: int) -> Transcript:
    """Return a session of the frozen family as a transcript."""
    session = make_session("frozen", seed=seed, size=Size(turns=OVERRULED_TURNS, compactions=OVERRULED_COMPACTIONS))
    return Transcript(name=f"frozen {seed}", dialect=DIALECT, items=tuple(session.items))


def _state_rules(spoken: Sequence[dict[str, Any]], values: Sequence[str], rng: Random) -> None:
    """Add every rule to a message; a message gets up to three, as one paragraph."""
    said = [rule.format(v=value) for rule, value in zip(RULES, values, strict=True)]
    rng.shuffle(said)
    while said:
        paragraph = " ".join(said.pop() for _ in range(min(rng.randrange(1, 4), len(said))))
        item = rng.choice(spoken)
        if isinstance(item["content"], str):
            item["content"] += f"\n\n{paragraph}"
        else:
            block = next(each for each in item["content"] if "text" in each)
            block["text"] += f"\n\n{paragraph}"


def _spans(items: Sequence[dict[str, Any]]) -> Iterator[Sequence[dict[str, Any]]]:
    """Yield the items in parts of about equal length that end where no call is open."""
    begin = 0
    bounds = find_boundaries(items)
    for number in range(1, OVERRULED_COMPACTIONS + 1):
        end = next((at for at in bounds if at >= len(items) * number // OVERRULED_COMPACTIONS), len(items))
        yield items[begin:end]
        begin = end


WORDS = (
    "juniper quarry lattice beacon marlin copper saddle tundra willow cobalt ferry gable hollow island jigsaw kettle lumber "
    "meadow nickel orchard pepper quiver ribbon sorrel timber umbra velvet walnut yonder zephyr "
    "anchor bramble cinder dapple ember falcon"
).split()
