"""Histories broken off anywhere are shown as a provider accepts them, and what is whole is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.histories import reasoning
from tests.parity.vocabulary import SPEECHES, Json, Speech
from tests.threads.agent import refusal

from threadkeep.dialects import find_dialect
from threadkeep.items import decode_json
from threadkeep.threads.window import close_open_calls

STEPS = ("said", "think", "call", "output", "late output", "answer")


def history(speech: Speech, steps: list[str]) -> list[Json]:
    """Return what a host might have recorded: calls and thoughts left behind at any point, outputs in time, late or never."""
    items = [speech.said("Begin.")]
    waiting: list[str] = []
    speaks = is_late = False
    for number, step in enumerate(steps):
        if step == "said":
            items.append(speech.said(f"words {number}"))
            speaks, is_late = False, True
        elif step == "think" and speech.dialect == "responses":
            items.append(reasoning(f"r{number}"))
        elif step == "call" and not speaks:
            waiting.append(f"c{number}")
            items.append(speech.call(f"c{number}"))
            is_late = len(waiting) > 1
            speaks = speech.dialect != "responses"
        elif step in ("output", "late output") and waiting:
            items.append(speech.output(waiting.pop(-1 if step == "output" else 0)))
            # A late one goes back to its call, and leaves what it came after beside what follows it.
            speaks = speaks and is_late
        elif step == "answer" and not speaks:
            items.append(speech.answered(f"answer {number}"))
            is_late = True
            speaks = speech.dialect != "responses"
    return items


@given(speech=st.sampled_from(SPEECHES), steps=st.lists(st.sampled_from(STEPS), max_size=25))
def test_whatever_was_left_behind_is_accepted_and_stays_as_it_was_shown(speech: Speech, steps: list[str]) -> None:
    """Nothing a person or the model said is lost, and showing it again changes nothing."""
    dialect = find_dialect(speech.dialect)
    items = [dialect.parse(item) for item in history(speech, steps)]
    shown = close_open_calls(items, dialect=dialect, under_way=False)
    window = [decode_json(item.raw) for item in dialect.arrange(shown)]
    assert refusal(speech.dialect, window) is None, window
    assert close_open_calls(shown, dialect=dialect, under_way=False) == shown
    kept = [item for item in items if b"reasoning" not in item.raw]
    assert [item for item in shown if b"words" in item.raw] == [item for item in kept if b"words" in item.raw]
    assert {item.raw for item in kept} <= {item.raw for item in shown}


@pytest.mark.parametrize(
    ("called", "closing"),
    [
        ({"type": "custom_tool_call", "call_id": "c"}, {"type": "custom_tool_call_output", "call_id": "c", "output": "aborted"}),
        ({"type": "local_shell_call", "id": "c"}, {"type": "local_shell_call_output", "id": "c", "output": "aborted"}),
        (
            {"type": "tool_search_call", "call_id": "c"},
            {"type": "tool_search_output", "call_id": "c", "status": "completed", "execution": "client", "tools": []},
        ),
        (
            {"type": "apply_patch_call", "call_id": "c"},
            {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "aborted"},
        ),
        (
            {"type": "mcp_approval_request", "id": "c"},
            {"type": "mcp_approval_response", "approval_request_id": "c", "approve": False},
        ),
    ],
)
def test_each_sort_of_call_is_closed_in_its_own_form(called: Json, closing: Json) -> None:
    """What closes it is what its own tool would have sent."""
    dialect = find_dialect("responses")
    [shown] = close_open_calls([dialect.parse(called)], dialect=dialect, under_way=False)[1:]
    assert decode_json(shown.raw) == closing
    assert close_open_calls([dialect.parse(called), shown], dialect=dialect, under_way=False) == [dialect.parse(called), shown]


def test_a_tool_of_the_providers_own_is_not_closed_for_it() -> None:
    """Its result comes from the provider, in its next message."""
    dialect = find_dialect("messages")
    call = {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]}
    assert close_open_calls([dialect.parse(call)], dialect=dialect, under_way=False) == [dialect.parse(call)]
