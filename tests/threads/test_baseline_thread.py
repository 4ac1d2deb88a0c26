"""A thread is told its world: in full once, then what changed, in full again once that is gone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.histories import answered, said, turns

from threadkeep import Config, Thread, Threadkeep
from threadkeep.dialects import DIALECTS, find_dialect
from threadkeep.items import Item
from threadkeep.store import RecordKind
from threadkeep.threads.baseline import render_baseline

pytestmark = pytest.mark.anyio


def told_items(window: list[dict[str, Any]]) -> list[str]:
    texts = [part["text"] for item in window for part in item.get("content", ()) if isinstance(part, dict)]
    return [text for text in texts if text.startswith("<environment_context")]


async def one_turn(thread: Thread, text: str, world: dict[str, object]) -> list[str]:
    """Say something in a turn and return what the window then tells about the world, oldest first."""
    async with thread.turn([said(text)], context=world) as turn:
        window = await turn.window()
        await turn.record([answered("Done.")])
    return told_items(window)


async def test_full_once_then_only_differences(tk: Threadkeep) -> None:
    """Of three turns the first tells all, the second one section, the third nothing."""
    thread = await tk.thread("t")
    worlds: list[dict[str, object]] = [{"cwd": "/a", "date": "1"}, {"cwd": "/b", "date": "1"}, {"cwd": "/b", "date": "1"}]
    counts = [await one_turn(thread, f"turn {number}", world) for number, world in enumerate(worlds)]
    assert [len(told) for told in counts] == [1, 2, 2]
    assert "update" not in counts[0][0]
    assert ('name="cwd"' in counts[1][1], 'name="date"' in counts[1][1]) == (True, False)
    assert await thread.told() == {"cwd": "/b", "date": "1"}


async def test_it_is_said_before_the_request_and_is_no_person_s(tk: Threadkeep) -> None:
    """The request stays last; what tells of the world is the host's and belongs to the turn."""
    thread = await tk.thread("t")
    async with thread.turn([said("Go.")], context={"cwd": "/a"}) as turn:
        window = await turn.window()
    assert window[-1] == said("Go.")
    view = thread.dialect.view(thread.dialect.parse(window[0]))
    assert (view.by_person, view.context) == (False, "environment")
    kinds = [record.kind for record in await thread.records()]
    assert kinds[:5] == [RecordKind.META, RecordKind.TURN, RecordKind.CONTEXT, RecordKind.ITEM, RecordKind.ITEM]


async def test_a_rollback_that_takes_a_telling_takes_its_knowledge(tk: Threadkeep) -> None:
    """What the rolled back turn was told is told again; what came before it still stands."""
    thread = await tk.thread("t")
    await one_turn(thread, "one", {"cwd": "/a"})
    await one_turn(thread, "two", {"cwd": "/b"})
    await thread.rollback(turns=1)
    assert await thread.told() == {"cwd": "/a"}
    assert len(await one_turn(thread, "again", {"cwd": "/b"})) == 2
    await thread.rollback(turns=2)
    assert await thread.told() is None
    (told,) = await one_turn(thread, "anew", {"cwd": "/b"})
    assert "update" not in told


async def test_a_fork_knows_what_its_parent_was_told_there(tk: Threadkeep) -> None:
    """Before the change it knows the old world, after it the new one."""
    thread = await tk.thread("t")
    await one_turn(thread, "one", {"cwd": "/a"})
    await one_turn(thread, "two", {"cwd": "/b"})
    assert await (await thread.fork(before_turn=2)).told() == {"cwd": "/a"}
    assert await (await thread.fork()).told() == {"cwd": "/b"}


async def test_a_compaction_that_removed_it_has_it_told_in_full_again(tk: Threadkeep) -> None:
    """The newest piece alone is not the world: the next turn tells all of it, once, and the one after nothing."""
    thread = await tk.thread("t")
    await one_turn(thread, "one", {"cwd": "/a", "rules": "be kind"})
    await one_turn(thread, "two", {"cwd": "/b", "rules": "be kind"})
    await thread.record(turns(3, 12))
    await thread.compact(strategy="extractive")
    assert await thread.told() is None
    told = await one_turn(thread, "three", {"cwd": "/b", "rules": "be kind"})
    assert ("update" not in told[-1], "be kind" in told[-1]) == (True, True)
    assert await one_turn(thread, "four", {"cwd": "/b", "rules": "be kind"}) == told
    assert await thread.undo()
    assert await thread.told() == {"cwd": "/b", "rules": "be kind"}


async def test_a_compaction_that_keeps_it_costs_no_second_telling(tk: Threadkeep) -> None:
    """Told once and never changed, it is the newest of its section, which a checkpoint keeps."""
    thread = await tk.thread("t")
    await one_turn(thread, "one", {"cwd": "/a"})
    await thread.record(turns(2, 12))
    await thread.compact(strategy="extractive")
    assert await thread.told() == {"cwd": "/a"}


