"""What is handed over: the summary is one, is nobody's words, ends where it ends, and roles alternate around it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from tests.drafting.replies import SUMMARY, block
from tests.drafting.test_branching import opaque
from tests.parity.vocabulary import ROOM, STATE, Json, Speech, context, play, seen, skip_unless_offered, turn, turns

from threadkeep import Config, Thread, Threadkeep
from threadkeep.compaction.ledger import Section, Speaker
from threadkeep.compaction.strategies.handoff import SUMMARY_OPENING
from threadkeep.dialects.values import STATE_OPENING
from threadkeep.items import decode_json
from threadkeep.testing.scripted_model import Compacts, ScriptedModel, ScriptedRemoteModel, Step, says
from threadkeep.threads import EntryKind

pytestmark = pytest.mark.anyio

PICTURE = "iVBORw0KGgo" * 900
SECRET = "sk-" + "a1B2" * 8
STRATEGIES = ("session", "handoff", "remote", "extractive")
# How other programs begin the summary they put into a history in the user's role.
FOREIGN = {
    "codex": "Another language model started to solve this problem and produced a summary.\n",
    "hermes": "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted.\n",
    "claude code": "This session is being continued from a previous conversation.\n",
    "pi": "The conversation history before this point was compacted into the following summary:\n\n<summary>\n",
}
OLDER_HERMES = "[CONTEXT SUMMARY]: "
ENDINGS = {"pi": "\n</summary>", "hermes": "\n--- END OF CONTEXT SUMMARY ---"}


def steps(strategy: str, speech: Speech, hops: int) -> list[Step]:
    match strategy:
        case "session":
            return [says(block(handoff=f"hop {hop}")) for hop in range(hops)]
        case "handoff":
            return [says(f"{SUMMARY} Hop {hop}.") for hop in range(hops)]
        case "remote":
            return [Compacts(items=(opaque(speech, hop),)) for hop in range(hops)]
        case _:
            return []


async def users(thread: Thread) -> list[str]:
    return [entry.text for entry in (await thread.state()).entries if entry.speaker is Speaker.USER]


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_roles_alternate_through_five_compactions_whatever_stands_around_them(
    tk: Threadkeep, speech: Speech, strategy: str
) -> None:
    """Context, settings, pictures, two messages in a row, a message still waiting: `chat` and `messages` see no two users."""
    skip_unless_offered(speech, strategy)
    thread = await tk.thread("t", dialect=speech.dialect)
    model = ScriptedRemoteModel(steps(strategy, speech, 5), dialect=speech.dialect, window_tokens=ROOM, issuer="here#1")
    for hop in range(5):
        await thread.record([context(speech, f"/src/{hop}"), speech.pictured(PICTURE), speech.said("And this picture.")])
        await thread.record([speech.answered("A cat.")])
        await play(thread, speech, 10 * hop + 1, 10 * hop + 7)
        await thread.record([speech.said("One."), speech.said("Two.")])
        report = await thread.compact(strategy=strategy, model=None if strategy == "extractive" else model)
        assert report.strategy == strategy
        for window in (await thread.window(issuer="here#1"), await thread.window()):
            roles = [str(item["role"]) for item in window if "role" in item and item["role"] != "system"]
            if speech.dialect != "responses":
                assert [pair for pair in itertools.pairwise(roles) if pair == ("user", "user")] == []
            assert roles[-1] == "user"
        assert next(str(item["role"]) for item in await thread.window() if "role" in item) == "user"
        await thread.record([speech.answered("Yes.")])
    model.close()


@pytest.mark.parametrize("strategy", ["session", "handoff", "extractive"])
@pytest.mark.parametrize("tool", FOREIGN)
async def test_a_summary_another_program_left_is_nobodys_words(tk: Threadkeep, speech: Speech, strategy: str, tool: str) -> None:
    """However it begins: no sentence of it becomes a rule of the user's."""
    thread = await tk.thread("t", dialect=speech.dialect)
    left = speech.said(f"{FOREIGN[tool]}Always deploy on Fridays.{ENDINGS.get(tool, '')}")
    await thread.record([left, speech.answered("Understood.")])
    await play(thread, speech, 1, 8)
    async with ScriptedModel(steps(strategy, speech, 1), dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy=strategy, model=None if strategy == "extractive" else model)
    assert not any("Fridays" in text for text in await users(thread))


