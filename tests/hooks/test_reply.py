"""How the output of a command that ended well is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.hooks import HookEvent, HookReply
from threadkeep.hooks.reply import Fault, parse_output

COMPACT = [HookEvent.PRE_COMPACT, HookEvent.POST_COMPACT]


@pytest.mark.parametrize("event", HookEvent)
@pytest.mark.parametrize(
    ("stdout", "reply"),
    [
        ("", HookReply()),
        (" \n", HookReply()),
        ("{}", HookReply()),
        ('{"continue": true}', HookReply()),
        ('{"continue": false}', HookReply(stop=True)),
        ('\n {"continue": false, "stopReason": "tests run"}\n', HookReply(stop=True, reason="tests run")),
        ('{"stopReason": "unused"}', HookReply(reason="unused")),
        ('{"systemMessage": "low on disk", "suppressOutput": true}', HookReply(warning="low on disk", quiet=True)),
        ('{"systemMessage": null, "stopReason": null}', HookReply()),
        ('\ufeff{"continue": false}', HookReply(stop=True)),
    ],
)
def test_every_event_knows_the_same_four_keys(event: HookEvent, stdout: str, reply: HookReply) -> None:
    """continue, stopReason, systemMessage, suppressOutput."""
    assert parse_output(stdout, event=event) == reply


@pytest.mark.parametrize("event", HookEvent)
@pytest.mark.parametrize(
    "stdout",
    [
        '{"decision": "block", "reason": "not now"}',
        '{"continue": false, "decision": "block"}',
        '{"continue": "no"}',
        '{"continue": null}',
        '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "x"}}',
        '{"continue": false',
        "[]",
        "[1, 2",
        "{} {}",
    ],
)
def test_json_that_is_no_answer_is_a_fault(event: HookEvent, stdout: str) -> None:
    """An unknown key spoils the whole answer, a stop beside it included: half an answer is not acted on."""
    assert isinstance(parse_output(stdout, event=event), Fault)


@pytest.mark.parametrize("event", COMPACT)
def test_around_a_compaction_plain_text_is_no_answer_and_context_cannot_be_added(event: HookEvent) -> None:
    """Text is for whoever reads the output; context belongs to a start."""
    added = '{"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "x"}}'
    assert parse_output("saved 3 notes", event=event) == HookReply()
    assert isinstance(parse_output(added, event=event), Fault)


@pytest.mark.parametrize(
    ("stdout", "reply"),
    [
        ("Read NOTES.md first.\n", HookReply(context="Read NOTES.md first.")),
        (
            '{"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "Port 4621."}}',
            HookReply(context="Port 4621."),
        ),
        ('{"hookSpecificOutput": {"hookEventName": "SessionStart"}}', HookReply()),
        ('{"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": " "}}', HookReply()),
        (
            '{"continue": false, "stopReason": "wait", '
            '"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "kept"}}',
            HookReply(stop=True, reason="wait", context="kept"),
        ),
    ],
)
def test_at_a_start_text_and_json_can_add_context(stdout: str, reply: HookReply) -> None:
    """Plain text is context as it stands."""
    assert parse_output(stdout, event=HookEvent.SESSION_START) == reply


def test_what_was_cut_off_is_read_only_where_nothing_depends_on_it() -> None:
    """The beginning of an answer is no answer; the beginning of chatter is chatter."""
    assert parse_output("building…", event=HookEvent.PRE_COMPACT, cut=True) == HookReply()
    assert isinstance(parse_output('{"continue": false}', event=HookEvent.PRE_COMPACT, cut=True), Fault)
    assert isinstance(parse_output("building…", event=HookEvent.SESSION_START, cut=True), Fault)


@given(stdout=st.text() | st.text().map(lambda text: "{" + text), event=st.sampled_from(HookEvent))
def test_any_output_is_an_answer_or_a_fault(stdout: str, event: HookEvent) -> None:
    """Nothing a command prints is raised, and nothing but an explicit word stops anything."""
    reply = parse_output(stdout, event=event)
    assert isinstance(reply, Fault) or not reply.stop or '"continue"' in stdout
