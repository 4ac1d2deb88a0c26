"""Hosts that speak to their providers themselves hand over histories and get windows back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from threadkeep import Config, Threadkeep
from threadkeep.gateway.http.keys import Keys, digest_key
from threadkeep.gateway.serve import running_gateway

pytestmark = pytest.mark.anyio

TOKEN = "token-of-the-test"
KEY = "tkk_of_alice"
LONG = "The build log follows for reference. " * 120
Json = dict[str, Any]


class Host:
    """A host with a history of its own."""

    def __init__(self, session: ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self.items: list[Json] = []

    async def hand_over(self, *, token: str = TOKEN, **more: Any) -> tuple[int, Json]:
        body = {"dialect": "responses", "items": self.items, "session": "ses_1", **more}
        headers = {"authorization": f"Bearer {token}"} if token != KEY else {"x-threadkeep-key": KEY}
        async with self._session.post(f"{self._url}/threadkeep/v1/histories", json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    def say(self, text: str, answer: str = "done") -> None:
        number = len(self.items)
        self.items += [
            {"type": "message", "role": "user", "content": text, "id": f"msg_{number}"},
            {"type": "message", "role": "assistant", "content": answer, "id": f"msg_{number + 1}"},
        ]


@pytest.fixture
async def host(store_file: Path) -> AsyncIterator[Host]:
    keys = Keys({digest_key(KEY): "alice"})
    async with (
        Threadkeep(Config(store=str(store_file))) as tk,
        running_gateway(tk, upstream="http://127.0.0.1:9", control_token=TOKEN, keys=keys) as url,
        ClientSession() as session,
    ):
        yield Host(session, url.removesuffix("/v1"))


async def test_a_history_comes_back_as_it_is_until_it_is_compacted(host: Host) -> None:
    """Byte for byte, ids too; compacted, it is the state and what was kept, and every later window begins with it."""
    host.say("Build the tide service.")
    host.say("Never touch vendor/.")
    host.say(f"Look around. {LONG}")
    host.say("Fix the login.")
    status, before = await host.hand_over()
    assert (status, before["items"], before["checkpoint"], before["state"]) == (200, host.items, None, None)
    _, compacted = await host.hand_over(compact=True, focus="the login")
    assert compacted["compacted"]["tokens_after"] < compacted["compacted"]["tokens_before"]
    assert "Never touch vendor/." in compacted["state"]
    host.say("Go on.")
    _, after = await host.hand_over()
    assert after["items"][: len(compacted["items"])] == compacted["items"]
    assert (after["items"][-2:], after["thread"]) == (host.items[-2:], before["thread"])


async def test_a_command_at_its_end_is_answered_and_left_out_of_the_window(host: Host) -> None:
    """The host shows the answer to its user; the thread goes on when it is handed over with the next message."""
    host.say("Build the tide service.")
    said = list(host.items)
    host.items.append({"type": "message", "role": "user", "content": "tk note Ask Ruth."})
    _, noted = await host.hand_over()
    number = noted["answer"].removeprefix("Noted as #").split(".")[0]
    assert noted["answer"] == f"Noted as #{number}. It stands in the session state from the next compaction on."
    assert (noted["items"], noted["checkpoint"]) == (said, None)
    host.items.append({"type": "message", "role": "assistant", "content": noted["answer"]})
    host.say("Go on.")
    _, after = await host.hand_over()
    assert (after["answer"], after["thread"]) == (None, noted["thread"])
    assert after["items"] == [*said, *host.items[-2:]]


async def test_a_limit_compacts_when_it_is_reached_and_says_why_it_could_not(host: Host) -> None:
    """Below it nothing happens; above it the window shrinks; where there is nothing to gain, the history comes back whole."""
    host.say("Short.")
    _, below = await host.hand_over(limit_tokens=1_000)
    _, hopeless = await host.hand_over(limit_tokens=1)
    host.say(f"Never touch vendor/. {LONG}")
    host.say("Fix the login.")
    _, above = await host.hand_over(limit_tokens=1_000)
    assert (below["compacted"], below["trouble"], hopeless["items"]) == (None, None, host.items[:2])
    assert hopeless["trouble"]
    assert (above["checkpoint"] is not None, above["trouble"]) == (True, None)


async def test_a_fork_and_an_earlier_place_get_what_belongs_there(host: Host) -> None:
    """Before the compaction's place the history is whole; another end of a compacted one begins with the same state."""
    for number in range(3):
        host.say(f"Step {number}: {LONG}")
    _, compacted = await host.hand_over(compact=True)
    whole = list(host.items)
    host.items = whole[:2]
    _, early = await host.hand_over()
    host.items = [{**item, "id": f"other_{index}"} for index, item in enumerate(whole)]
    host.say("Elsewhere.")
    _, forked = await host.hand_over(session="ses_2")
    assert (early["items"], early["checkpoint"]) == (whole[:2], None)
    assert [item for item in forked["items"] if "id" not in item] == [item for item in compacted["items"] if "id" not in item]


async def test_a_history_the_host_rewrote_carries_the_state(host: Host) -> None:
    """A host that compacts by itself stays in its thread; what was demanded stands in front of its own summary."""
    host.say("Build the tide service.")
    host.say("Never touch vendor/.")
    host.say(f"Look around. {LONG}")
    host.say("Fix the login.")
    _, before = await host.hand_over(compact=True)
    host.items = []
    host.say("What did we do so far?", "We fixed the login.")
    host.say("Go on.")
    _, after = await host.hand_over()
    assert (after["items"][1:], after["thread"]) == (host.items[1:], before["thread"])
    told = str(after["items"][0])
    assert told.index("Never touch vendor/.") < told.index("What did we do so far?")
    assert "Never touch vendor/." in after["state"]


async def test_tenants_have_histories_of_their_own(host: Host) -> None:
    """The same history under a key is another tenant's; without key or token nothing is taken."""
    host.say("Never touch vendor/.")
    _, mine = await host.hand_over()
    _, hers = await host.hand_over(token=KEY)
    refused, _ = await host.hand_over(token="wrong")
    assert (mine["thread"] != hers["thread"], refused) == (True, 401)


@pytest.mark.parametrize(
    "more",
    [{"items": []}, {"items": [1]}, {"dialect": "morse"}, {"limit_tokens": 0}, {"unknown": 1}, {"items": "text"}],
    ids=["empty", "no items", "no dialect", "no limit", "no such field", "no list"],
)
async def test_what_is_no_history_is_refused(host: Host, more: Json) -> None:
    """With an error that has a code, and nothing recorded."""
    host.say("Hello.")
    status, answer = await host.hand_over(**more)
    assert (status, answer["error"]["code"]) == (400, "unknown_dialect" if "dialect" in more else "invalid_argument")


async def test_a_compaction_that_gains_nothing_is_an_error_where_it_was_asked_for(host: Host) -> None:
    """Its code says so; the history is recorded, and comes back whole the next time."""
    host.say("Hello.")
    status, answer = await host.hand_over(compact=True)
    assert (status, answer["error"]["code"]) == (422, "nothing_to_compact")
    assert (await host.hand_over())[1]["items"] == host.items
