"""Who really wrote a message in the user's role.

Hosts speak in that role too: they inject their world (environment, instruction files), report events, and replay their own
summaries. These literals belong to client releases; they only ever decide that a person did *not* write something, so an
unknown one costs a few tokens and never a lost instruction.
"""

from __future__ import annotations

from hashlib import blake2b

# What the host says about its world: the newest of each must stay in view after a compaction.
WORLD = {
    "<environment_context>": "environment",
    "# AGENTS.md instructions": "agents_md",
    "<user_instructions>": "user_instructions",
    "<recommended_plugins>": "plugins",
    "Another language model started to solve this problem": "client_summary",
    "The conversation history before this point was compacted": "client_summary",
}

# What the host reports in passing: neither a person's words nor worth pinning.
EVENTS = (
    "<turn_aborted>",
    "<user_shell_command>",
    "<subagent_notification>",
    "<skill>",
    "<hook_prompt",
    "<additional_context>",
    "<internal_model_context>",
)


# An editor's plug-in wraps what the person typed; their words follow this line.
REQUEST_LINES = ("## My request for Codex:",)


def own_words(text: str) -> str:
    """Return what the person typed, without the wrapping an editor put around it."""
    for line in REQUEST_LINES:
        _, found, request = text.partition(line)
        if found:
            return request.strip()
    return text


def world_section(text: str) -> str | None:
    """Return which section of its world a host describes in this user-role text, if it does."""
    start = text.lstrip()
    return next((section for literal, section in WORLD.items() if start.startswith(literal)), None)


def is_event(text: str) -> bool:
    """Whether a host reports an event in this user-role text."""
    return text.lstrip().startswith(EVENTS)


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
