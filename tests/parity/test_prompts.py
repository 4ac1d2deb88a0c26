"""Words around a compaction: what a user may change of what is asked, and what nobody can."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from tests.drafting.replies import SUMMARY, block
from tests.drafting.test_branching import opaque
from tests.parity.vocabulary import OFFERED, ROOM, Json, Speech, context, permissions, play, sent

from threadkeep import Config, Head, Thread, Threadkeep
from threadkeep.compaction.ledger import Section
from threadkeep.compaction.strategies.handoff import SUMMARY_OPENING
from threadkeep.dialects.values import STATE_OPENING
from threadkeep.testing.scripted_model import Compacts, ScriptedModel, ScriptedRemoteModel, Step, says
from threadkeep.threads import EntryKind

pytestmark = pytest.mark.anyio

SECRET = "sk-" + "a1B2" * 8
PROMPT = "List every port that was named, and quote every key in full."
ADDRESS = "https://example.org/layout.png"


def elsewhere(speech: Speech) -> str:
    """Another wire language than the thread's own: its models are shown a transcript."""
    return "chat" if speech.dialect != "chat" else "messages"


def reply(strategy: str, speech: Speech, number: int = 1) -> Step:
    replies: dict[str, Step] = {
        "session": says(block(active=f"Finding {number} (#1)", handoff="go on")),
        "handoff": says(f"{SUMMARY} Hop {number}."),
        "remote": Compacts(items=(opaque(speech, number),)),
    }
    return replies[strategy]


async def instruction(file: Path, speech: Speech, strategy: str, *, prompt: str | None) -> list[str]:
    """Return the paragraphs a model is asked with, behind the history."""
    async with Threadkeep(Config(store=str(file), model_context_window=4_000, compact_prompt=prompt)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 8)
        async with ScriptedModel([reply(strategy, speech)], dialect=speech.dialect, window_tokens=ROOM) as model:
            await thread.compact(strategy=strategy, model=model, head=Head())
        asked = thread.dialect.parse(sent(model.bodies[0])[-1])
        return thread.dialect.view(asked).text.split("\n\n")


async def test_a_prompt_of_ones_own_is_one_paragraph_more_for_a_state(tmp_path: Path, speech: Speech) -> None:
    """Task, messages by number, length and contract are asked for to the letter; the wish stands before the last two."""
    plain = await instruction(tmp_path / "plain.db", speech, "session", prompt=None)
    asked = await instruction(tmp_path / "own.db", speech, "session", prompt=f"  {PROMPT}\n")
    [wish] = [paragraph for paragraph in asked if PROMPT in paragraph]
    assert [paragraph for paragraph in asked if paragraph != wish] == plain
    assert "as far as it fits the form of the answer" in wish
    contract = next(index for index, paragraph in enumerate(asked) if paragraph.startswith("Answer with exactly one block"))
    assert asked.index(wish) < contract


async def test_a_prompt_of_ones_own_replaces_the_task_of_a_hand_off_and_nothing_else(tmp_path: Path, speech: Speech) -> None:
    """How long it may be, that it is text alone, and that what tools printed sets no rules, is told all the same."""
    plain = await instruction(tmp_path / "plain.db", speech, "handoff", prompt=None)
    asked = await instruction(tmp_path / "own.db", speech, "handoff", prompt=f"  {PROMPT}\n")
    assert asked == [PROMPT, *plain[1:]]
    assert len(plain) > 2


