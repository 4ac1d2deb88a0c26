"""Two checks that need no reader: growth over many compactions, and rules shown as overruled that nobody changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import threadkeep
from benchmarks.readers.sessions import DIALECT, Size, make_message, make_session
from benchmarks.readers.state import read_state
from benchmarks.readers.text import render_items
from threadkeep.errors import NothingToCompact

RATCHET_AT = (10, 50, 100, 200)
TURNS_PER_COMPACTION = 2

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
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overruled:
    """How many rules were stated, the lines that show one as overruled, and how many are nowhere in the window."""

    rules: int
    overruled: tuple[str, ...]
    missing: int


async def measure_growth(family: str, *, seed: int, at: Sequence[int]) -> list[tuple[int, int]]:
    """Return the window's tokens, as the library counts them, after so many compactions."""
    compactions = max(at)
    session = make_session(family, seed=seed, size=Size(turns=compactions * TURNS_PER_COMPACTION, compactions=compactions))
    found = []
    with TemporaryDirectory(prefix="readers-") as folder:
        async with threadkeep.open(Path(folder) / "growth.db") as tk:
            thread = await tk.thread("growth", dialect=DIALECT)
            for number, span in enumerate(session.spans, start=1):
                await thread.record(span)
                try:
                    await thread.compact(strategy="extractive")
                except NothingToCompact:
                    continue
                finally:
                    if number in at:
                        found.append((number, (await thread.window()).tokens))
    return found


async def count_overruled(*, seed: int) -> Overruled:
    """State independent rules in a working session, compact it several times, and read the window."""
    size = Size(turns=OVERRULED_TURNS, compactions=OVERRULED_COMPACTIONS)
    session = make_session("frozen", seed=seed, size=size)
    rng = Random(f"{seed}:overruled")
    values = [f"{word}{number}" for number, word in enumerate(rng.sample(WORDS, len(RULES)), start=11)]
    said = [rule.format(v=value) for rule, value in zip(RULES, values, strict=True)]
    spans = [list(span) for span in session.spans]
    for text in said:
        _state_rule(rng.choice(spans[:-1]), text, rng)
    with TemporaryDirectory(prefix="readers-") as folder:
        async with threadkeep.open(Path(folder) / "overruled.db") as tk:
            thread = await tk.thread("overruled", dialect=DIALECT)
            for span in spans:
                await thread.record(span)
                await thread.compact(strategy="extractive")
            window = await thread.window()
    state = read_state(window)
    text = render_items(window)
    shown = [line for line in state if any(value in line.text for value in values)]
    wrong = [line.text for line in shown if line.section == "Inactive Changes" or _OVERRULED.search(line.text)]
    return Overruled(rules=len(RULES), overruled=tuple(wrong), missing=sum(value not in text for value in values))


def _state_rule(span: list[dict[str, Any]], text: str, rng: Random) -> None:
    """Add a rule to the end of one of the span's user messages."""
    at = rng.choice([at for at, item in enumerate(span) if item.get("role") == "user" and _is_plain(item)])
    old = span[at]["content"][0]["text"]
    span[at] = make_message("user", f"{old}\n\n{text}")


def _is_plain(item: dict[str, Any]) -> bool:
    return not item["content"][0]["text"].startswith("<")


WORDS = (
    "juniper quarry lattice beacon marlin copper saddle tundra willow cobalt ferry gable hollow island jigsaw kettle lumber "
    "meadow nickel orchard pepper quiver ribbon sorrel timber umbra velvet walnut yonder zephyr"
).split()
