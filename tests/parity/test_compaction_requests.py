"""What a model is shown when it is asked to compact, and what it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.drafting.replies import SUMMARY, block
from tests.drafting.test_branching import opaque
from tests.parity.vocabulary import (
    ROOM,
    STATE,
    Json,
    Speech,
    permissions,
    play,
    seen,
    sent,
    skip_unless_offered,
    turns,
)

from threadkeep import Config, Head, Threadkeep
from threadkeep.compaction.backend import Order
from threadkeep.compaction.ledger import Ledger, Speaker
from threadkeep.compaction.strategies.instructions import write_handoff_instruction, write_session_instruction
from threadkeep.compaction.strategies.requests import estimate_request
from threadkeep.testing.scripted_model import Compacts, ScriptedModel, ScriptedRemoteModel, Step, says
from threadkeep.tokens import estimate_item

pytestmark = pytest.mark.anyio

PICTURE = "iVBORw0KGgo" * 900
REPLIES: dict[str, Step] = {"session": says(block(handoff="go on")), "handoff": says(SUMMARY)}


def elsewhere(speech: Speech) -> str:
    """Another wire language than the thread's own: its models are shown a transcript."""
    return "chat" if speech.dialect != "chat" else "messages"


def summarising(strategy: str, *, dialect: str, window_tokens: int = ROOM, replies: int = 1) -> ScriptedModel:
    return ScriptedModel([REPLIES[strategy]] * replies, dialect=dialect, window_tokens=window_tokens)


def ordered(strategy: str, model: ScriptedModel) -> Order:
    return Order(strategy=strategy, model=model, trigger="auto", phase="pre_turn", reason="context_limit")


@pytest.mark.parametrize("strategy", ["session", "handoff"])
async def test_what_comes_in_with_its_picture_and_settings_is_not_in_the_request_and_whole_afterwards(
    tk: Threadkeep, speech: Speech, strategy: str
) -> None:
    """Settings, words and picture of the turn that is about to begin stand behind the summary, as they came."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    incoming = [permissions(speech, "never"), speech.shown("What is wrong in this screenshot?", PICTURE)]
    await thread.record(incoming)
    async with summarising(strategy, dialect=speech.dialect) as model:
        await thread.carry_out(ordered(strategy, model))
    assert sent(model.bodies[0])[:-1] == turns(speech, 1, 8)
    assert "<permissions>" not in str(model.bodies[0])
    assert PICTURE not in str(model.bodies[0])
    shown = await seen(thread)
    assert shown[-1] == incoming[-1]
    assert shown.count(incoming[0]) == 1
    assert str(list(await thread.window())).count(PICTURE) == 1


async def test_what_comes_in_is_not_in_a_transcript_either(tk: Threadkeep, speech: Speech) -> None:
    """A model of another language summarises what is settled; the message nobody answered is not its business."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    await thread.record([speech.said("And now rename the lexer.")])
    async with summarising("handoff", dialect=elsewhere(speech)) as model:
        await thread.carry_out(ordered("handoff", model))
    assert "rename the lexer" not in str(model.bodies[0])
    assert (await seen(thread))[-1] == speech.said("And now rename the lexer.")


async def test_instructions_and_tools_count_when_it_is_decided_whether_a_request_fits(tk: Threadkeep, speech: Speech) -> None:
    """The history alone would fit the model's window; with what goes out beside it it does not, and is told in parts."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    heavy = Head("Mind the house rules. " * 1_500)
    async with summarising("handoff", dialect=speech.dialect, window_tokens=16_000) as model:
        await thread.carry_out(Order(strategy="handoff", model=model), head=Head("Be brief."))
    assert sent(model.bodies[0])[:-1] == turns(speech, 1, 8)
    await play(thread, speech, 9, 16)
    async with summarising("handoff", dialect=speech.dialect, window_tokens=16_000) as model:
        await thread.carry_out(Order(strategy="handoff", model=model), head=heavy)
    assert len(model.requests[0].items) == 1
    assert "house rules" not in str(model.bodies[0])


async def test_a_transcript_shortens_long_outputs_and_keeps_every_call(tk: Threadkeep, speech: Speech) -> None:
    """Where the history itself does not fit, outputs give way in their middle; who asked for what stays readable."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 6)
    listing = "\n".join(f"row {number} of the listing" for number in range(2_000))
    await thread.record([speech.said("List it."), speech.call("long", "cat listing.txt"), speech.output("long", listing)])
    await thread.record([speech.answered("Listed.")])
    async with summarising("handoff", dialect=speech.dialect, window_tokens=9_000) as model:
        await thread.compact(strategy="handoff", model=model)
    told = str(model.bodies[0])
    assert all(f"cat part_{number}.py" in told for number in range(1, 7))
    assert ("row 3 of the listing" in told, "row 1000 of the listing" in told, "row 1999 of the listing" in told) == (
        True,
        False,
        True,
    )
    assert "tokens left out" in told


