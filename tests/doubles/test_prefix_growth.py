"""The check of promise 8: a run whose prefix only grows passes, and every other is named."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from tests.doubles.prefix_growth import prefix_faults, watching
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, say

GO, DONE, ON = ({"role": role, "content": text} for role, text in (("user", "go"), ("assistant", "done"), ("user", "on")))
STATE = {"role": "user", "content": "It was compacted.\n<session_compact_state>\nObjective:\n- go\n</session_compact_state>"}
OTHER_STATE = {
    "role": "user",
    "content": "It was compacted.\n<session_compact_state>\nObjective:\n- on\n</session_compact_state>",
}


def asked(*messages: dict[str, Any], field: str = "messages") -> Received:
    body = {field: list(messages)}
    raw = json.dumps(body).encode()
    return Received(method="POST", path="/v1/messages", headers={}, authorised=True, raw=raw, body=body)


def test_growth_forks_and_new_conversations_pass() -> None:
    """Each request begins with all of an earlier one, or begins a conversation of its own."""
    elsewhere = {"role": "user", "content": "elsewhere"}
    assert prefix_faults([asked(GO), asked(GO, DONE, ON), asked(GO, DONE, elsewhere), asked(elsewhere)]) == []


def test_what_clients_change_at_will_is_no_move() -> None:
    """Ids, markers, a string for one text and an absent kind do not count."""
    marked = {"role": "user", "content": [{"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}]}
    named = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": "done"}
    assert prefix_faults([asked(marked), asked(GO, named, ON)]) == []


def test_a_checkpoint_moves_the_prefix_once() -> None:
    """The first request with a state may depart; from then on the prefix grows again."""
    run = [asked(GO), asked(GO, DONE, ON), asked(STATE, ON), asked(STATE, ON, DONE, GO), asked(OTHER_STATE, GO)]
    assert prefix_faults(run) == []


def test_two_checkpoints_may_have_the_same_state() -> None:
    """Where only tools worked in between the state says nothing new; the request is then smaller by a tenth or more."""
    long = DONE | {"content": "done " * 100}
    run = [asked(GO), asked(STATE, ON, long, ON, long, ON), asked(STATE, ON, DONE)]
    assert prefix_faults(run) == []
    assert len(prefix_faults([*run, asked(STATE, ON, ON)])) == 1


def test_a_second_move_under_one_checkpoint_is_named() -> None:
    """The same state before another history is a move that no checkpoint accounts for."""
    run = [asked(GO, DONE, ON), asked(STATE, ON), asked(STATE, GO, DONE, ON)]
    departure = 'it leaves the nearest after 1 items, at {"content": [{"text": "go"}], "role": "user"}'
    assert prefix_faults(run[1:]) == [f"request 2 of 4 items extends none before it: {departure}"]


def test_a_history_that_changed_behind_an_answer_is_named() -> None:
    """An edited old message without a checkpoint is a move."""
    run = [asked(GO), asked(GO | {"content": "gone"}, DONE, ON)]
    assert len(prefix_faults(run)) == 1


def test_a_state_whose_bytes_changed_counts_as_another_checkpoint() -> None:
    """What threadkeep wrote is compared to the byte: two spellings are two checkpoints, and each must be extended."""
    run = [asked(STATE, ON), asked(OTHER_STATE, ON, DONE, GO), asked(STATE, GO, DONE, ON)]
    assert len(prefix_faults(run)) == 1


@pytest.mark.anyio
async def test_every_run_that_begins_while_someone_watches_is_seen() -> None:
    """A watcher is shown the runs of its own time, with all they came to hold, and no others."""
    async with ScriptedProvider([]):
        with watching() as outer:
            with watching() as inner:
                async with ScriptedProvider([say("one")]) as provider, aiohttp.ClientSession() as session:
                    await session.post(f"{provider.url}/responses", json={"input": "go"})
            async with ScriptedProvider([]):
                pass
    assert (inner, outer) == ([provider.requests], [provider.requests, []])
    assert len(inner[0]) == 1
