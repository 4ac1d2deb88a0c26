"""A client that still holds what was erased: its provider gets something that says so instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.doubles.prefix_growth import prefix_faults
from tests.doubles.script import call, say
from tests.gateway.client import WIRES, Client, outputs_of, person, talk, text_of, threads

from threadkeep.erasure.erase import erase, plan_erasure
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.store import RecordKind

if TYPE_CHECKING:
    from tests.doubles.wires import WireName

    from threadkeep import Threadkeep

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("wire", WIRES),
    pytest.mark.moves_prefix(reason="what is erased leaves the prefix, once"),
]

SECRET = "kadarkuti"
LONG = "The build is slow and the tests are slower, so look at every file of it. " * 12
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 2000}}


async def erased(tk: Threadkeep, word: str) -> None:
    """Erase every item of the first thread in which a word stands."""

    async def recompact(thread_id: str) -> object:
        return await (await tk.find(thread_id)).compact(strategy="extractive")

    thread = (await threads(tk))[0]
    held = [each for each in await thread.records() if each.kind is RecordKind.ITEM and word.encode() in each.body]
    plan = await plan_erasure(tk.backend, thread.id, [record.ordinal for record in held])
    await erase(tk.backend, plan, reason="asked to", memories=tk.memory, recompact=recompact)


async def talked(client: Client) -> None:
    """Say the secret in a person's message, in a call and its output, and in an answer."""
    await client.ask("Begin.")
    await client.ask(f"I am {SECRET}.", call("bash", {"command": f"grep {SECRET}"}, call_id="c1"))
    await client.tool({"c1": f"the name is {SECRET}"}, say(f"Seen: {SECRET}."))
    await client.ask("Go on.", call("bash", {"command": "ls"}, call_id="c2"))
    await client.tool({"c2": "README"}, say("There is one file."))


async def test_what_was_erased_no_longer_goes_out(tk: Threadkeep, wire: WireName) -> None:
    """The provider, which refuses half a call, gets the same turns in the same order, and what was not erased as it was."""
    client = talk(tk, wire)
    await talked(client)
    before = list(client.history)
    await erased(tk, SECRET)
    await client.ask("And now?")
    sent = client.provider.last
    assert SECRET not in text_of(sent)
    said = [item for item in sent if item.get("role") != "system"]
    assert len(said) == len(before) + 1
    kept = {at for at, item in enumerate(before) if SECRET not in text_of([item])}
    assert [said[at] for at in sorted(kept)] == [before[at] for at in sorted(kept)]
    assert said[2:4] in (
        [person(wire, "(erased)"), _blank_call(wire)],
        [{**person(wire, "(erased)"), "type": "message"}, _blank_call(wire)],
        [{"role": "user", "content": "(erased)"}, _blank_call(wire)],
    )
    assert said[4] == outputs_of(wire, {"c1": "(erased)"})[0]


async def test_from_then_on_the_prefix_only_grows_also_after_a_restart(tk: Threadkeep, wire: WireName) -> None:
    """What stands in its place is the same bytes in every later request, whichever gateway sends it."""
    client = talk(tk, wire)
    await talked(client)
    await erased(tk, SECRET)
    asked = len(client.provider.requests)
    await client.ask("And now?")
    await client.ask("And then?", call("bash", {"command": "ls"}, call_id="c3"))
    client.conversations = talk(tk, wire).conversations
    await client.tool({"c3": "README"}, say("Fine."))
    later = client.provider.requests[asked:]
    assert prefix_faults(later[:1]) != []
    assert prefix_faults(later)[1:] == []
    assert len(later) == 3


async def test_what_was_erased_where_a_fork_began_does_not_go_out_of_the_fork(tk: Threadkeep, wire: WireName) -> None:
    """A gateway that knows both looks again, though nothing was written to the fork itself."""
    client = talk(tk, wire)
    await talked(client)
    fork = client.forked()
    await client.ask("One way.")
    await fork.ask("Another way.")
    await client.ask("And on, there.")
    await fork.ask("And on, here.")
    assert SECRET in text_of(fork.provider.last)
    thread = (await threads(tk))[0]
    assert thread.id == next(each.parent for each in await tk.threads() if each.parent is not None)
    await erased(tk, SECRET)
    await fork.ask("And on.")
    assert SECRET not in text_of(fork.provider.last)
    assert "Another way." in text_of(fork.provider.last)


async def test_what_a_checkpoint_keeps_goes_out_without_what_was_erased(tk: Threadkeep, wire: WireName) -> None:
    """The checkpoint is made anew, and nothing it keeps, nor what follows it, holds a word of it."""
    client = talk(tk, wire)
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask(f"Never say {SECRET}.", say("Never."))
    await client.ask("/compact")
    await client.ask(f"Was {SECRET} said?", say("Never."))
    await erased(tk, SECRET)
    await client.ask("And now?")
    assert SECRET not in text_of(client.provider.last)
    assert "session_compact_state" in text_of(client.provider.last)
    assert text_of(client.provider.last[-1:]).count("And now?") == 1


@pytest.mark.parametrize("thinking", ["strip", "drop_block"])
async def test_thinking_that_was_bound_to_it_is_not_sent_in_another_history(
    tk: Threadkeep, wire: WireName, thinking: str
) -> None:
    """In the middle of a tool loop and after it: the provider, which checks what thinking is bound to, accepts every request."""
    client = talk(tk, wire, rules=Rules(thinking="strip" if thinking == "strip" else "drop_block"))
    client.fields = dict(THINKING) if wire == "messages" else {}
    await client.ask(f"I am {SECRET}.", call("bash", {"command": "ls"}, call_id="c1"))
    await erased(tk, SECRET)
    await client.tool({"c1": "README"}, call("bash", {"command": "cat README"}, call_id="c2"))
    await client.tool({"c2": "anchored"}, say("It says: anchored."))
    await client.ask("And now?")
    assert all(SECRET not in text_of(request.history) for request in client.provider.requests[1:])


def _blank_call(wire: WireName) -> dict[str, object]:
    match wire:
        case "responses":
            return {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"}
        case "chat":
            called = {"name": "bash", "arguments": "{}"}
            return {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": called}]}
        case "messages":
            return {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "bash", "input": {}}]}
        case "gemini":
            used: dict[str, object] = {"id": "c1", "name": "bash", "args": {}}
            return {"role": "model", "parts": [{"functionCall": used, "thoughtSignature": "skip_thought_signature_validator"}]}