async def test_a_compaction_within_a_turn_tells_it_again_at_once(tk: Threadkeep) -> None:
    """The request that follows the compaction knows the world, not only the next turn's."""
    thread = await tk.thread("t")
    await one_turn(thread, "one", {"cwd": "/a"})
    await one_turn(thread, "two", {"cwd": "/b"})
    await thread.record(turns(3, 16))
    async with thread.turn([said("Now?")], context={"cwd": "/b"}) as turn:
        window = await turn.window()
    assert window.checkpoint is not None
    assert "update" not in told_items(window)[-1]
    assert await thread.told() == {"cwd": "/b"}
    assert said("Now?") in window


async def test_outside_a_turn_it_can_be_told_too(tk: Threadkeep) -> None:
    """`tell` says what it recorded: all, a part, nothing."""
    thread = await tk.thread("t")
    tellings = [await thread.tell({"cwd": cwd}) for cwd in ("/a", "/b", "/b")]
    assert [None if telling is None else telling.is_whole for telling in tellings] == [True, False, None]


async def test_a_turn_opened_by_mail_is_told_its_world(tk: Threadkeep) -> None:
    """Nobody typed anything, and still the model knows where it is."""
    thread = await tk.thread("t")
    await thread.deliver("Start.", sender="boss", way="trigger")
    async with thread.turn([], context={"cwd": "/a"}) as turn:
        window = await turn.window()
    assert len(told_items(window)) == 1
    assert await thread.told() == {"cwd": "/a"}


@pytest.mark.parametrize("dialect", list(DIALECTS))
async def test_in_every_dialect_it_is_the_host_s(tk: Threadkeep, dialect: str) -> None:
    """No dialect takes it for a person's words, and each finds it again."""
    thread = await tk.thread("t", dialect=dialect)
    await thread.tell({"cwd": "/a"})
    telling = await thread.tell({"cwd": "/b"})
    assert telling is not None
    item = find_dialect(dialect).make_user_message(render_baseline(telling.body))
    assert telling.item.item == Item(item.raw)
    assert thread.dialect.view(item).by_person is False
    assert await thread.told() == {"cwd": "/b"}


@pytest.mark.slow
async def test_a_megabyte_of_world_costs_its_difference(store_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten turns that each change one entry in a hundred: after the first, a turn costs under 3 % of telling all of it."""
    async with Threadkeep(Config(store=str(store_file), model_context_window=100_000_000)) as tk:
        thread = await tk.thread("t")
        told, full = [], []
        for number in range(10):
            telling = await thread.tell(world_of(number))
            whole = await (await tk.thread()).tell(world_of(number))
            assert telling is not None
            assert whole is not None
            told.append(telling.size_bytes)
            full.append(whole.size_bytes)
        assert await thread.told() == world_of(9)
    with capsys.disabled():
        sys.stdout.write(
            f"\n  bytes injected over 10 turns: {sum(told):,} by baselines, {sum(full):,} by full reinjection"
            f" ({sum(full) / sum(told):.1f} x); a later turn {sum(told[1:]) // 9:,} of {full[-1]:,}\n"
        )
    page = (Path(__file__).resolve().parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
    measured = (full[-1], sum(told[1:]) // 9, sum(told), sum(full))
    assert [f"{figure:,}" in page for figure in measured] == [True] * 4
    assert full[0] > 1_000_000
    assert told[0] == full[0]
    assert all(later < full[0] * 0.03 for later in told[1:])


def world_of(turn: int) -> dict[str, object]:
    """Ten thousand entities, of which each turn moves another hundred; and a clock."""
    entities = {
        f"e{number:05}": {"kind": "villager", "mood": "calm", "place": [number % 97, number % 89], "seen": seen(number, turn)}
        for number in range(10_000)
    }
    return {"entities": entities, "clock": f"day {turn}", "rules": "Nobody leaves the island.\n" * 4_000}


def seen(number: int, turn: int) -> str:
    """Entity `number` moves in every hundredth turn; which one, its number says."""
    moved = [each for each in range(1, turn + 1) if each % 100 == number % 100]
    return f"on day {moved[-1]}, walking north" if moved else "never"


async def test_mail_that_arrives_meanwhile_costs_no_telling(tk: Threadkeep) -> None:
    """Another handle delivers between two writes of this one; both are there, and the world is told."""
    thread, other = await tk.thread("t"), await tk.thread("t")
    await thread.record([said("Hello."), answered("Hi.")])
    await other.deliver("News.", sender="elsewhere")
    assert await thread.tell({"cwd": "/a"}) is not None
    assert await other.told() == {"cwd": "/a"}
    assert [mail.sender for mail in (await thread.mail()).pending] == ["elsewhere"]
