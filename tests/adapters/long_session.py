"""A long session for any host: a rule and a needle at its beginning, then one survey after another, each long enough to count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.doubles.script import Reply, call, say

from threadkeep import Config

SYSTEM = "You keep a harbour in order."
RULE = "Never move the buoys before 06:30, whatever the survey says."
NEEDLE = "BX-90417"
QUESTION = "What is the serial of the bollard on pier 1?"
TURNS = 28
WINDOW_TOKENS = 4_000
SECRET = "sk-harbour-5f1c09"


def surveyed(pier: int) -> str:
    """Return what a survey of a pier prints; only pier 1 has the needle."""
    lines = [
        f"pier {pier}, metre {metre}: depth {4 + metre % 3}.{pier % 10} m, silt {metre * pier % 17} cm" for metre in range(22)
    ]
    serial = NEEDLE if pier == 1 else f"C{pier:02}-{pier * 7919}"
    return "\n".join([f"survey of pier {pier}", *lines, f"the bollard of pier {pier} has the serial {serial}"])


def asked(pier: int) -> str:
    """Return what the harbour master asks for in one turn."""
    return f"{RULE} Survey pier {pier}." if pier == 1 else f"Survey pier {pier} next."


def turns(first: int = 1, last: int = TURNS) -> Iterator[Reply]:
    """Return what the model says in these turns: it calls the tool, then says what it found."""
    for pier in range(first, last + 1):
        yield call("survey", {"pier": pier}, call_id=f"call_pier_{pier}")
        yield say(f"Pier {pier} is surveyed; the silt is where it was last year.")


def looking_back() -> Iterator[Reply]:
    """Return what the model says in the turn that asks for the needle: it recalls, then answers."""
    yield call("recall", {"query": "serial of the bollard of pier 1"}, call_id="call_recall")
    yield say(f"It is {NEEDLE}.")


def settings(store: Path) -> Config:
    """Return a store whose window is small, so that a few turns are enough to compact."""
    return Config(store=str(store), model_context_window=WINDOW_TOKENS)