@pytest.mark.parametrize("strategy", ["session", "handoff"])
async def test_no_prompt_has_a_credential_told(store_file: Path, speech: Speech, strategy: str) -> None:
    """Neither to another model, in whatever form it stands, nor in what that model makes of it."""
    async with Threadkeep(Config(store=str(store_file), model_context_window=4_000, compact_prompt=PROMPT)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await thread.record([speech.said("Log in."), speech.call("k"), listed(speech, "k", f"key: {SECRET}")])
        await thread.record([speech.answered(f"In, with {SECRET}.")])
        await play(thread, speech, 1, 8)
        told = f"Staging is reached with {SECRET}."
        steps: list[Step] = [says(block(active=f"{told} (#4)", handoff=told) if strategy == "session" else told)]
        async with ScriptedModel(steps, dialect=elsewhere(speech), window_tokens=ROOM) as model:
            assert (await thread.compact(strategy=strategy, model=model)).strategy == strategy
        window = str(list(await thread.window()))
    assert ("key: sk-a" in str(model.bodies[0]), SECRET in str(model.bodies[0])) == (True, False)
    assert ("Staging is reached with sk-a" in window, SECRET in window) == (True, False)


def listed(speech: Speech, call_id: str, text: str) -> Json:
    """An output whose content is a list of parts."""
    match speech.dialect:
        case "responses":
            parts = [{"type": "input_text", "text": text}]
            return {"type": "function_call_output", "call_id": call_id, "output": parts}
        case "chat":
            return {"role": "tool", "tool_call_id": call_id, "content": [{"type": "text", "text": text}]}
        case "gemini":
            # A response is an object; anything may stand in it.
            response = {"content": [{"type": "text", "text": text}]}
            answered = {"functionResponse": {"id": call_id, "name": "shell", "response": response}}
            return {"role": "user", "parts": [answered]}
        case _:
            result = {"type": "tool_result", "tool_use_id": call_id, "content": [{"type": "text", "text": text}]}
            return {"role": "user", "content": [result]}


@pytest.mark.parametrize("strategy", ["session", "handoff", "extractive"])
async def test_what_is_handed_over_forbids_neither_tools_nor_memory(tk: Threadkeep, speech: Speech, strategy: str) -> None:
    """Around what was said and done it says that it is a record and no new request; nothing in it is an order."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    steps = [] if strategy == "extractive" else [reply(strategy, speech)]
    async with ScriptedModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy=strategy, model=None if strategy == "extractive" else model)
    (state,) = [entry.item for entry in (await thread.history()).entries if entry.kind is EntryKind.STATE]
    around = thread.dialect.view(state).text.partition("<session_compact_state>")[0].replace(SUMMARY, "").lower()
    # It says which message waits, and forbids nothing by that.
    around = around.replace("only the last one waits for an answer", "")
    assert around.startswith(STATE_OPENING.lower())
    assert "new request" in around
    forbidding = ("tool", "memory", "do not", "don't", "never", "must", "ignore", "only", "disregard")
    assert [word for word in forbidding if word in around] == []


async def test_beginnings_that_piled_up_are_all_taken_off(tk: Threadkeep, speech: Speech) -> None:
    """A model that copies a copy of a copy: the summary begins once, in our words."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    piled = (
        "[CONTEXT SUMMARY]: [CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted.\n"
        f"{SUMMARY_OPENING}\n\nThis session is being continued from a previous conversation.\n{SUMMARY}"
    )
    async with ScriptedModel([says(piled)], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)
    window = json.dumps(list(await thread.window()), ensure_ascii=False)
    assert (window.count(STATE_OPENING), window.count(SUMMARY)) == (1, 1)
    assert [each for each in ("CONTEXT SUMMARY", "CONTEXT COMPACTION", "being continued") if each in window] == []


def users_in_a_row(items: list[Json]) -> list[tuple[Json, Json]]:
    return [pair for pair in itertools.pairwise(items) if [item.get("role") for item in pair] == ["user", "user"]]


