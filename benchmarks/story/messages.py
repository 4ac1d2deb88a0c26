"""Builds a user's message: the request, their other remarks, and pasted logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.story import logs
from benchmarks.story.demands import Remark
from benchmarks.story.scene import Scene

BULLETS_FROM = 3

_BEFORE = (
    "Right.",
    "Next.",
    "Good.",
    "Hm.",
    "Coffee is here.",
    "One for you while I am in a call.",
    "Back at the desk.",
    "This came in by mail.",
    "Fresh from the shop floor.",
    "Not urgent.",
    "Small one.",
    "This one annoys me.",
)
_AFTER = (
    "No hurry.",
    "I am on the train until four.",
    "Tell me when you have something.",
    "Take the time it needs.",
    "A sentence or two will do.",
    "I will look at it after lunch.",
    "If it turns out bigger than it looks, say so.",
    "Thanks!",
)
_LIST_HEADS = (
    "Some things about this place, in no order:",
    "What you need to know:",
    "From my notes, as they are:",
    "Things people trip over here:",
    "Wenche made me write this down for you:",
    "Odds and ends first:",
    "A few facts:",
)
_LOG_HEADS = (
    "This is what I see:",
    "From the console:",
    "Pasted from the shop's machine:",
    "Here is what they sent me:",
    "The log says:",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Woven:
    """What goes into one message. `log` is what the user pastes, empty for none."""

    ask: str
    remarks: Sequence[Remark]
    log: str
    english: bool


def make_pasted_log(scene: Scene, *, ask: str, likely: bool) -> str:
    """Return a log or a stack trace a user would paste, or nothing; never beside a request of a few words."""
    rng = scene.rng
    if rng.random() > (0.55 if likely else 0.15) or len(ask) < 60:
        return ""
    if rng.random() < 0.5:
        return logs.trace_text(scene)
    return logs.json_log_lines(scene, rng.randrange(5, 22))


def weave_message(parts: Woven, *, rng: Random) -> str:
    """Return the message. Each remark stands in it word for word; an afterthought stands at its end."""
    asked = _add_small_talk(parts.ask, rng=rng) if parts.english else parts.ask
    said = [remark.text for remark in parts.remarks if not remark.last]
    afterthoughts = [remark.text for remark in parts.remarks if remark.last]
    log = [f"{rng.choice(_LOG_HEADS)}\n```\n{parts.log}\n```"] if parts.log else []
    if len(said) >= BULLETS_FROM and rng.random() < 0.7:
        listed = rng.choice(_LIST_HEADS) + "\n" + "\n".join(f"- {text}" for text in said)
        paragraphs = [asked, *log, listed] if rng.random() < 0.4 else [listed, asked, *log]
    else:
        before = [text for text in said if rng.random() < 0.4]
        after = [text for text in said if text not in before]
        opening = [_run_on(before)] if before else []
        closing = [_run_on(after)] if after else []
        if log or not closing or rng.random() < 0.4:
            paragraphs = [*opening, asked, *log, *closing]
        else:
            paragraphs = [*opening, _run_on([asked, *after])]
    return "\n\n".join([*paragraphs, *afterthoughts])


def _add_small_talk(ask: str, *, rng: Random) -> str:
    draw = rng.random()
    if draw < 0.16:
        return f"{rng.choice(_BEFORE)} {ask}"
    if draw < 0.34:
        return _run_on([ask, rng.choice(_AFTER)])
    return ask


def _run_on(sentences: Sequence[str]) -> str:
    """Set sentences one after another; one without a full stop of its own gets a line of its own."""
    text = sentences[0]
    for sentence in sentences[1:]:
        text += (" " if text[-1] in ".!?:。?!" else "\n") + sentence
    return text
