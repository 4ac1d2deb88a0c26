"""Codex's own test vectors of a local compaction, from `compact.rs` and its tests, played through a hand-off."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from tests.parity.vocabulary import ROOM, ResponsesSpeech, context, turn

from threadkeep import Config, Thread, Threadkeep
from threadkeep.compaction.backend import Order
from threadkeep.compaction.strategies.strategy import Phase
from threadkeep.dialects import RESPONSES
from threadkeep.dialects.host_markers import SUMMARY_OPENINGS
from threadkeep.items import decode_json
from threadkeep.testing.scripted_model import ScriptedModel, says
from threadkeep.threads import EntryKind
from threadkeep.tokens import estimate_text

pytestmark = pytest.mark.anyio

VECTORS: Final[dict[str, list[dict[str, Any]]]] = json.loads(
    Path(__file__).with_name("codex_vectors.json").read_text(encoding="utf-8")
)
SPEECH: Final = ResponsesSpeech()
SUMMARY: Final = "SUMMARY"
CONTEXT: Final = context(SPEECH, "/src")
WORK: Final = turn(SPEECH, 1, lines=400)[1:]
# How Codex begins every summary; its importer learns the rest from the file.
PREFIX: Final = next(opening for opening in SUMMARY_OPENINGS if opening.startswith("Another language model"))


def vectors(group: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", VECTORS[group], ids=[vector["name"] for vector in VECTORS[group]])


@vectors("texts")
def test_the_text_of_a_message_is_what_its_parts_say(vector: dict[str, Any]) -> None:
    """`content_items_to_text`: parts with text, by line ends."""
    dialect = RESPONSES
    view = dialect.view(dialect.parse({"type": "message", "role": "user", "content": vector["content"]}))
    assert (view.said, view.by_person) == (vector["said"], vector["by_person"])


@vectors("collected")
async def test_a_hand_off_keeps_what_people_said(tmp_path: Path, vector: dict[str, Any]) -> None:
    """`collect_user_messages`: no text of a host, no answer, no summary."""
    history = []
    for who, text in vector["history"]:
        match who:
            case "user":
                history.append(SPEECH.said(text))
            case "assistant":
                history.append(SPEECH.answered(text))
            case "summary":
                history.append(SPEECH.said(f"{PREFIX}\n{text}"))
            case _:
                history.append({"type": "unheard_of"})
    async with Threadkeep(Config(store=str(tmp_path / "t.db"))) as tk:
        thread = await tk.thread("t", dialect="responses")
        await thread.record([*history, *WORK])
        await hand_off(thread)
        views = [thread.dialect.view(item) for item in (await thread.history()).items]
    assert [view.said for view in views if view.by_person] == vector["kept"]


@vectors("compacted")
async def test_a_hand_off_keeps_the_newest_messages_within_its_budget(tmp_path: Path, vector: dict[str, Any]) -> None:
    """`build_compacted_history_with_limit`: newest first, one shortened in its middle, none before it, the summary last."""
    config = Config(store=str(tmp_path / "t.db"), compact_user_message_tokens=vector["budget"])
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t", dialect="responses")
        for text in vector["said"]:
            await thread.record([SPEECH.said(spell_out(text)), *WORK])
        await hand_off(thread)
        shown = await read_window(thread)
    assert len(shown) == len(vector["window"])
    for text, wanted in zip(shown, vector["window"], strict=True):
        written, _, budget = wanted.partition(", shortened to ")
        if budget:
            assert re.fullmatch(r"(word )+(wo?r?d?)?….* tokens left out….*", text)
            assert len(text) < len(spell_out(written))
            assert estimate_text(text) <= int(budget) + 16
        else:
            assert text == spell_out(written)


@vectors("inserted")
async def test_initial_context_stands_where_codex_puts_it(tmp_path: Path, vector: dict[str, Any]) -> None:
    """`insert_initial_context_before_last_real_user_or_summary`: in the middle of a turn."""
    async with Threadkeep(Config(store=str(tmp_path / "t.db"))) as tk:
        thread = await tk.thread("t", dialect="responses")
        for step in vector["history"]:
            match step:
                case "context":
                    await thread.record([CONTEXT])
                case "work":
                    await thread.record(WORK)
                case "compact":
                    await hand_off(thread, phase="mid_turn")
                case _:
                    await thread.record([SPEECH.said(step.removeprefix("user "))])
        await hand_off(thread, phase="mid_turn")
        shown = await read_window(thread)
    assert shown == [step.removeprefix("user ") for step in vector["window"]]


@vectors("recognised")
def test_a_summary_is_told_by_how_it_begins(vector: dict[str, Any]) -> None:
    """`is_summary_message`."""
    dialect = RESPONSES
    view = dialect.view(dialect.make_user_message(vector["text"].replace("{prefix}", PREFIX)))
    assert view.by_person is not vector["is_summary"]


def spell_out(text: str) -> str:
    found = re.fullmatch(r"(\w+) x (\d+)", text)
    return f"{found[1]} " * int(found[2]) if found else text


async def hand_off(thread: Thread, *, phase: Phase = "standalone_turn") -> None:
    async with ScriptedModel([says(SUMMARY)], dialect="responses", window_tokens=ROOM) as model:
        report = await thread.carry_out(Order(strategy="handoff", model=model, phase=phase))
    assert report.strategy == "handoff"


async def read_window(thread: Thread) -> list[str]:
    """Return what each item of the window says, the summary as one word and host context as another."""
    texts = []
    for entry in (await thread.history()).entries:
        view = thread.dialect.view(entry.item)
        if entry.kind is EntryKind.STATE:
            assert SUMMARY in view.text
            texts.append(SUMMARY)
        else:
            texts.append("context" if decode_json(entry.item.raw) == CONTEXT else view.text)
    return texts