@pytest.mark.parametrize("shown_as", ["prefix", "transcript"])
@pytest.mark.parametrize("strategy", ["session", "handoff", "remote"])
async def test_no_model_is_asked_with_two_users_in_a_row(store_file: Path, speech: Speech, strategy: str, shown_as: str) -> None:
    """Before a turn and in the middle of one, with settings, context and two messages at once: turns and drafts alike."""
    if speech.dialect == "responses" or (strategy == "remote" and (speech not in OFFERED or shown_as == "transcript")):
        pytest.skip("nothing forbids it there, or no provider compacts so")
    dialect = speech.dialect if shown_as == "prefix" else elsewhere(speech)
    steps = [reply(strategy, speech, number) for number in range(1, 9)]
    model = ScriptedRemoteModel(steps, dialect=dialect, window_tokens=ROOM, issuer="here#1")
    async with Threadkeep(Config(store=str(store_file), model_context_window=4_000, compact_strategy=strategy)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        for hop in range(3):
            await thread.record([context(speech, f"/{hop}"), speech.said("One."), speech.said("Two."), speech.answered("Yes.")])
            await play(thread, speech, 20 * hop + 1, 20 * hop + 14)
            incoming = [permissions(speech, f"{hop}"), context(speech, "/new"), speech.said("Read it."), speech.said("All.")]
            async with thread.turn(incoming, model=model) as begun:
                assert users_in_a_row(list(await begun.window())) == []
                await begun.record([speech.call(f"x{hop}"), speech.output(f"x{hop}", "row of the listing\n" * 800)])
                assert users_in_a_row(list(await begun.window())) == []
                await begun.record([speech.answered("Read.")])
    assert len(model.bodies) >= 4
    assert [users_in_a_row(sent(body)) for body in model.bodies] == [[]] * len(model.bodies)
    assert all((len(sent(body)) > 2) is (shown_as == "prefix") for body in model.bodies)


@pytest.mark.parametrize("strategy", ["session", "handoff", "extractive"])
async def test_roles_alternate_after_every_way_back(tk: Threadkeep, speech: Speech, strategy: str) -> None:
    """Undone, taken back, forked in the middle of a turn and gone on from: no two users in a row on `chat` and `messages`."""
    if speech.dialect == "responses":
        pytest.skip("nothing forbids it there")
    thread = await tk.thread("t", dialect=speech.dialect)
    for hop in (1, 2, 3):
        await play(thread, speech, 10 * hop, 10 * hop + 6)
        await thread.record([context(speech, f"/{hop}"), speech.said("One."), speech.said("Two.")])
        steps = [] if strategy == "extractive" else [reply(strategy, speech, hop)]
        async with ScriptedModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
            await thread.compact(strategy=strategy, model=None if strategy == "extractive" else model)
        await thread.record([speech.answered("Yes.")])

    async def check(branch: Thread) -> None:
        assert users_in_a_row(list(await branch.window())) == []
        await branch.record([context(speech, "/later"), speech.said("Go on.")])
        assert users_in_a_row(list(await branch.window())) == []

    await check(await thread.fork())
    await check(await thread.fork(before_turn=12))
    for _ in range(3):
        await thread.undo()
        await check(await thread.fork())
    await thread.rollback(turns=5)
    await check(thread)


async def test_a_picture_at_an_address_is_told_with_it(tk: Threadkeep, speech: Speech) -> None:
    """In a transcript and in the state; one that was sent along is told by what it is, never by its bytes."""
    thread = await tk.thread("t", dialect=speech.dialect)
    both = [at_address(speech, "This layout?"), speech.answered("Fine."), speech.shown("And this?", "iVBORw0KGgo" * 90)]
    await thread.record([*both, speech.answered("Fine, too.")])
    await play(thread, speech, 1, 8)
    async with ScriptedModel([reply("session", speech)], dialect=elsewhere(speech), window_tokens=ROOM) as model:
        await thread.compact(strategy="session", model=model)
    told = str(model.bodies[0])
    assert f"This layout? [image at {ADDRESS}]" in told
    assert ("And this? [1 image(s)]" in told, "iVBORw0KGgo" in told) == (True, False)
    evidence = [entry.text for entry in (await thread.state()).section(Section.EVIDENCE)]
    assert f"[image at {ADDRESS}] image: This layout?" in evidence


def at_address(speech: Speech, text: str) -> Json:
    """A person shows an image that stands elsewhere."""
    match speech.dialect:
        case "responses":
            parts: list[Json] = [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": ADDRESS}]
            return {"type": "message", "role": "user", "content": parts}
        case "chat":
            shown: Json = {"type": "image_url", "image_url": {"url": ADDRESS}}
            return {"role": "user", "content": [{"type": "text", "text": text}, shown]}
        case "gemini":
            file = {"fileData": {"mimeType": "image/png", "fileUri": ADDRESS}}
            return {"role": "user", "parts": [{"text": text}, file]}
        case _:
            return {
                "role": "user",
                "content": [{"type": "text", "text": text}, {"type": "image", "source": {"type": "url", "url": ADDRESS}}],
            }


async def test_outputs_of_every_form_give_way_in_their_middle(tk: Threadkeep, speech: Speech) -> None:
    """Whatever holds the text of an output: beginning and end are told, the call that asked for it stays readable."""
    listing = "\n".join(f"row {number} of the listing" for number in range(2_000))
    for name, items in {
        "list": [speech.call("x", "cat listing"), listed(speech, "x", listing)],
        **others(speech, listing),
    }.items():
        thread = await tk.thread(name, dialect=speech.dialect)
        await play(thread, speech, 1, 6)
        await thread.record([speech.said("List it."), *items, speech.answered("Listed.")])
        async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=9_000) as model:
            await thread.compact(strategy="handoff", model=model)
        told = str(model.bodies[0])
        rows = [f"row {number} of the listing" in told for number in (3, 1_000, 1_999)]
        assert (name, rows, "cat listing" in told) == (name, [True, False, True], True)


def others(speech: Speech, listing: str) -> dict[str, list[Json]]:
    """Calls and outputs that only one wire has."""
    if speech.dialect != "responses":
        return {}
    action = {"type": "exec", "command": ["cat listing"]}
    return {
        "custom": [
            {"type": "custom_tool_call", "call_id": "x", "name": "run", "input": "cat listing"},
            {"type": "custom_tool_call_output", "call_id": "x", "output": listing},
        ],
        "local_shell": [
            {"type": "local_shell_call", "call_id": "x", "status": "completed", "action": action},
            {"type": "local_shell_call_output", "call_id": "x", "output": listing},
        ],
        "server": [{"type": "mcp_call", "id": "x", "name": "cat listing", "arguments": "{}", "output": listing}],
    }
