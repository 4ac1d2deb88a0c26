"""A compaction in which something breaks that nobody foresaw: it is told of, and costs no request."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.client import Client, person, records, talk

from threadkeep.compaction.telemetry import CompactionObserver
from threadkeep.gateway.conversation.proxy_interface import Answered, Forward
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.store import RecordKind

if TYPE_CHECKING:
    from threadkeep import Threadkeep
    from threadkeep.compaction.telemetry import CompactionAttempt

pytestmark = pytest.mark.anyio

LONG = "The build log follows for reference. " * 60
SAID = "what Ada said in confidence"


class Breaks(CompactionObserver):
    """An observer of a host's own, and a bug in it."""

    def started(self, attempt: CompactionAttempt) -> None:
        raise ValueError(SAID)


@pytest.fixture
async def broken(tk: Threadkeep) -> Threadkeep:
    """A store in which every compaction breaks."""
    return await tk.for_tenant("default", observer=Breaks())


def filled(tk: Threadkeep, mode: Any, *, turns: int) -> Client:
    client = talk(tk, "responses", rules=Rules(auto_compact=mode))
    for turn in range(turns):
        client.history += [person("responses", f"{turn} {LONG}"), {"role": "assistant", "content": "a"}]
    client.history.append(person("responses", "Go on."))
    return client


async def notes(tk: Threadkeep) -> list[dict[str, Any]]:
    return [json.loads(record.body) for each in await records(tk) for record in each if record.kind is RecordKind.NOTE]


async def test_in_the_background_it_is_logged_and_noted_in_the_thread(
    broken: Threadkeep, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says which kind of error it was and where it was raised; neither says what it said."""
    client = filled(broken, "background", turns=6)
    decided = await client.open()
    await client.conversations.wait_idle()
    assert isinstance(decided, Forward)
    assert decided.body == client.body()
    [note] = await notes(broken)
    assert (note["event"], note["code"]) == ("compaction_failed", "compaction_error")
    assert "ValueError" in note["reason"]
    assert "broke: ValueError" in caplog.text
    assert "in started" in caplog.text
    assert SAID not in caplog.text + json.dumps(note)


async def test_before_a_request_it_is_logged_and_the_request_goes_out(
    broken: Threadkeep, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise 6: with the window there is, and recorded as ever."""
    client = filled(broken, "on", turns=12)
    decided = await client.open()
    assert isinstance(decided, Forward)
    assert decided.body == client.body()
    assert "in started" in caplog.text
    assert SAID not in caplog.text
    [recorded] = await records(broken)
    assert sum(record.kind is RecordKind.ITEM for record in recorded) == len(client.history)


async def test_after_an_overflow_the_providers_refusal_is_relayed(broken: Threadkeep) -> None:
    """Nothing smaller can be had, and the client hears why it was refused."""
    client = filled(broken, "on", turns=2)
    decided = await client.open()
    assert isinstance(decided, Forward)
    assert decided.overflowed is not None
    assert await decided.overflowed() is None


async def test_who_asks_for_a_compaction_is_told(broken: Threadkeep, caplog: pytest.LogCaptureFixture) -> None:
    """With the kind of error, and no word of what it said."""
    client = filled(broken, "off", turns=2)
    client.history[-1] = person("responses", "/compact")
    with caplog.at_level(logging.ERROR):
        decided = await client.open()
    assert isinstance(decided, Answered)
    assert "ValueError" in decided.text
    assert SAID not in decided.text + caplog.text