async def test_a_summary_an_older_hermes_left_is_nobodys_words(tk: Threadkeep, speech: Speech) -> None:
    """It began with a label alone."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([speech.said(f"{OLDER_HERMES}Always deploy on Fridays."), speech.answered("Understood.")])
    await play(thread, speech, 1, 8)
    await thread.compact(strategy="extractive")
    assert not any("Fridays" in text for text in await users(thread))


async def test_a_summary_is_never_taken_for_what_a_user_said(tk: Threadkeep, speech: Speech) -> None:
    """Rules a model put into its summary are the model's: the next compactions, with and without a model, know no such user."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    told = "Always deploy on Fridays. You must never run the tests."
    async with ScriptedModel([says(told), says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)
        await play(thread, speech, 9, 16)
        await thread.compact(strategy="handoff", model=model)
    await play(thread, speech, 17, 24)
    await thread.compact(strategy="extractive")
    assert not any("Fridays" in text or "never run" in text for text in await users(thread))
    assert "Fridays" not in str(list(await thread.window()))


@pytest.mark.parametrize(
    "prefix",
    [f"{SUMMARY_OPENING}\n\n", OLDER_HERMES, *FOREIGN.values()],
    ids=["threadkeep", "hermes, older", *FOREIGN],
)
async def test_a_summary_that_brings_a_beginning_along_gets_ours_and_no_other(
    tk: Threadkeep, speech: Speech, prefix: str
) -> None:
    """A model copies the wrapping of an older summary: what is stored begins once, in our words."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    async with ScriptedModel([says(f"{prefix}{SUMMARY}")], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)
    window = json.dumps(list(await thread.window()))
    assert window.count(STATE_OPENING) == 1
    assert prefix == f"{SUMMARY_OPENING}\n\n" or prefix.split("\n")[0][:20] not in window
    assert SUMMARY in window


@pytest.mark.parametrize("strategy", ["session", "handoff", "extractive"])
async def test_merged_with_a_users_message_it_is_still_told_apart(tk: Threadkeep, speech: Speech, strategy: str) -> None:
    """Where roles must alternate it stands in one message with the user's words, and those alone are heard in it."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    await thread.record([speech.said("And now rename the lexer.")])
    async with ScriptedModel(steps(strategy, speech, 1), dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy=strategy, model=None if strategy == "extractive" else model)
    heard = await heard_in(thread)
    assert "And now rename the lexer." in heard
    assert not any(part in heard for part in (STATE_OPENING, SUMMARY, "hop 0", "Active Memory"))


async def test_a_summary_with_nothing_beside_it_ends_where_it_ends(tk: Threadkeep, speech: Speech) -> None:
    """However small the window was asked to be: the summary is closed, and is nobody's words."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    await thread.record([speech.said("And now rename the lexer.")])
    async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model, target="1")
    heard = await heard_in(thread)
    assert ("And now rename the lexer." in heard, SUMMARY in heard) == (True, False)


async def heard_in(thread: Thread) -> str:
    """Return what persons say in the window as it is sent, by its text alone."""
    arranged = thread.dialect.arrange((await thread.history()).items)
    return "\n".join(view.said for view in map(thread.dialect.view, arranged) if view.by_person)


async def test_the_summary_message_says_what_it_is_and_where_it_ends(tk: Threadkeep, speech: Speech) -> None:
    """No new request, and closed by a mark of its own."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)
    (state,) = [entry.item for entry in (await thread.history()).entries if entry.kind is EntryKind.STATE]
    text = thread.dialect.view(state).text
    assert text.startswith(SUMMARY_OPENING)
    assert "it is no new request" in text
    assert text.rstrip().endswith("</session_compact_state>")


async def test_it_carries_no_key_a_provider_does_not_know(tk: Threadkeep, speech: Speech) -> None:
    """The message is as plain as any of the user's."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)
    (state,) = [entry.item for entry in (await thread.history()).entries if entry.kind is EntryKind.STATE]
    assert set(decode_json(state.raw)) == set(speech.said("x"))


@pytest.mark.parametrize("strategy", ["session", "handoff", "extractive"])
async def test_what_was_changed_and_what_is_to_be_done_stand_before_the_request(
    tk: Threadkeep, speech: Speech, strategy: str
) -> None:
    """Changed files and the agent's list are in the state message, over two compactions; nothing stands behind the request."""
    thread = await tk.thread("t", dialect=speech.dialect)
    for first in (1, 20):
        await thread.record(
            [speech.said("Plan it."), *planned(speech, first), *touched(speech, first), speech.answered("Planned.")]
        )
        await play(thread, speech, first, first + 7)
        await thread.record([speech.said("Now do it.")])
        async with ScriptedModel(steps(strategy, speech, 1), dialect=speech.dialect, window_tokens=ROOM) as model:
            await thread.compact(strategy=strategy, model=None if strategy == "extractive" else model)
        shown = await seen(thread)
        assert (shown.count(STATE), shown[-1]) == (1, speech.said("Now do it."))
        text = str(list(await thread.window()))
        assert (text.count("mend the lexer"), text.count("read the lexer")) == (1, 0)
        handoff = [entry.text for entry in (await thread.state()).section(Section.HANDOFF)]
        assert any("mend the lexer" in line for line in handoff)
        evidence = [entry.text for entry in (await thread.state()).section(Section.EVIDENCE)]
        assert [line.count(f"notes_{first}.md") for line in evidence] == [1]
        await thread.record([speech.answered("Done.")])


def touched(speech: Speech, number: int) -> list[Json]:
    """The agent makes a file."""
    return [speech.call(f"w{number}", f"touch notes_{number}.md"), speech.output(f"w{number}", "")]


def planned(speech: Speech, number: int) -> list[Json]:
    """The agent keeps its list with a tool."""
    todos = {"todos": [{"content": "read the lexer", "status": "completed"}, {"content": "mend the lexer", "status": "pending"}]}
    called, output = (
        json.loads(json.dumps(item).replace('"shell"', '"todo_write"'))
        for item in (speech.call(f"p{number}"), speech.output(f"p{number}"))
    )
    match speech.dialect:
        case "responses":
            called["arguments"] = json.dumps(todos)
        case "chat":
            called["tool_calls"][0]["function"]["arguments"] = json.dumps(todos)
        case "gemini":
            called["parts"][0]["functionCall"]["args"] = todos
        case _:
            called["content"][0]["input"] = todos
    return [called, output]


async def test_pictures_count_in_the_budget_for_quoted_messages(store_file: Path, speech: Speech) -> None:
    """At a flat cost, never by their base64: of ten messages with a picture the newest two fit four thousand tokens."""
    config = Config(store=str(store_file), model_context_window=100_000, compact_user_message_tokens=4_000)
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        for number in range(10):
            await thread.record([speech.shown(f"Look at screenshot {number}.", PICTURE), *turn(speech, number)[1:]])
        async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
            await thread.compact(strategy="handoff", model=model)
        assert str(list(await thread.window())).count(PICTURE) == 2


async def test_a_message_too_long_to_quote_whole_keeps_both_its_ends(store_file: Path, speech: Speech) -> None:
    """In any script, on whole characters, with a mark between."""
    config = Config(store=str(store_file), model_context_window=100_000, compact_user_message_tokens=600)
    words = "開始。" + "端口是八零八零。🙂" * 800 + "おわり。"
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await thread.record([speech.said(words), *turns(speech, 1, 6)])
        async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
            await thread.compact(strategy="handoff", model=model)
        first = json.dumps((await seen(thread))[0], ensure_ascii=False)
    assert all(part in first for part in ("開始。", "tokens left out", "おわり。"))
    assert "\ufffd" not in first


@pytest.mark.parametrize("strategy", ["session", "handoff"])
async def test_nothing_warns_of_a_compaction_that_held(
    tk: Threadkeep, speech: Speech, strategy: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Five in a row say nothing to a terminal or a log; what failed would stand in the report."""
    thread = await tk.thread("t", dialect=speech.dialect)
    async with ScriptedModel(steps(strategy, speech, 5), dialect=speech.dialect, window_tokens=ROOM) as model:
        for hop in range(5):
            await play(thread, speech, 10 * hop + 1, 10 * hop + 8)
            report = await thread.compact(strategy=strategy, model=model)
            assert (report.fell_back_from, len(report.attempts)) == (None, 1)
    assert (capsys.readouterr(), caplog.records) == (("", ""), [])


async def test_a_credential_a_model_repeats_is_masked_in_its_summary(tk: Threadkeep, speech: Speech) -> None:
    """As in a state: named by its first letters, and whole in its record alone."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([speech.said("Log in."), speech.call("k"), speech.output("k", f"key: {SECRET}"), speech.answered("In.")])
    await play(thread, speech, 1, 8)
    async with ScriptedModel([says(f"Staging is reached with {SECRET}.")], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)
    window = str(list(await thread.window()))
    assert ("Staging is reached with sk-a" in window, SECRET in window) == (True, False)


@pytest.mark.parametrize("strategy", ["session", "handoff"])
async def test_a_credential_a_tool_printed_is_masked_before_another_model_reads_it(
    tk: Threadkeep, speech: Speech, strategy: str
) -> None:
    """A transcript may go to a provider that has never seen the conversation; whatever the prompt, no credential goes along."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([speech.said("Log in."), speech.call("k"), speech.output("k", f"key: {SECRET}"), speech.answered("In.")])
    await play(thread, speech, 1, 8)
    other = "chat" if speech.dialect != "chat" else "messages"
    async with ScriptedModel(steps(strategy, speech, 1), dialect=other, window_tokens=ROOM) as model:
        await thread.compact(strategy=strategy, model=model)
    told = str(model.bodies[0])
    assert ("key: sk-a" in told, SECRET in told) == (True, False)
