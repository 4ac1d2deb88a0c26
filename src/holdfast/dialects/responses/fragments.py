"""Who really wrote a message in the user's role.

Hosts speak in that role too: they inject their world (environment, instruction files), report events, and replay their own
summaries. These literals belong to client releases; they only ever decide that a person did *not* write something, so an
unknown one costs a few tokens and never a lost instruction.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from holdfast.dialects.base import STATE_OPENING

# What the host says about its world: the newest of each must stay in view after a compaction.
WORLD = {
    "environment_context": "environment",
    "user_instructions": "user_instructions",
    "recommended_plugins": "plugins",
}

# What the host reports in passing: neither a person's words nor worth pinning.
EVENTS = frozenset(
    {
        "turn_aborted",
        "user_shell_command",
        "subagent_notification",
        "skill",
        "hook_prompt",
        "additional_context",
        "internal_model_context",
    }
)

# Fragments without a closing tag: how they begin, what else they must hold, and which section they are.
OPENINGS = (
    ("# AGENTS.md instructions", "<INSTRUCTIONS>", "agents_md"),
    ("Another language model started to solve this problem", "", "client_summary"),
    ("The conversation history before this point was compacted", "<summary>", "client_summary"),
)

# An editor's plug-in wraps what the person typed: it begins so, and their words follow this line.
EDITOR_OPENING = "# Context from my IDE setup:"
REQUEST_LINE = "## My request for Codex:"

_element = re.compile(r"<([a-z_]+)[^<>]*>.*</\1>", re.DOTALL)


def own_words(text: str) -> str:
    """Return what the person typed, without the wrapping an editor put around it."""
    if not text.lstrip().startswith(EDITOR_OPENING):
        return text
    _, found, request = text.partition(REQUEST_LINE)
    return request.strip() if found else text


def world_section(text: str) -> str | None:
    """Return which section of its world a host describes in this user-role text, if it does."""
    bare = text.strip()
    for opening, holds, section in OPENINGS:
        if bare.startswith(opening) and holds in bare:
            return section
    return WORLD.get(_whole_element(bare) or "")


def is_hosts(text: str) -> bool:
    """Whether a text in the user's role is the host's, or holdfast's own session state.

    Only a whole fragment is: a tag that opens the text and is closed at its end. A sentence *about* a tag is a person's.
    """
    bare = text.strip()
    ours = bare.startswith(STATE_OPENING) and bare.endswith(">")
    return ours or world_section(bare) is not None or _whole_element(bare) in EVENTS


def _whole_element(text: str) -> str | None:
    match = _element.fullmatch(text)
    return match[1] if match else None


def instruction_section(texts: tuple[str, ...]) -> str:
    """Return a name for a system or developer message: its leading tags, or, without any, its own words.

    Tagged sections replace their older version; untagged ones are only ever equal to themselves.
    """
    tags = [tag for text in texts if (tag := _leading_tag(text))]
    if len(tags) == len(texts) and tags:
        return "developer:" + "+".join(tags)
    return "developer:" + blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _leading_tag(text: str) -> str | None:
    start = text.lstrip()
    if not start.startswith("<") or (end := start.find(">")) < 0:
        return None
    return start[1:end].strip()
