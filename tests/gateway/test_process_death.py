"""A gateway that dies anywhere between a request and its answer: the client asks again, and nothing is there twice or half."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.doubles.script import say
from tests.gateway.client import WIRES, Client, talk, text_of, threads
from tests.memory.crash_process import Dying, PowerCut

if TYPE_CHECKING:
    from tests.doubles.wires import WireName

    from threadkeep import Threadkeep

pytestmark = pytest.mark.anyio


def on(store: Dying, tk: Threadkeep) -> Threadkeep:
    """Return the same open store behind another one."""
    other = copy(tk)
    other._backend = replace(tk.backend, store=store)
    return other


async def writes_of(client: Client, tk: Threadkeep, text: str) -> int:
    """Return how often the store is written to while something is asked, by an undisturbed gateway."""
    counting = Dying(tk.backend.store, at=0, after=False)
    client.conversations = talk(on(counting, tk), client.wire).conversations
    await client.ask(text)
    return len(counting.calls)


async def dies_asking(client: Client, tk: Threadkeep, text: str, *, at: int, after: bool) -> None:
    """Ask a gateway that dies at its nth write, then another one again, as a client does."""
    client.conversations = talk(on(Dying(tk.backend.store, at=at, after=after), tk), client.wire).conversations
    with pytest.raises(PowerCut):
        await client.ask(text)
    client.conversations = talk(tk, client.wire).conversations
    await client.send(say(f"done: {text[:20]}"))


@pytest.mark.parametrize("wire", WIRES)
async def test_a_first_request_that_is_asked_again_is_one_thread(tk: Threadkeep, wire: WireName) -> None:
    """Dead right before or after any of its writes, a gateway leaves no thread without the words that began it."""
    whole = await tk.for_tenant("undisturbed")
    writes = await writes_of(talk(whole, wire), whole, "Begin.")
    for at in range(1, writes + 1):
        for after in (False, True):
            tenant = await tk.for_tenant(f"dies-{at}-{after}")
            await dies_asking(talk(tenant, wire), tenant, "Begin.", at=at, after=after)
            kept = [text_of(list(await thread.window())) for thread in await threads(tenant)]
            assert [text.count('"Begin."') for text in kept] == [1]
            assert (await tenant.verify()).problems == ()


@pytest.mark.parametrize("wire", WIRES)
async def test_a_fork_that_is_asked_for_again_is_one_fork(tk: Threadkeep, wire: WireName) -> None:
    """A history that leaves a known one there, and whose gateway dies, is a thread and one fork of it."""
    whole = await tk.for_tenant("undisturbed")
    first = talk(whole, wire)
    await first.ask("Begin.")
    await first.ask("This way.")
    writes = await writes_of(first.forked(length=2), whole, "That way.")
    assert len(await threads(whole)) == 2
    for at in range(1, writes + 1):
        for after in (False, True):
            tenant = await tk.for_tenant(f"dies-{at}-{after}")
            client = talk(tenant, wire)
            await client.ask("Begin.")
            await client.ask("This way.")
            await dies_asking(client.forked(length=2), tenant, "That way.", at=at, after=after)
            kept = [text_of(list(await thread.window())) for thread in await threads(tenant)]
            ways = sorted((text.count('"This way."'), text.count('"That way."')) for text in kept)
            assert ways == [(0, 1), (1, 0)]
            assert (await tenant.verify()).problems == ()
