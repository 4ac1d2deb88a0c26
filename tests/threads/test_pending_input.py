"""Input while an agent works: what Codex's own tests of pending input say, in every wire language that can say it."""

from __future__ import annotations

import asyncio

import pytest
from tests.histories import call, output, reasoning
from tests.parity.vocabulary import Json, ResponsesSpeech, Speech, context, play
from tests.threads.agent import Said, mail_item, recorded, run_turn

from threadkeep import Threadkeep
from threadkeep.dialects.values import STATE_OPENING
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio

RESPONSES = ResponsesSpeech()
LARGE = "line of the log\n" * 500


def commentary(text: str) -> Json:
    return {**RESPONSES.answered(text), "phase": "commentary"}


async def test_idle_input_is_in_the_first_request(tk: Threadkeep, speech: Speech) -> None:
    """What a person says to an idle agent is what the model sees first."""
    thread = await tk.thread("t", dialect=speech.dialect)
    assert await run_turn(thread, speech, [speech.said("Go.")], [speech.answered("Done.")]) == [[speech.said("Go.")]]


async def test_idle_input_is_in_the_first_request_beside_what_the_host_says_of_a_mode(tk: Threadkeep) -> None:
    """A mode the host is in changes nothing about it."""
    thread = await tk.thread("t")
    incoming = [context(RESPONSES, "plan mode"), RESPONSES.said("Plan it.")]
    assert await run_turn(thread, RESPONSES, incoming, [RESPONSES.answered("1. Look.")]) == [incoming]


async def test_a_turn_that_starts_by_itself_carries_the_queued_mail_too(tk: Threadkeep) -> None:
    """Items a host injects into an idle thread are sampled together with the mail that waited."""
    thread = await tk.thread("t")
    await thread.deliver("Tests are red.", sender="ci")
    injected = context(RESPONSES, "the build ended")
    requests = await run_turn(thread, RESPONSES, [injected], [RESPONSES.answered("I see.")])
    assert requests == [[injected, mail_item(RESPONSES, "Tests are red.", sender="ci")]]


async def test_mail_that_only_waits_wakes_an_agent_that_sleeps(tk: Threadkeep, speech: Speech) -> None:
    """It starts one turn, is in the history, and starts no second one."""
    thread = await tk.thread("t", dialect=speech.dialect)
    async with thread.turn([speech.said("Wait for the others.")]) as turn:
        await turn.window()
        await turn.record([speech.answered("I will sleep.")])
        turn.sleep()
    assert not (await thread.mail()).starts_turn
    await thread.deliver("Part 1 is done.", sender="worker")
    assert (await thread.mail()).starts_turn
    requests = await run_turn(thread, speech, [], [speech.answered("Thanks.")])
    letter = mail_item(speech, "Part 1 is done.", sender="worker")
    assert requests == [[speech.said("Wait for the others."), speech.answered("I will sleep."), letter]]
    assert ((await thread.mail()).starts_turn, (await recorded(thread)).count(letter)) == (False, 1)
    assert [record.turn for record in await thread.records() if record.kind is RecordKind.TURN] == [1, 2]


async def test_a_steer_ends_waiting_for_agents_and_is_in_the_next_request(tk: Threadkeep, speech: Speech) -> None:
    """The tool that waits comes back at once and says why; the words follow its output."""
    thread = await tk.thread("t", dialect=speech.dialect)

    async def wait_agent() -> Json:
        waiting = asyncio.create_task(thread.wait_for_mail(timeout_s=60))
        await (await tk.thread("t")).deliver("Stop waiting.", way="steer")
        assert (await waiting).steered
        return speech.output("w", "interrupted by new input")

    go, done = speech.said("Ask the others."), speech.answered("Stopped.")
    requests = await run_turn(thread, speech, [go], [speech.call("w")], [done], tools={"w": wait_agent})
    heard = [go, speech.call("w"), speech.output("w", "interrupted by new input"), speech.said("Stop waiting.")]
    assert requests[1] == arranged(speech, heard)


def arranged(speech: Speech, items: list[Json]) -> list[Json]:
    """Return a history as its language is sent: in two of them, words right behind an output stand in one message with it."""
    field = {"messages": "content", "gemini": "parts"}.get(speech.dialect)
    if field is None:
        return items
    return [*items[:-2], {"role": "user", field: [*items[-2][field], *items[-1][field]]}]


@pytest.mark.parametrize("way", ["steer", "queue"])
async def test_any_input_ends_a_sleep_within_a_turn(tk: Threadkeep, way: str) -> None:
    """Mail and steers alike; the sleep and what came of it are history."""
    thread = await tk.thread("t")

    async def sleep() -> Json:
        sleeping = asyncio.create_task(thread.wait_for_mail(timeout_s=60))
        await (await tk.thread("t")).deliver([RESPONSES.said("Wake up.")], way=way)
        assert (await sleeping).steered is (way == "steer")
        return output("s", "interrupted by new input")

    requests = await run_turn(
        thread, RESPONSES, [RESPONSES.said("Sleep.")], [call("s", name="sleep")], [RESPONSES.answered("Up.")], tools={"s": sleep}
    )
    slept = [RESPONSES.said("Sleep."), call("s", name="sleep"), output("s", "interrupted by new input")]
    assert requests[1] == [*slept, RESPONSES.said("Wake up.")]
    assert await recorded(thread) == [*requests[1], RESPONSES.answered("Up.")]


async def test_a_sleep_nobody_ends_runs_out(tk: Threadkeep) -> None:
    """Waiting with a timeout comes back with an empty mailbox."""
    thread = await tk.thread("t")
    assert (await thread.wait_for_mail(timeout_s=0)).pending == ()
    assert (await thread.wait_for_mail(timeout_s=0.02)).pending == ()


