"""Who really wrote a message in the user's role.

Hosts speak in that role too: they describe their world, report events, replay summaries of their own, and put such text before
or behind what the person typed. Only a whole fragment, from its opening to its closing at the end of a line, is the host's; a
sentence that begins with a host's tag is the person's. An unknown fragment costs a few tokens and never a lost instruction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final


@dataclass(frozen=True, slots=True)
class Fragment:
    """What a host writes between `opening` and `closing`.

    Attributes:
        section: What it says of the host's world: the newest of each must stay in view. Without one it is said in passing.
        prose: Whether it is told by its opening alone: the closing's line is all its own, and without one it has no end.
    """

    opening: str
    closing: str
    section: str | None = None
    prose: bool = False


REMINDER: Final = Fragment("<system-reminder>", "</system-reminder>")

# Literals of client releases: Codex, Claude Code behind a translator, opencode, pi, Cline, Hermes, and holdfast's own state.
FRAGMENTS: Final = (
    REMINDER,
    Fragment("<environment_context>", "</environment_context>", "environment"),
    Fragment("<environment_details>", "</environment_details>", "environment"),
    Fragment("<user_instructions>", "</user_instructions>", "user_instructions"),
    Fragment("<recommended_plugins>", "</recommended_plugins>", "plugins"),
    Fragment("# AGENTS.md instructions for ", "</INSTRUCTIONS>", "agents_md"),
    Fragment("<turn_aborted>", "</turn_aborted>"),
    Fragment("<user_shell_command>", "</user_shell_command>"),
    Fragment("<subagent_notification>", "</subagent_notification>"),
    Fragment("<skill>", "</skill>"),
    Fragment("<hook_prompt", "</hook_prompt>"),
    Fragment("<additional_context>", "</additional_context>"),
    Fragment("<internal_model_context>", "</internal_model_context>"),
    Fragment("# Context from my IDE setup:", "## My request for Codex:"),
    Fragment("Called the Read tool with the following input:", "", prose=True),
    Fragment("The earlier part of this session was compacted.", "</session_compact_state>"),
    Fragment("The conversation history before this point was compacted", "</summary>", "client_summary"),
    Fragment("Another language model started to solve this problem and produced a summary", "", "client_summary", prose=True),
    Fragment("This session is being continued from a previous conversation", "", "client_summary", prose=True),
    Fragment("[CONTEXT COMPACTION", "--- END OF CONTEXT SUMMARY", "client_summary", prose=True),
)

# Nearly every message has no fragment at all; these two tell so in one look.
_OPENINGS: Final = tuple(fragment.opening for fragment in FRAGMENTS)
_TAGGED: Final = tuple(fragment for fragment in FRAGMENTS if fragment.opening.endswith(">"))
_TAG_CLOSINGS: Final = tuple(fragment.closing for fragment in _TAGGED)

# Whole messages that opencode writes around its own compaction.
PASSING_MESSAGES: Final = frozenset(
    {
        "What did we do so far?",
        "Continue if you have next steps",
        "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed.",
    }
)
# Reminders that say how things stand right now and are worth nothing later.
PASSING_REMINDERS: Final = ("[SYSTEM NOTIFICATION", "<total_tokens>")
# A host that hands over what the person typed while it was working: their words stand between these two.
RELAY: Final = ("The user sent the following message:", "Please address this message and continue with your tasks.")

_gap = re.compile(r"\s*")
_title = re.compile(r"[#\s]*([^\W\d_][^\n\d:./<]{0,60})")
_tagged = re.compile(r"\s*<([^<>/\n]{1,80})>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The person's words in a message, and what its host said beside them.

    Attributes:
        host: Whether a host said anything in it.
        section: The names of the sections of its world the host described, or None.
    """

    words: str
    host: bool
    section: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A fragment in a text: what stands inside it, and from where to where it reaches, opening and closing included."""

    fragment: Fragment
    inner: str
    start: int
    end: int


def hear(texts: Sequence[str]) -> Heard:
    """Return who says what in the parts of a message in the user's role."""
    words: list[str] = []
    sections: dict[str, None] = {}
    host = False
    for text in texts:
        before = _before(text)
        start = before[-1].end if before else 0
        behind = _behind(text, start)
        found = [*before, *behind]
        spoken = text[start : behind[0].start if behind else len(text)].strip() if found else text
        if spoken.strip() in PASSING_MESSAGES:
            host, spoken = True, ""
        sections.update((name, None) for each in found if (name := _section(each)))
        host = host or bool(found)
        words.extend(said for said in (*map(_relayed, found), spoken) if said)
    return Heard(words="\n".join(words), host=host, section="+".join(sections) or None)


