"""Pins and notes through the control API: the same keys as the command line, the same doors as every other change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.gateway.test_control import KEY, call, steered, tk

if TYPE_CHECKING:
    from tests.gateway.conftest import Proxy

__all__ = ["steered", "tk"]

NOTE = "Ask Ruth before you release."
NOTED = {"id": "1", "text": NOTE, "sources": ["ship-it#37"], "pinned": False, "speaker": "user"}


@pytest.mark.anyio
async def test_a_note_is_written_pinned_and_let_go(steered: Proxy) -> None:
    """Each answer has the record it made and the entries it is about; the state has it at once."""
    status, noted = await call(steered, "POST", "threads/ship/note", {"text": NOTE})
    assert (status, noted) == (200, {"thread": "ship-it", "record": 37, "entries": [NOTED]})
    _, pinned = await call(steered, "POST", "threads/ship-it/pin", {"entry": "1"})
    assert pinned == {"thread": "ship-it", "record": 38, "entries": [{**NOTED, "pinned": True}]}
    _, state = await call(steered, "GET", "threads/ship-it/state")
    assert state["sections"]["active"] == [{**NOTED, "pinned": True}]
    _, free = await call(steered, "POST", "threads/ship-it/unpin", {"entry": "1"})
    assert free == {"thread": "ship-it", "record": 39, "entries": [NOTED]}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("pin", {}, 400, "missing required field `entry`"),
        ("pin", {"entry": 3}, 400, "Expected `str`, got `int`"),
        ("pin", {"entry": "3", "all": True}, 400, "unknown field `all`"),
        ("pin", {"entry": "3"}, 404, "has no entry '3'"),
        ("note", {"text": ""}, 400, "a note needs words"),
        ("note", {"text": "x", "pinned": "yes"}, 400, "Expected `bool`"),
        ("note", ["x"], 400, "Expected `object`, got `array`"),
    ],
)
async def test_bad_requests_get_clear_errors(steered: Proxy, path: str, body: object, status: int, says: str) -> None:
    """What is wrong is named, and nothing is recorded."""
    _, before = await call(steered, "GET", "threads")
    answered, refused = await call(steered, "POST", f"threads/ship-it/{path}", body)
    assert (answered, says in refused["error"]["message"]) == (status, True), refused
    assert await call(steered, "GET", "threads") == (200, before)


@pytest.mark.anyio
@pytest.mark.parametrize("what", ["pin", "unpin", "note"])
async def test_remarks_are_asked_for_with_post_by_who_may(steered: Proxy, what: str) -> None:
    """No other method, no other token, and no other tenant's key."""
    assert (await call(steered, "GET", f"threads/ship-it/{what}"))[0] == 405
    wrong = {"Authorization": "Bearer wrong"}
    assert (await call(steered, "POST", f"threads/ship-it/{what}", {"entry": "1", "text": "x"}, **wrong))[0] == 401
    other = {"Authorization": f"Bearer {KEY}"}
    assert (await call(steered, "POST", f"threads/ship-it/{what}", {"entry": "1"}, **other))[0] in (400, 404)
