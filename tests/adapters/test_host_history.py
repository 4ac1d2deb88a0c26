"""A thread that follows a host which keeps its own history: the whole of it, or a compacted window and what came since."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from tests import histories

from threadkeep import Thread, Threadkeep
from threadkeep.adapters.host_history import follow
from threadkeep.compaction.ledger import Speaker
from threadkeep.dialects import DIALECTS
from threadkeep.errors import InvalidItem, InvalidTarget
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


@dataclass(frozen=True)
class Language:
    """Short ways to write one dialect's items."""

    dialect: str

    def said(self, text: str) -> Json:
        if self.dialect == "gemini":
            return {"role": "user", "parts": [{"text": text}]}
        return histories.said(text) if self.dialect == "responses" else {"role": "user", "content": text}

    def answered(self, text: str) -> Json:
        if self.dialect == "gemini":
            return {"role": "model", "parts": [{"text": text}]}
        return histories.answered(text) if self.dialect == "responses" else {"role": "assistant", "content": text}

    def work(self, number: int, *, lines: int) -> list[Json]:
        text = f"line of part {number}\n" * lines
        match self.dialect:
            case "responses":
                return [histories.call(f"c{number}"), histories.output(f"c{number}", text)]
            case "chat":
                function = {"name": "shell", "arguments": '{"cmd":"ls"}'}
                calls = [{"id": f"c{number}", "type": "function", "function": function}]
                return [
                    {"role": "assistant", "content": None, "tool_calls": calls},
                    {"role": "tool", "tool_call_id": f"c{number}", "content": text},
                ]
            case "gemini":
                called = {"id": f"c{number}", "name": "shell"}
                response = {**called, "response": {"output": text}}
                return [
                    {"role": "model", "parts": [{"functionCall": {**called, "args": {}}}]},
                    {"role": "user", "parts": [{"functionResponse": response}]},
                ]
            case _:
                return [
                    {"role": "assistant", "content": [{"type": "tool_use", "id": f"c{number}", "name": "shell", "input": {}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{number}", "content": text}]},
                ]

    def turn(self, number: int, *, lines: int = 60) -> list[Json]:
        asked = self.said(f"Please look into part {number} of the parser; always keep port {8000 + number} free.")
        return [asked, *self.work(number, lines=lines), self.answered(f"Part {number} is fine.")]

    def turns(self, first: int, last: int) -> list[Json]:
        return [item for number in range(first, last + 1) for item in self.turn(number)]


@pytest.fixture(params=DIALECTS)
def lang(request: pytest.FixtureRequest) -> Language:
    return Language(request.param)


async def _items(thread: Thread) -> list[Json]:
    """Return every item of a thread's own records, in order."""
    pointers = [record.ordinal for record in await thread.records() if record.kind is RecordKind.ITEM]
    return [await thread.original(f"{thread.id}#{ordinal}") for ordinal in pointers]


async def _kinds(thread: Thread) -> list[str]:
    return [record.kind.value for record in await thread.records()]


async def _sound(tk: Threadkeep) -> None:
    verdict = await tk.verify()
    assert verdict.problems == ()


async def test_what_is_new_is_recorded_and_nothing_twice(tk: Threadkeep, lang: Language) -> None:
    """A host that shows its growing history, again and again, leaves each item recorded once, in order."""
    history: list[Json] = []
    for number in range(1, 4):
        history += lang.turn(number)
        for _ in range(2):
            thread = await follow(tk, "s", lang.dialect, history)
    assert await _items(thread) == history
    assert list(await thread.window()) == history
    await _sound(tk)


async def test_a_host_that_keeps_all_of_it_is_followed_through_compactions(tk: Threadkeep, lang: Language) -> None:
    """The host never sees a window; the thread compacts three times and still records only what is new."""
    history: list[Json] = []
    for number in range(1, 13):
        history += lang.turn(number)
        thread = await follow(tk, "s", lang.dialect, history)
        if number % 4 == 0:
            await thread.compact()
    assert await _items(thread) == history
    assert (await _kinds(thread)).count("checkpoint") == 3
    await _sound(tk)


async def test_a_window_that_the_host_took_over_is_recognised(tk: Threadkeep, lang: Language) -> None:
    """The host goes on from each compacted window it is given; state and kept items are not recorded again."""
    shown: list[Json] = []
    happened: list[Json] = []
    for number in range(1, 13):
        new = lang.turn(number)
        shown, happened = [*shown, *new], [*happened, *new]
        thread = await follow(tk, "s", lang.dialect, shown)
        if number % 4 == 0:
            await thread.compact()
            shown = list(await thread.window())
    assert await _items(thread) == happened
    assert list(await thread.window()) == shown
    assert (await _kinds(thread)).count("checkpoint") == 3
    await _sound(tk)


async def test_messages_joined_by_the_host_or_for_it_are_recognised(tk: Threadkeep) -> None:
    """Where the state and the request after it went out as one message, that message is known, and so is what joins it later."""
    lang = Language("chat")
    thread = await follow(tk, "s", "chat", [*lang.turns(1, 4), lang.said("And now part 5?")])
    await thread.compact(target="1")
    window = list(await thread.window())
    assert [message["role"] for message in window] == ["user"]
    thread = await follow(tk, "s", "chat", [*window, lang.said("Quickly, please.")])
    assert await _items(thread) == [*lang.turns(1, 4), lang.said("And now part 5?"), lang.said("Quickly, please.")]
    again = await follow(tk, "s", "chat", list(await thread.window()))
    assert await _kinds(again) == await _kinds(thread)
    await _sound(tk)


async def test_a_host_that_never_kept_the_compacted_window_changes_nothing(tk: Threadkeep, lang: Language) -> None:
    """A host that was killed before it stored the window shows the old list; the compaction stands, and what is new is added."""
    first = lang.turns(1, 4)
    thread = await follow(tk, "s", lang.dialect, first)
    await thread.compact()
    second = [*list(await thread.window()), *lang.turns(5, 8)]
    thread = await follow(tk, "s", lang.dialect, second)
    await thread.compact()
    window = list(await thread.window())
    for stale in (second, first + lang.turns(5, 8)):
        same = await follow(tk, "s", lang.dialect, stale)
        assert list(await same.window()) == window
    grown = await follow(tk, "s", lang.dialect, [*second, *lang.turn(9)])
    assert await _items(grown) == lang.turns(1, 9)
    assert list(await grown.window()) == [*window, *lang.turn(9)]
    await _sound(tk)


async def test_what_a_host_took_back_is_rolled_back(tk: Threadkeep, lang: Language) -> None:
    """Undoing the last turn and asking something else leaves a path without that turn; its records stay."""
    await follow(tk, "s", lang.dialect, lang.turns(1, 3))
    changed = [*lang.turns(1, 2), lang.said("Something else."), lang.answered("Of course.")]
    thread = await follow(tk, "s", lang.dialect, changed)
    assert list(await thread.window()) == changed
    assert "rollback" in await _kinds(thread)
    assert [turn.number for turn in await thread.turns()] == [1, 2, 3]
    await _sound(tk)


async def test_a_turn_taken_back_after_a_compaction_leaves_the_compaction(tk: Threadkeep, lang: Language) -> None:
    """The host undoes a turn that came after a compacted window: the window stays as it was."""
    await (await follow(tk, "s", lang.dialect, lang.turns(1, 4))).compact()
    window = list(await (await tk.thread("s")).window())
    await follow(tk, "s", lang.dialect, [*window, *lang.turn(5)])
    thread = await follow(tk, "s", lang.dialect, [*window, *lang.turn(6)])
    assert list(await thread.window()) == [*window, *lang.turn(6)]
    assert "rollback" in await _kinds(thread)
    await _sound(tk)


async def test_a_cut_inside_the_compacted_window_keeps_the_state(tk: Threadkeep, lang: Language) -> None:
    """The host undoes what the compaction had kept verbatim: its window is what it shows, and the ledger is carried on."""
    thread = await follow(tk, "s", lang.dialect, lang.turns(1, 6))
    await thread.compact(target="60%")
    window = list(await thread.window())
    state = await thread.state()
    changed = [*window[:-1], lang.answered("I would rather not say.")]
    thread = await follow(tk, "s", lang.dialect, changed)
    assert list(await thread.window()) == changed
    assert (await thread.state()).entries == state.entries
    await _sound(tk)


async def test_a_history_rewritten_by_something_else_keeps_what_the_session_remembers(tk: Threadkeep, lang: Language) -> None:
    """Another compressor replaced the window by a summary of its own and kept the tail: the ledger survives, the list counts."""
    thread = await follow(tk, "s", lang.dialect, lang.turns(1, 6))
    await thread.compact()
    state = await thread.state()
    rewritten = [lang.said("[SUMMARY] earlier talk about a parser"), *lang.turn(6)[1:]]
    thread = await follow(tk, "s", lang.dialect, rewritten)
    assert list(await thread.window()) == rewritten
    assert (await thread.state()).entries == state.entries
    thread = await follow(tk, "s", lang.dialect, [*rewritten, *lang.turns(7, 12)])
    await thread.compact()
    now = (await thread.state()).entries
    assert {entry.text for entry in state.entries if entry.speaker is Speaker.USER} <= {entry.text for entry in now}
    await _sound(tk)


async def test_a_new_conversation_under_an_old_name_begins_anew(tk: Threadkeep, lang: Language) -> None:
    """Nothing shown was ever said here: the thread starts from its beginning, and remembers nothing of before."""
    await (await follow(tk, "s", lang.dialect, lang.turns(1, 6))).compact()
    fresh = [lang.said("Write a poem."), lang.answered("Roses are red.")]
    thread = await follow(tk, "s", lang.dialect, fresh)
    assert list(await thread.window()) == fresh
    assert (await thread.state()).entries == ()
    await _sound(tk)


async def test_an_edit_before_a_compaction_is_followed_back_across_it(tk: Threadkeep, lang: Language) -> None:
    """A host that keeps everything edits an early turn: the window is the uncompacted history up to there, and the edit."""
    await (await follow(tk, "s", lang.dialect, lang.turns(1, 6))).compact()
    edited = [*lang.turns(1, 2), *lang.turn(33)]
    thread = await follow(tk, "s", lang.dialect, edited)
    assert list(await thread.window()) == edited
    await _sound(tk)


async def test_several_histories_under_one_name_are_kept_apart_as_forks(tk: Threadkeep, lang: Language) -> None:
    """With forks, a side question and a branch leave the main thread as it is, and each is found again by what it holds."""
    main = lang.turns(1, 4)
    side = [lang.said("Give this a title.")]
    branch = [*lang.turns(1, 2), *lang.turn(9)]

    async def shown(items: list[Json]) -> Thread:
        return await follow(tk, "s", lang.dialect, items, diverging="fork")

    assert (await shown(main)).id == "s"
    aside, forked = await shown(side), await shown(branch)
    assert len({"s", aside.id, forked.id}) == 3
    assert (await shown([*main, *lang.turn(5)])).id == "s"
    assert (await shown([*side, lang.answered("Parser")])).id == aside.id
    assert (await shown([*branch, *lang.turn(10)])).id == forked.id
    assert list(await (await tk.thread("s")).window()) == lang.turns(1, 5)
    assert list(await aside.window()) == [*side, lang.answered("Parser")]
    assert list(await forked.window()) == [*branch, *lang.turn(10)]
    assert len(await tk.threads()) == 3
    await _sound(tk)


async def test_copies_of_a_host_that_show_the_same_at_once_record_it_once(tk: Threadkeep, lang: Language) -> None:
    """Eight followers race; the thread holds each item once."""
    await follow(tk, "s", lang.dialect, lang.turns(1, 2))
    history = lang.turns(1, 5)
    await asyncio.gather(*(follow(tk, "s", lang.dialect, history) for _ in range(8)))
    assert await _items(await tk.thread("s")) == history
    await _sound(tk)


async def test_bad_input_is_refused_before_anything_is_written(tk: Threadkeep) -> None:
    """Invalid items and items of another dialect are clear errors; the thread is unchanged."""
    lang = Language("chat")
    thread = await follow(tk, "s", "chat", lang.turn(1))
    before = await thread.records()
    with pytest.raises(InvalidItem):
        await follow(tk, "s", "chat", [*lang.turn(1), {"role": "user", "content": {1, 2}}])
    with pytest.raises(InvalidTarget, match="speaks 'chat', not 'messages'"):
        await follow(tk, "s", "messages", lang.turn(1))
    assert await thread.records() == before


async def test_an_empty_history_takes_everything_back(tk: Threadkeep, lang: Language) -> None:
    """A host that cleared its history shows nothing, and the window is empty; nothing was removed."""
    await follow(tk, "s", lang.dialect, lang.turns(1, 2))
    thread = await follow(tk, "s", lang.dialect, [])
    assert list(await thread.window()) == []
    assert await _items(thread) == lang.turns(1, 2)
    await _sound(tk)