async def test_the_older_summary_is_in_a_transcript_too(tk: Threadkeep, speech: Speech) -> None:
    """A model that writes the second summary without having lived through the first part is shown the first summary."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    steps = [says("The lexer was found to be at fault."), says("Second summary.")]
    async with ScriptedModel(steps, dialect=elsewhere(speech), window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)
        await play(thread, speech, 9, 16)
        await thread.compact(strategy="handoff", model=model)
    assert "The lexer was found to be at fault." in str(model.bodies[1])


async def test_the_state_is_beside_a_transcript_and_every_part_of_it(tk: Threadkeep, speech: Speech) -> None:
    """However many parts a span is told in: each is asked with the state so far, which nothing can crowd out."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([speech.said("Never push to main."), speech.answered("Understood.")])
    await play(thread, speech, 1, 8)
    await thread.compact(strategy="extractive")
    await play(thread, speech, 9, 40)
    replies = [says(block(handoff=f"part {number}")) for number in range(1, 9)]
    model = ScriptedModel(replies, dialect=speech.dialect, window_tokens=6_000)
    report = await thread.compact(strategy="session", model=model)
    assert report.strategy == "session"
    assert len(model.requests) > 1
    assert all("Never push to main." in str(body) for body in model.bodies)


async def test_what_a_provider_sealed_is_not_shown_to_another_that_is_asked_to_compact(tk: Threadkeep, speech: Speech) -> None:
    """The next compaction is drafted by somebody else: not one byte of the other's opaque item goes there."""
    skip_unless_offered(speech)
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    steps = [Compacts(items=(opaque(speech, 1),))]
    async with ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM, issuer="here#1") as model:
        await thread.compact(strategy="remote", model=model)
    await play(thread, speech, 9, 16)
    async with summarising("session", dialect=speech.dialect) as other:
        await thread.compact(strategy="session", model=other)
    assert "sealed 1" not in str(other.bodies[0])


@pytest.mark.parametrize("strategy", ["session", "handoff"])
@pytest.mark.parametrize("shown_as", ["prefix", "transcript"])
async def test_pictures_and_odd_content_are_shown_and_told_for_what_they_are(
    tk: Threadkeep, speech: Speech, strategy: str, shown_as: str
) -> None:
    """Lists, pictures and empty answers compact like any; a transcript says that there is a picture, never its base64."""
    thread = await tk.thread("t", dialect=speech.dialect)
    odd = [speech.pictured(PICTURE), speech.answered(""), speech.shown("And this one?", PICTURE), speech.answered("A cat.")]
    await thread.record([*odd, *odd_content(speech)])
    await play(thread, speech, 1, 8)
    async with summarising(strategy, dialect=speech.dialect if shown_as == "prefix" else elsewhere(speech)) as model:
        report = await thread.compact(strategy=strategy, model=model, head=Head())
    assert report.strategy == strategy
    told = str(model.bodies[0])
    assert (PICTURE in told) is (shown_as == "prefix")
    if shown_as == "transcript":
        assert "And this one? [1 image(s)]" in told
    texts = [entry.text for entry in (await thread.state()).entries if entry.speaker is Speaker.USER]
    assert not any(PICTURE[:40] in text for text in texts)


