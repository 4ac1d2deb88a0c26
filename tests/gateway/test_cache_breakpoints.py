"""Rule 20 for GPT-5.6 and later: the ends of head and checkpoint are marked for the cache, where that is switched on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.client import HISTORY, Client, person, talk

from threadkeep.gateway.conversation.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.doubles.wires import WireName

    from threadkeep import Threadkeep

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("wire", ["responses", "chat"])]

LONG = "The build log follows for reference. " * 60
FIELD = "prompt_cache_breakpoint"
MARK = {"mode": "explicit"}


async def compacted(tk: Threadkeep, wire: WireName, *, model: str = "gpt-5.6-sol", on: bool = True) -> Client:
    """Return a conversation that was compacted, with instructions in its head in both dialects."""
    client = talk(tk, wire, rules=Rules(sets_breakpoints=on))
    client.fields = {"model": model}
    if wire == "responses":
        client.history = [{"type": "message", "role": "developer", "content": "Mind the port."}]
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    return client


def marked(body: Mapping[str, Any], wire: WireName) -> list[int]:
    """Return which items of a request's history carry a mark, and check that each carries one, as the provider takes it.

    Where a client's message follows a checkpoint in the same message, the mark stands between the two.
    """
    items = body[HISTORY[wire]]
    found = [at for at, item in enumerate(items) if FIELD in json.dumps(item)]
    marks = [[part[FIELD] for part in items[at]["content"] if FIELD in part] for at in found]
    assert marks == [[MARK]] * len(found)
    return found


async def test_the_ends_of_head_and_checkpoint_are_marked_once_there_is_one(tk: Threadkeep, wire: WireName) -> None:
    """Before a checkpoint the client's bytes pass untouched; after it both marks stay where they are while the history grows."""
    client = await compacted(tk, wire)
    assert [marked(request.body, wire) for request in client.provider.requests] == [[]] * 4
    await client.ask("Go on.")
    await client.ask("And on.")
    first, second = (marked(request.body, wire) for request in client.provider.requests[-2:])
    assert first == second
    assert (first[0], len(first)) == (0, 2)
    history = client.provider.requests[-1].body[HISTORY[wire]]
    last = next(part for part in history[first[1]]["content"] if FIELD in part)
    before = [*history[: first[1]], *history[first[1]]["content"][: history[first[1]]["content"].index(last) + 1]]
    assert "session_compact_state" in json.dumps(before)


@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-5", "gpt-4.1", "o5", "local"])
async def test_models_that_know_no_marks_get_none(tk: Threadkeep, wire: WireName, model: str) -> None:
    """Earlier models, and those of others."""
    client = await compacted(tk, wire, model=model)
    await client.ask("Go on.")
    assert marked(client.provider.requests[-1].body, wire) == []


async def test_none_is_set_where_it_is_not_wanted_or_would_be_refused(tk: Threadkeep, wire: WireName) -> None:
    """Off by default; not with a subscription, whose endpoint refuses them; not beside a client's own."""
    off = await compacted(tk, wire, on=False)
    await off.ask("Go on.")
    assert marked(off.provider.requests[-1].body, wire) == []
    account = off.forked(headers={"chatgpt-account-id": "a"})
    account.conversations = talk(tk, wire, rules=Rules(sets_breakpoints=True)).conversations
    await account.ask("Go on.")
    assert marked(account.provider.requests[-1].body, wire) == []
    own = off.forked()
    own.conversations = account.conversations
    own.history.append(person(wire, "Mine."))
    own.history[-1]["content"][-1]["prompt_cache_breakpoint"] = MARK
    await own.ask("Go on.")
    assert own.provider.requests[-1].raw.count(b"prompt_cache_breakpoint") == 1
