"""What a provider counts behind its own compaction teaches nothing about our estimates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.doubles.provider_rules import ProviderRules
from tests.gateway.client import Client, answer, person, records, talk, threads
from tests.gateway.test_inline_compaction import OFFERED, SEALED, compacted

from threadkeep.dialects import find_dialect
from threadkeep.gateway.conversation.proxy_interface import Forward
from threadkeep.store import RecordKind

if TYPE_CHECKING:
    from tests.doubles.wires import WireName

    from threadkeep import Threadkeep

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
LONG = "The build is slow and the tests are slower, so look at every file of it. " * 12


async def asked(client: Client, text: str, items: list[Json], *, counted: int | None) -> None:
    """Say something, and have the provider answer with these items and count so many tokens for what it read."""
    client.history.append(person(client.wire, text))
    decision = await client.open()
    assert isinstance(decision, Forward)
    usage: Json = {"output_tokens": 5} if counted is None else {"input_tokens": counted, "output_tokens": 5}
    whole: Json = {"id": "resp_1", "status": "completed", "output": items, "usage": usage}
    if client.wire == "messages":
        whole = {"id": "msg_1", "type": "message", "stop_reason": "end_turn", "usage": usage, **items[0]}
    await decision.finished(find_dialect(client.wire).wire.read_reply(json.dumps(whole).encode()))
    client.history.extend(items)


async def figures(tk: Threadkeep) -> list[tuple[bool, int | None]]:
    """Return of each answer whether an estimate stands beside its count, and the count."""
    bodies = [json.loads(each.body) for each in (await records(tk))[-1] if each.kind is RecordKind.REPLY]
    return [(body["estimated_tokens"] > 0, body.get("input_tokens")) for body in bodies]


async def status(client: Client) -> str:
    await client.ask("tk status")
    return client.answers[-1].splitlines()[1]


def begun(tk: Threadkeep, wire: WireName) -> Client:
    client = talk(tk, wire)
    client.provider.rules = ProviderRules(issued=[SEALED])
    return client


@pytest.mark.parametrize("wire", OFFERED)
async def test_from_its_compaction_on_counts_stand_beside_no_estimate(tk: Threadkeep, wire: WireName) -> None:
    """Those of the answer it is in, and of every one behind it; they are kept all the same."""
    client = begun(tk, wire)
    await asked(client, f"One. {LONG}", [answer(wire, "ok")], counted=2_000)
    await asked(client, f"Two. {LONG}", compacted(wire, "rest"), counted=60)
    await asked(client, f"Three. {LONG}", [answer(wire, "ok")], counted=90)
    await asked(client, f"Four. {LONG}", [answer(wire, "ok")], counted=120)
    assert await figures(tk) == [(True, 2_000), (False, 60), (False, 90), (False, 120)]


@pytest.mark.parametrize("wire", OFFERED)
async def test_a_history_that_comes_with_such_a_compaction_is_behind_it(tk: Threadkeep, wire: WireName) -> None:
    """However long ago it was, and though nobody saw the answer it came in."""
    client = begun(tk, wire)
    client.history = compacted(wire, "rest")
    for turn in range(12):
        client.history += [person(wire, f"Step {turn}."), answer(wire, "ok")]
    await asked(client, "And now?", [answer(wire, "ok")], counted=50)
    assert await figures(tk) == [(False, 50)]


@pytest.mark.parametrize("wire", OFFERED)
async def test_a_compaction_of_ours_takes_it_out_and_counts_teach_again(tk: Threadkeep, wire: WireName) -> None:
    """The window begins anew with the state; a count that says all of it is beside its estimate."""
    client = begun(tk, wire)
    for turn in range(4):
        await asked(client, f"Step {turn}. {LONG}", [answer(wire, "ok")], counted=None)
    await asked(client, f"Now. {LONG}", compacted(wire, "rest"), counted=60)
    await asked(client, "And now?", [answer(wire, "ok")], counted=90)
    await client.ask("/compact")
    await asked(client, "Go on.", [answer(wire, "ok")], counted=700)
    assert (await figures(tk))[-3:] == [(False, 60), (False, 90), (True, 700)]


@pytest.mark.parametrize("wire", OFFERED)
async def test_the_window_seems_no_smaller_for_it(tk: Threadkeep, wire: WireName) -> None:
    """What goes out is the whole history: its size is what we estimate, in this process and in the next."""
    client = begun(tk, wire)
    await asked(client, f"One. {LONG}", [answer(wire, "ok")], counted=None)
    plain = talk(tk, wire).conversations
    await asked(client, f"Two. {LONG}", compacted(wire, "rest"), counted=60)
    told = await status(client)
    await asked(client, "And?", [answer(wire, "ok")], counted=90)
    later = await status(client)
    client.conversations = plain
    assert len(await threads(tk)) == 1
    sizes = [int(line.removeprefix("Window: ").split(" ")[0].replace(",", "")) for line in (told, later, await status(client))]
    assert min(sizes) > 2 * len(LONG) // 4
    assert sizes == sorted(sizes)