def odd_content(speech: Speech) -> list[Json]:
    """Content as clients write it where it is neither one text nor one list of parts."""
    match speech.dialect:
        case "chat":
            return [
                {"role": "user", "content": None},
                {"role": "assistant", "content": None},
                {"role": "user", "content": {"type": "text", "text": "as an object"}},
                {"role": "assistant", "content": [{"type": "text", "text": "as a list"}]},
                {"role": "user", "content": []},
                {"role": "assistant", "content": ""},
            ]
        case "messages":
            return [
                {"role": "user", "content": "as a text"},
                {"role": "assistant", "content": []},
                {"role": "user", "content": [{"type": "text", "text": ""}]},
                {"role": "assistant", "content": "as a text"},
            ]
        case _:
            return [
                {"role": "user", "content": "as a text"},
                {"type": "message", "role": "assistant", "content": []},
                {"type": "message", "role": "user", "content": None},
                {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            ]


def test_a_picture_in_a_request_is_measured_by_what_it_costs(speech: Speech) -> None:
    """Ten times the base64 is the same picture to the estimate."""
    small, large = (json.dumps(speech.shown("See.", PICTURE * times)).encode() for times in (1, 10))
    assert estimate_item(large) == estimate_item(small)


@pytest.mark.parametrize("strategy", ["session", "handoff"])
async def test_a_blank_prompt_is_none(tmp_path: Path, speech: Speech, strategy: str) -> None:
    """A `compact_prompt` without words leaves what is asked as it is, to the byte."""
    bodies: list[Json] = []
    for prompt in (None, "  \n"):
        config = Config(store=str(tmp_path / f"{prompt is None}.db"), model_context_window=4_000, compact_prompt=prompt)
        async with Threadkeep(config) as tk:
            thread = await tk.thread("t", dialect=speech.dialect)
            await play(thread, speech, 1, 8)
            async with summarising(strategy, dialect=speech.dialect) as model:
                await thread.compact(strategy=strategy, model=model)
        bodies += model.bodies
    assert bodies[0] == bodies[1]


def test_what_is_asked_is_a_plain_request_with_a_length() -> None:
    """The hand-off is framed for whoever takes over, names how long it may be, and uses no word that filters trip over."""
    texts = [
        write_handoff_instruction(prompt=None, focus=None, target_tokens=2_500),
        write_session_instruction(Ledger(), (), prompt=None, focus=None, target_tokens=4_000),
    ]
    assert "another model can take over" in texts[0]
    assert ("2500 tokens" in texts[0], "4000 tokens" in texts[1]) == (True, True)
    assert all("in the language the user writes in" in text.lower() for text in texts)
    assert not any(word in text.lower() for text in texts for word in ("injection", "jailbreak", "do not respond", "ignore"))


async def test_all_that_was_said_and_done_is_shown_whatever_the_budget_for_messages(store_file: object, speech: Speech) -> None:
    """How much is quoted afterwards is one thing; the model that summarises is shown everything."""
    config = Config(store=str(store_file), model_context_window=4_000, compact_user_message_tokens=0)
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 8)
        async with summarising("handoff", dialect=speech.dialect) as model:
            await thread.compact(strategy="handoff", model=model, head=Head())
        assert sent(model.bodies[0])[:-1] == turns(speech, 1, 8)
        assert await seen(thread) == [STATE]


@pytest.mark.parametrize("strategy", ["session", "handoff", "extractive"])
async def test_all_that_came_in_together_is_whole_and_last(tk: Threadkeep, speech: Speech, strategy: str) -> None:
    """A listing, and the question about it as a message of its own: nobody has answered either, so both stay as they came."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 12)
    incoming = [speech.said("row of the listing\n" * 160), speech.said("What is wrong in the listing?")]
    await thread.record(incoming)
    if strategy == "extractive":
        await thread.compact(strategy=strategy)
    else:
        async with summarising(strategy, dialect=speech.dialect) as model:
            await thread.carry_out(ordered(strategy, model))
        assert "row of the listing" not in str(sent(model.bodies[0])[:-1])
    assert (await seen(thread))[-2:] == incoming


async def test_a_request_that_is_known_not_to_fit_is_not_sent(tk: Threadkeep, speech: Speech) -> None:
    """However much the users said: what a model is sent is within its window, by the estimate it is decided on."""
    thread = await tk.thread("t", dialect=speech.dialect)
    for number in range(90):
        await thread.record([speech.said(f"Rule {number}: " + "keep the margin exactly as wide as before. " * 8)])
        await thread.record([speech.answered("Noted.")])
    model = ScriptedModel([says(block(handoff="go on"))] * 60, dialect=speech.dialect, window_tokens=6_000)
    await thread.compact(strategy="session", model=model)
    assert [estimate_request(request) for request in model.requests if estimate_request(request) > 6_000] == []