def instruction_section(texts: Sequence[str]) -> str:
    """Return a name for a system or developer message: the tags its parts are wrapped in, or, without any, its own words.

    Tagged sections replace their older version; untagged ones are only ever equal to themselves.
    """
    tags = [tag for text in texts if (tag := _wrapping_tag(text))]
    if tags and len(tags) == len(texts):
        return "developer:" + "+".join(tags)
    return "developer:" + blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _before(text: str) -> list[_Found]:
    """Return the fragments a text begins with, in order."""
    found: list[_Found] = []
    while next_one := _leading(text, found[-1].end if found else 0):
        found.append(next_one)
    return found


def _behind(text: str, start: int) -> list[_Found]:
    """Return the fragments a text ends with from `start` on, in order."""
    found: list[_Found] = []
    while next_one := _trailing(text, start, found[-1].start if found else len(text)):
        found.append(next_one)
    return found[::-1]


def _leading(text: str, start: int) -> _Found | None:
    """Return the whole fragment that begins at `start`."""
    position = _past_gap(text, start)
    if not text.startswith(_OPENINGS, position):
        return None
    fragment = next(known for known in FRAGMENTS if text.startswith(known.opening, position))
    opened = position + len(fragment.opening)
    end = _end(fragment, text, opened)
    if end is None:
        return None
    return _Found(fragment=fragment, inner=text[opened:end].removesuffix(fragment.closing), start=position, end=end)


def _end(fragment: Fragment, text: str, opened: int) -> int | None:
    """Return where a fragment ends whose inside begins at `opened`; None where it is no whole fragment."""
    closed = text.find(fragment.closing, opened) if fragment.closing else -1
    if fragment.prose:
        line_end = text.find("\n", closed) if closed >= 0 else -1
        return line_end if line_end >= 0 else len(text)
    end = closed + len(fragment.closing)
    # Words on the closing's own line are a sentence about a fragment, not the end of one.
    return end if closed >= 0 and text[end : end + 1] in ("", "\r", "\n") else None


def _trailing(text: str, start: int, end: int) -> _Found | None:
    """Return the whole fragment that ends at `end` and begins at `start` or later; only tags stand behind words."""
    while end > start and text[end - 1].isspace():
        end -= 1
    if not text.endswith(_TAG_CLOSINGS, start, end):
        return None
    fragment = next(known for known in _TAGGED if text.endswith(known.closing, start, end))
    opening = text.rfind(fragment.opening, start, end)
    if opening < 0 or (opening > start and text[opening - 1] != "\n"):
        return None
    inner = text[opening + len(fragment.opening) : end - len(fragment.closing)]
    return _Found(fragment=fragment, inner=inner, start=opening, end=end)


def _past_gap(text: str, position: int) -> int:
    gap = _gap.match(text, position)
    return gap.end() if gap else position


def _relayed(found: _Found) -> str:
    """Return the person's words that a reminder hands over, if it does."""
    first, last = RELAY
    inner = found.inner.strip()
    if found.fragment is not REMINDER or not inner.startswith(first):
        return ""
    return inner.removeprefix(first).removesuffix(last).strip()


def _section(found: _Found) -> str | None:
    """Return which section of its world a host describes; reminders have no name but their first words."""
    if found.fragment is not REMINDER:
        return found.fragment.section
    if found.inner.lstrip().startswith((*PASSING_REMINDERS, RELAY[0])):
        return None
    title = _title.match(found.inner)
    return f"reminder:{title[1].strip()}" if title else "reminder"


def _wrapping_tag(text: str) -> str | None:
    found = _tagged.match(text)
    return found[1].strip() if found and text.rstrip().endswith(f"</{found[1]}>") else None
