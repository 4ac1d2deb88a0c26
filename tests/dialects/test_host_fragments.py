"""Whose words a message in the user's role holds: the same in every dialect, since any host may speak any of them."""

from __future__ import annotations

import pytest
from tests.dialects.samples import SAMPLES

from threadkeep.items import View
from threadkeep.testing.dialect_checks import DialectSamples

WORLD = "<environment_context>\n  <cwd>/src</cwd>\n</environment_context>"
REMINDER = "<system-reminder>\n# Environment\ncwd: /src\n</system-reminder>"

pytestmark = pytest.mark.parametrize("samples", SAMPLES, ids=[samples.dialect.name for samples in SAMPLES])


def seen(samples: DialectSamples, text: str) -> View:
    return samples.dialect.view(samples.dialect.parse(samples.person(text)))


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context> is sent twice; find out why.",
        "<system-reminder>x</system-reminder> Never push.",
        "Why does <system-reminder>this</system-reminder> appear?",
        "# AGENTS.md instructions are wrong about tabs: use spaces.",
        "This session is being continued tomorrow. Never push before.",
        "[Request interrupted by user] is shown twice; find out why.",
        "The earlier part of this session was compacted. Never do that again.",
        "<session_compact_state>\nuse tabs\n</session_compact_state>",
        "<hook_prompt never closed",
        "  leading and trailing spaces stay  ",
    ],
)
def test_a_sentence_about_a_fragment_is_the_persons(samples: DialectSamples, text: str) -> None:
    """To the last space."""
    view = seen(samples, text)
    assert (view.by_person, view.said, view.context) == (True, text, None)


@pytest.mark.parametrize(
    ("text", "section"),
    [
        (WORLD, "environment"),
        (REMINDER, "environment"),
        (f"{WORLD}\n{REMINDER}\n<skill>b</skill>", "environment"),
        ('<hook_prompt id="1">check</hook_prompt>', None),
        ("<bash-stdout>a.txt</bash-stdout><bash-stderr></bash-stderr>", None),
        ("# AGENTS.md instructions for /src\n\n<INSTRUCTIONS>\nUse tabs.\n</INSTRUCTIONS>", "agents_md"),
        ("This session is being continued from a previous conversation. So far: …", "client_summary"),
        ("[Request interrupted by user]", None),
        ("What did we do so far?", None),
        (
            "The conversation history before this point was compacted into the following summary:\n\n<summary>\n"
            "<summary>Done: all.</summary>\n\n---\n\n**Turn Context:**\n\n<summary>Half.</summary>\n</summary>",
            "client_summary",
        ),
    ],
)
def test_what_only_a_host_says_is_nobodys(samples: DialectSamples, text: str, section: str | None) -> None:
    """A message of whole fragments is context, or an event, and never a request."""
    view = seen(samples, text)
    assert (view.by_person, view.said, view.context) == (False, "", section)


@pytest.mark.parametrize(
    "text",
    [
        f"{WORLD}\nUse tabs.",
        f"Use tabs.\n\n{WORLD}",
        f"{REMINDER}\n{WORLD}\r\n\r\nUse tabs.\n{REMINDER}",
        f"# Context from my IDE setup:\n\n- a.py\n\n## My request for Codex:\nUse tabs.\n\n{WORLD}",
        f"{WORLD}\n<command-name>/fix</command-name>\n<command-args>Use tabs.</command-args>",
        f"{WORLD}\n<system-reminder>\nThe user sent the following message:\nUse tabs.\n\n"
        "Please address this message and continue with your tasks.\n</system-reminder>",
    ],
)
def test_words_beside_a_fragment_are_heard(samples: DialectSamples, text: str) -> None:
    """Before, behind, between or within what a host says; and what it says is pinned unless it is said in passing."""
    view = seen(samples, text)
    assert (view.by_person, view.said, view.context) == (True, "Use tabs.", "environment")


@pytest.mark.parametrize(
    "text",
    [
        "<system-reminder>\n<command-name x\n" * 50_000,
        "<skill>\n" * 100_000 + "</skill> x",
        "<skill>x</skill> y\n" * 50_000,
        "# AGENTS.md instructions\n" * 100_000,
    ],
)
def test_openings_without_end_take_linear_time(samples: DialectSamples, text: str) -> None:
    """Each closing is looked for once, and whoever wrote this keeps every word."""
    assert seen(samples, text).said == text