async def test_input_during_an_answer_makes_a_second_request(tk: Threadkeep, speech: Speech) -> None:
    """The answer is recorded whole, and the words come after it."""
    thread = await tk.thread("t", dialect=speech.dialect)
    reply: list[Said] = [lambda: thread.deliver("And the tests?", way="steer"), speech.answered("The parser is fine.")]
    requests = await run_turn(thread, speech, [speech.said("Look.")], reply, [speech.answered("Green.")])
    assert requests[1:] == [[speech.said("Look."), speech.answered("The parser is fine."), speech.said("And the tests?")]]


@pytest.mark.parametrize("on_the_way", [reasoning("r1"), commentary("Let me look.")], ids=["reasoning", "commentary"])
async def test_agents_mail_breaks_the_answer_off_after_a_thought_or_a_remark(tk: Threadkeep, on_the_way: Json) -> None:
    """What the answer would still have said is dropped, and the next request has the mail."""
    thread = await tk.thread("t")
    reply: list[Said] = [lambda: thread.deliver("Wrong file.", sender="reviewer"), on_the_way, RESPONSES.answered("never heard")]
    requests = await run_turn(thread, RESPONSES, [RESPONSES.said("Fix it.")], reply, [RESPONSES.answered("Fixed the other.")])
    letter = mail_item(RESPONSES, "Wrong file.", sender="reviewer")
    shown = [on_the_way] if on_the_way["type"] == "message" else []
    assert requests[1:] == [[RESPONSES.said("Fix it."), *shown, letter]]
    fixed = RESPONSES.answered("Fixed the other.")
    assert await recorded(thread) == [RESPONSES.said("Fix it."), on_the_way, letter, fixed]


async def test_mail_after_the_answer_waits_for_the_next_turn(tk: Threadkeep, speech: Speech) -> None:
    """No request is made for it, the answer stays the last word of its turn, and the turn after has it."""
    thread = await tk.thread("t", dialect=speech.dialect)
    reply: list[Said] = [speech.answered("Done."), lambda: thread.deliver("One more thing.", sender="worker")]
    assert len(await run_turn(thread, speech, [speech.said("Go.")], reply)) == 1
    assert await recorded(thread) == [speech.said("Go."), speech.answered("Done.")]
    assert [mail.sender for mail in (await thread.mail()).pending] == ["worker"]
    requests = await run_turn(thread, speech, [speech.said("Next.")], [speech.call("c")], [speech.answered("Well.")])
    letter = mail_item(speech, "One more thing.", sender="worker")
    assert requests[0] == [speech.said("Go."), speech.answered("Done."), speech.said("Next.")]
    assert letter in await recorded(thread)
    assert requests[1][:3] == requests[0]


async def test_an_injected_item_opens_the_turn_again_after_its_answer(tk: Threadkeep, speech: Speech) -> None:
    """A steer of items, too, brings a second request; the answer stays as it was."""
    thread = await tk.thread("t", dialect=speech.dialect)
    injected = speech.said("<external_context>the deploy failed</external_context>")
    reply: list[Said] = [speech.answered("Deployed."), lambda: thread.deliver([injected], way="steer")]
    requests = await run_turn(thread, speech, [speech.said("Deploy.")], reply, [speech.answered("It failed.")])
    assert requests[1:] == [[speech.said("Deploy."), speech.answered("Deployed."), injected]]


async def test_a_steer_waits_for_the_whole_answer_and_its_tools(tk: Threadkeep) -> None:
    """Unlike an agent's mail, a person's words do not break off an answer after a thought."""
    thread = await tk.thread("t")
    reply: list[Said] = [lambda: thread.deliver("Faster.", way="steer"), reasoning("r1"), call("c1")]
    requests = await run_turn(thread, RESPONSES, [RESPONSES.said("Go.")], reply, [RESPONSES.answered("Done.")])
    assert requests[1] == [RESPONSES.said("Go."), reasoning("r1"), call("c1"), output("c1"), RESPONSES.said("Faster.")]


@pytest.mark.parametrize("when", ["while the model speaks", "while the tool runs"])
async def test_a_steer_waits_for_the_request_after_the_one_a_compaction_made_room_for(
    tk: Threadkeep, speech: Speech, when: str
) -> None:
    """A large output fills the window: first the model goes on with it, then it hears the person."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)

    async def tool() -> Json:
        if when == "while the tool runs":
            await thread.deliver("Mind the lexer.", way="steer")
        return speech.output("big", LARGE)

    async def early() -> None:
        if when == "while the model speaks":
            await thread.deliver("Mind the lexer.", way="steer")

    replies: list[list[Said]] = [[early, speech.call("big")], [speech.call("next")], [speech.answered("Done.")]]
    requests = await run_turn(thread, speech, [speech.said("Go on.")], *replies, tools={"big": tool})
    told = [(STATE_OPENING in str(request), "Mind the lexer." in str(request)) for request in requests]
    assert told == [(False, False), (True, False), (True, True)]


async def test_a_steer_follows_the_compaction_at_once_where_only_it_needs_an_answer(tk: Threadkeep, speech: Speech) -> None:
    """No request is made without it."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 9)
    reply: list[Said] = [speech.answered("All of it:\n" + LARGE), lambda: thread.deliver("Shorter.", way="steer")]
    requests = await run_turn(thread, speech, [speech.said("Tell me.")], reply, [speech.answered("Fine.")])
    told = [(STATE_OPENING in str(request), "Shorter." in str(request)) for request in requests]
    assert told == [(False, False), (True, True)]
    assert (await recorded(thread))[-2:] == [speech.said("Shorter."), speech.answered("Fine.")]
