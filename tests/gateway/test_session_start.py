"""SessionStart hooks through the gateway: run before a compacted window is first sent, told once, in nobody's history."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path

import pytest
from tests.doubles.script import call
from tests.doubles.wires import WireName
from tests.gateway.client import WIRES, Client, person, records, talk, text_of, threads

from threadkeep import Config, Threadkeep
from threadkeep.errors import CompactionStopped
from threadkeep.gateway.conversation.proxy_interface import HostWish, Incoming, Refused
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.hooks import Facts, FunctionHook, HookEvent, HookReply, Hooks, SessionFacts
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio

LONG = "The build is slow and the tests are slower, so look at every file of it. " * 12
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
STATE = "<session_compact_state>"
NOTE = "Notes: port 4621."
PRE, POST, START = HookEvent.PRE_COMPACT, HookEvent.POST_COMPACT, HookEvent.SESSION_START
AUTO = Rules(auto_compact="on")

Opening = Callable[[Hooks], AbstractAsyncContextManager[Threadkeep]]


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> WireName:
    found: WireName = request.param
    return found


@pytest.fixture
def opening(store_file: Path) -> Opening:
    """Opens the same store with other hooks each time."""

    @asynccontextmanager
    async def opened(hooks: Hooks) -> AsyncIterator[Threadkeep]:
        async with Threadkeep(Config(store=str(store_file), model_context_window=4_000), hooks=hooks) as tk:
            yield tk

    return opened


def noting(told: list[Facts], *, event: HookEvent = START, stop: bool = False, text: str | None = NOTE) -> Hooks:
    """Return a hook that writes down what it is told, and each time adds `text` and how often it did."""
    times = count(1)

    async def note(facts: Facts) -> HookReply:
        told.append(facts)
        context = f"{text} #{next(times)}" if event is START and text is not None else None
        return HookReply(context=context, stop=stop, reason="a person is asked" if stop else None)

    return Hooks().on(event, FunctionHook(function=note))


async def talked(client: Client, *, steps: int = 4) -> None:
    for step in range(steps):
        await client.ask(f"Step {step}. {LONG}")


def resumed(client: Client, tk: Threadkeep) -> Client:
    """Return the same conversation on a gateway that was started anew."""
    again = talk(tk, client.wire)
    again.history, again.provider = client.history, client.provider
    return again


def starts_in(client: Client) -> list[str]:
    """Return what hooks added to the newest request."""
    return text_of(client.provider.last).split("<session_start>")[1:]


async def test_what_hooks_add_stands_behind_the_state_in_every_request_of_the_window(opening: Opening, wire: WireName) -> None:
    """They run once a window, before it is first sent; the request stays last, and nothing in the history holds a word of it."""
    told: list[Facts] = []
    async with opening(noting(told)) as tk:
        client = talk(tk, wire)
        await talked(client)
        assert told == []
        await client.ask("/compact")
        assert told == []
        await client.ask("Go on with it.")
        await client.ask("And on.")
        assert [text[: len(f"{NOTE} #1")] for text in starts_in(client)] == [f"{NOTE} #1"]
        sent = text_of(client.provider.last)
        assert sent.index(STATE) < sent.index(NOTE) < sent.index("Go on with it.") < sent.index("And on.")
        (thread,) = await threads(tk)
        checkpoint = next(record for record in await thread.records() if record.kind is RecordKind.CHECKPOINT)
        model = client.provider.requests[-1].body.get("model", "gemini-3-pro")
        cwd = tk.backend.policy.cwd
        assert told == [SessionFacts(thread_id=thread.id, cwd=cwd, source="compact", model=model, checkpoint=checkpoint.ordinal)]
        holding = [record.kind for record in await thread.records() if NOTE.encode() in record.body]
        assert set(holding) == {RecordKind.CONTEXT}
        assert NOTE not in text_of(client.history)


async def test_the_next_compaction_begins_with_what_is_added_then(opening: Opening, wire: WireName) -> None:
    """One window, one telling: what was added to the last one is not carried along."""
    async with opening(noting([])) as tk:
        client = talk(tk, wire, rules=AUTO)
        await talked(client, steps=32)
        added = starts_in(client)
        assert len(added) == 1
        checkpoints = [record for record in (await records(tk))[0] if record.kind is RecordKind.CHECKPOINT]
        assert len(checkpoints) > 1
        assert added[0].startswith(f"{NOTE} #{len(checkpoints)}")


async def test_a_gateway_without_the_hook_goes_on_sending_what_was_added(opening: Opening, wire: WireName) -> None:
    """It is part of the window by now, and of what the provider has in its cache."""
    async with opening(noting([])) as tk:
        client = talk(tk, wire)
        await talked(client)
        await client.ask("/compact")
        await client.ask("Go on.")
    async with opening(Hooks()) as tk:
        again = resumed(client, tk)
        await again.ask("After it was started anew.")
        assert [text[: len(f"{NOTE} #1")] for text in starts_in(again)] == [f"{NOTE} #1"]


async def test_a_hook_that_came_later_leaves_a_window_that_was_sent_alone(opening: Opening, wire: WireName) -> None:
    """It runs after the next compaction."""
    told: list[Facts] = []
    async with opening(Hooks()) as tk:
        client = talk(tk, wire)
        await talked(client)
        await client.ask("/compact")
        await client.ask("Go on.")
    async with opening(noting(told)) as tk:
        again = resumed(client, tk)
        await again.ask("And on.")
        assert told == []
        await talked(again)
        await again.ask("/compact")
        await again.ask("To the end.")
        assert len(told) == 1


async def test_a_hook_that_adds_nothing_runs_once_all_the_same(opening: Opening, wire: WireName) -> None:
    """That it was run is recorded, not only what it said."""
    told: list[Facts] = []
    async with opening(noting(told, text=None)) as tk:
        client = talk(tk, wire)
        await talked(client)
        await client.ask("/compact")
        for request in ("Go on.", "And on."):
            await resumed(client, tk).ask(request)
        assert (len(told), starts_in(client)) == (1, [])


async def test_a_compaction_made_in_the_background_starts_anew_when_it_is_swapped_in(opening: Opening, wire: WireName) -> None:
    """Not when it is made: the requests until then are sent under the window before."""
    told: list[Facts] = []
    async with opening(noting(told)) as tk:
        client = talk(tk, wire, rules=Rules(auto_compact="background"))
        while not any(record.kind is RecordKind.CHECKPOINT for each in await records(tk) for record in each):
            await client.ask(f"Go on. {LONG}")
            await client.conversations.compactions.wait_idle()
        assert told == []
        await client.ask("And on.")
        assert (len(told), len(starts_in(client))) == (1, 1)


async def test_a_stop_ends_the_turn_with_an_error_that_no_client_retries(opening: Opening, wire: WireName) -> None:
    """What the person said is recorded, and the next request goes on with what the hook added."""
    told: list[Facts] = []
    async with opening(noting(told, stop=True)) as tk:
        client = talk(tk, wire)
        await talked(client)
        await client.ask("/compact")
        asked = client.forked()
        asked.history.append(person(wire, "Go on."))
        refused = await asked.open()
        (thread,) = await threads(tk)
        assert refused == Refused(
            status=422,
            code="compaction_stopped",
            message=f"a SessionStart hook stopped the turn of thread {thread.id!r}: a person is asked; the compaction is kept",
        )
        assert "Go on." in json.dumps(list(await thread.window()))
        await asked.ask("You may.")
        assert (len(told), len(starts_in(asked))) == (1, 1)


@pytest.mark.parametrize("event", [PRE, POST])
async def test_a_stop_around_a_compaction_that_must_be_now_ends_the_turn_too(
    opening: Opening, wire: WireName, event: HookEvent
) -> None:
    """As it does in a session; what was said is recorded, and only PostCompact keeps a checkpoint."""
    told: list[Facts] = []
    async with opening(noting(told, event=event, stop=True)) as tk:
        client = talk(tk, wire, rules=AUTO)
        while not told:
            client.history.append(person(wire, f"Go on. {LONG}"))
            decision = await client.open()
            if isinstance(decision, Refused):
                break
            client.history.pop()
            await client.ask(f"Go on. {LONG}")
        assert isinstance(decision, Refused)
        assert (decision.status, decision.code) == (422, "compaction_stopped")
        assert f"a {event} hook stopped the turn" in decision.message
        kinds = [record.kind for record in (await records(tk))[-1]]
        assert kinds.count(RecordKind.CHECKPOINT) == (1 if event is POST else 0)


async def test_of_requests_that_come_at_once_one_runs_the_hooks(opening: Opening, wire: WireName) -> None:
    """And all of them send the same."""
    told: list[Facts] = []
    async with opening(noting(told)) as tk:
        client = talk(tk, wire)
        await talked(client)
        await client.ask("/compact")
        asking = [client.forked() for _ in range(5)]
        await asyncio.gather(*(each.ask("Go on.") for each in asking))
        assert len(told) == 1
        assert {request.raw for request in client.provider.requests[-5:]} == {client.provider.requests[-1].raw}


async def test_gateways_that_share_a_store_send_what_was_recorded_first(opening: Opening, wire: WireName) -> None:
    """Each may run the hooks; what was told by one of them is what all of them tell."""
    told: list[Facts] = []
    hooks = noting(told)
    async with opening(hooks) as one, opening(hooks) as other:
        client = talk(one, wire)
        await talked(client)
        await client.ask("/compact")
        here, there = client.forked(), resumed(client.forked(), other)
        await asyncio.gather(here.ask("Go on."), there.ask("Go on."))
        await there.ask("And on.")
        assert len(told) in (1, 2)
        added = {text_of(request.history).partition("<session_start>")[2][:20] for request in client.provider.requests[-3:]}
        assert len(added) == 1


@pytest.mark.moves_prefix(reason="an undo brings the window before it back")
async def test_undone_the_window_before_is_told_what_it_was_told(opening: Opening, wire: WireName) -> None:
    """No hook runs for it once more."""
    told: list[Facts] = []
    async with opening(noting(told)) as tk:
        client = talk(tk, wire)
        for _ in range(2):
            await talked(client)
            await client.ask("/compact")
            await client.ask("Go on.")
        assert [text[: len(f"{NOTE} #2")] for text in starts_in(client)] == [f"{NOTE} #2"]
        await client.ask("tk undo")
        await client.ask("And on.")
        await client.ask("To the end.")
        assert (len(told), [text[: len(f"{NOTE} #1")] for text in starts_in(client)]) == (2, [f"{NOTE} #1"])


async def test_a_window_that_begins_in_a_tool_loop_starts_anew_there(opening: Opening) -> None:
    """Thinking holds no checkpoint up, and none of its hooks: each new window is told of once, when it is first sent."""
    told: list[Facts] = []
    async with opening(noting(told)) as tk:
        client = talk(tk, "messages", rules=Rules(auto_compact="background"))
        client.fields = THINKING
        await talked(client, steps=2)
        made = (call("bash", {"command": "make"}, call_id=f"c{at}", encrypted_reasoning=f"why {at}") for at in count())
        await client.ask(f"Run it. {LONG}", next(made))
        for at in range(30):
            await client.tool({f"c{at}": LONG}, next(made))
            await client.conversations.compactions.wait_idle()
        assert len(told) == len({facts.checkpoint for facts in told if isinstance(facts, SessionFacts)}) > 1
        assert len(starts_in(client)) == 1


async def test_what_is_redacted_before_writing_is_not_sent_either(store_file: Path) -> None:
    """What is sent is what is recorded, so that the next request can send the same."""
    config = Config(store=str(store_file), model_context_window=4_000)
    async with Threadkeep(config, hooks=noting([]), redact=lambda raw: raw.replace(b"4621", b"[port]")) as tk:
        client = talk(tk, "chat")
        await talked(client)
        await client.ask("/compact")
        await client.ask("Go on.")
        assert starts_in(client)[0].startswith("Notes: port [port]. #1")


async def test_a_command_of_the_configuration_does_it(store_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the page on hooks writes it down."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "NOTES.md").write_text(NOTE)
    table = {"SessionStart": [{"matcher": "compact", "hooks": [{"type": "command", "command": ["cat", "NOTES.md"]}]}]}
    config = Config(store=str(store_file), model_context_window=4_000, hooks=table)
    async with Threadkeep(config, environ={"PATH": os.defpath}) as tk:
        client = talk(tk, "responses")
        await talked(client)
        await client.ask("/compact")
        await client.ask("Go on.")
        assert [text.partition("</session_start>")[0] for text in starts_in(client)] == [NOTE]


async def test_who_asks_for_a_compaction_reads_what_its_hooks_say(opening: Opening) -> None:
    """And which of them failed; one that would rather not be shown is not."""

    def warns(facts: Facts) -> HookReply:
        return HookReply(warning="the notes are saved")

    def is_quiet(facts: Facts) -> HookReply:
        return HookReply(warning="nothing of note", quiet=True)

    hooks = Hooks().on(PRE, FunctionHook(function=warns)).on(PRE, FunctionHook(function=is_quiet))
    async with opening(hooks.on(POST, FunctionHook(function=_fails))) as tk:
        client = talk(tk, "chat")
        await talked(client)
        await client.ask("/compact")
        assert client.answers[0].splitlines()[-4:-2] == [
            "A hook says: the notes are saved",
            "The hook _fails failed and held nothing up: LookupError: no disk",
        ]


def _fails(facts: Facts) -> None:
    raise LookupError("no disk")


@pytest.mark.parametrize("event", [PRE, POST, START])
async def test_a_host_that_hands_over_its_history_is_told_of_a_stop(opening: Opening, event: HookEvent) -> None:
    """Also where it left it to the gateway whether to compact; what it handed over is recorded, and after a start it goes on."""
    async with opening(noting([], event=event, stop=True)) as tk:
        client = talk(tk, "chat")
        await talked(client)
        incoming = Incoming(path="/chat", headers={}, body=client.body())
        with pytest.raises(CompactionStopped) as stopped:
            await client.conversations.lay_out(incoming, HostWish(limit_tokens=1))
        assert stopped.value.event == event
        (thread,) = await threads(tk)
        assert sum(record.kind is RecordKind.ITEM for record in await thread.records()) == len(client.history)
        if event is START:
            lay_out = await client.conversations.lay_out(incoming, HostWish())
            assert f"{NOTE} #1".encode() in lay_out.body
