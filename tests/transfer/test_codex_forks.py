"""Rollouts that share a history: forks by copy, forks by reference, reverted threads, several metas."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from tests.transfer.rollouts import FORK, THREAD, Json, bring_in, event, kinds, meta, put, spoken, turn, window

from threadkeep import Config, Threadkeep
from threadkeep.transfer.importer import MOST_BASES, ImportProblem

pytestmark = pytest.mark.anyio

THIRD = "01a1e0f0-fc48-7710-b868-3f047a60f8e5"


def numbered(lines: list[Json], *, start: int = 0) -> list[Json]:
    """Give lines the ordinals of a paginated rollout."""
    return [{**each, "ordinal": start + index} for index, each in enumerate(lines)]


def based(thread_id: str, rollout_id: str, end: int) -> Json:
    base = {"thread_id": rollout_id, "end_ordinal_exclusive": end, "end_byte_offset": 0}
    return meta(thread_id, history_mode="paginated", history_base=base)


def rollout(folder: Path, rollout_id: str) -> Path:
    return folder / f"rollout-2026-01-02T03-04-05-{rollout_id}.jsonl"


async def test_a_fork_by_copy_arrives_as_a_fork(tk: Threadkeep, tmp_path: Path) -> None:
    """The lines it copied are its parent's records; its own begin where the copy ends."""
    source = [meta(), *turn(1), *turn(2)]
    copied = put(tmp_path / "b.jsonl", meta(FORK, forked_from_id=THREAD), *source, *turn(3))
    await bring_in(tk, put(tmp_path / "a.jsonl", *source), copied)
    assert await window(tk, FORK) == [*spoken(1), *spoken(2), *spoken(3)]
    assert (await kinds(tk, FORK))[:3] == ["meta", "note", "note"]
    assert [(summary.id, summary.parent) for summary in await tk.threads()] == [(FORK, THREAD), (THREAD, None)]
    put(tmp_path / "b.jsonl", meta(FORK, forked_from_id=THREAD), *source, *turn(3), *turn(4))
    put(tmp_path / "a.jsonl", *source, *turn(5))
    again = await bring_in(tk, tmp_path)
    assert sum(thread.added for thread in again.threads) == 2 * len(turn(1)) + 2
    assert await window(tk, FORK) == [*spoken(1), *spoken(2), *spoken(3), *spoken(4)]
    assert await window(tk, THREAD) == [*spoken(1), *spoken(2), *spoken(5)]
    assert (await tk.verify()).ok


async def test_a_fork_by_copy_in_the_middle_shares_what_it_copied(tk: Threadkeep, tmp_path: Path) -> None:
    """A fork that copied the first turn alone leaves its parent there."""
    source = [meta(), *turn(1), *turn(2)]
    first = [meta(FORK, forked_from_id=THREAD), meta(), *turn(1), *turn(3)]
    await bring_in(tk, put(tmp_path / "a.jsonl", *source), put(tmp_path / "b.jsonl", *first))
    assert await window(tk, FORK) == [*spoken(1), *spoken(3)]
    assert (await tk.backend.store.get(FORK)).parent == THREAD
    assert (await tk.verify()).ok


async def test_a_copy_whose_source_is_not_here_stands_by_itself(tk: Threadkeep, tmp_path: Path) -> None:
    """Its several metas are data; imported again beside its source, it stays what it is."""
    source = [meta(), *turn(1)]
    copied = put(tmp_path / "b.jsonl", meta(FORK, forked_from_id=THREAD), *source, *turn(2))
    await bring_in(tk, copied)
    assert await window(tk, FORK) == [*spoken(1), *spoken(2)]
    again = await bring_in(tk, put(tmp_path / "a.jsonl", *source), copied)
    assert [(thread.id, thread.added > 0) for thread in again.threads] == [(THREAD, True), (FORK, False)]


async def test_a_fork_by_reference_begins_in_its_parent(tk: Threadkeep, tmp_path: Path) -> None:
    """Only its own lines are in its file; the history before them is its parent's, up to the line it names."""
    parent = numbered([meta(history_mode="paginated"), *turn(1), *turn(2)])
    put(tmp_path / f"rollout-2026-01-02T03-04-05-{THREAD}.jsonl", *parent)
    child = numbered([based(FORK, THREAD, 8), *turn(3)], start=8)
    path = put(tmp_path / f"rollout-2026-01-02T03-04-06-{FORK}.jsonl", *child)
    await bring_in(tk, path)
    assert await window(tk, FORK) == [*spoken(1), *spoken(3)]
    assert (await tk.backend.store.get(FORK)).parent == THREAD
    await bring_in(tk, tmp_path)
    assert await window(tk, THREAD) == [*spoken(1), *spoken(2)]
    assert await window(tk, FORK) == [*spoken(1), *spoken(3)]
    again = await bring_in(tk, tmp_path)
    assert [thread.added for thread in again.threads] == [0, 0]
    assert (await tk.verify()).ok


async def test_a_rollback_can_reach_back_into_the_parent(tk: Threadkeep, tmp_path: Path) -> None:
    """Turns before the fork count like any other."""
    parent = numbered([meta(history_mode="paginated"), *turn(1), *turn(2)])
    put(tmp_path / f"rollout-2026-01-02T03-04-05-{THREAD}.jsonl", *parent)
    rollback = event("thread_rolled_back", num_turns=2)
    child = numbered([based(FORK, THREAD, 15), *turn(3), rollback, *turn(4)], start=15)
    await bring_in(tk, put(tmp_path / f"rollout-2026-01-02T03-04-06-{FORK}.jsonl", *child))
    assert await window(tk, FORK) == [*spoken(1), *spoken(4)]
    assert (await tk.verify()).ok


async def test_a_reverted_thread_goes_on_in_a_thread_of_its_own(tk: Threadkeep, tmp_path: Path) -> None:
    """It keeps its id in a second rollout: two histories, of which the older stays as it was."""
    parent = numbered([meta(history_mode="paginated"), *turn(1), *turn(2)])
    put(tmp_path / f"rollout-2026-01-02T03-04-05-{THREAD}.jsonl", *parent)
    child = numbered([based(THREAD, THREAD, 8), *turn(3)], start=8)
    put(tmp_path / f"rollout-2026-01-02T03-04-06-{THREAD}_{FORK}.jsonl", *child)
    report = await bring_in(tk, tmp_path)
    reverted = next(thread.id for thread in report.threads if thread.id != THREAD)
    assert reverted.startswith(f"{THREAD}-")
    assert await window(tk, reverted) == [*spoken(1), *spoken(3)]
    assert await window(tk, THREAD) == [*spoken(1), *spoken(2)]


async def test_a_parent_that_is_not_here_is_said(tk: Threadkeep, tmp_path: Path) -> None:
    """The lines there are become a thread all the same."""
    child = numbered([based(FORK, THREAD, 8), *turn(3)], start=8)
    report = await bring_in(tk, put(tmp_path / "r.jsonl", *child))
    text = f"it begins in rollout {THREAD}, which is not here; import both to have all of it"
    assert [problem.text for problem in report.problems] == [text]
    assert await window(tk, FORK) == spoken(3)


async def test_rollouts_that_begin_in_each_other_break_nothing(tk: Threadkeep, tmp_path: Path) -> None:
    """Codex writes no such rollouts; every line is kept, and it is said that the circle was not followed."""
    one = put(rollout(tmp_path, THREAD), *numbered([based(THREAD, FORK, 8), *turn(1)]))
    other = put(rollout(tmp_path, FORK), *numbered([based(FORK, THREAD, 8), *turn(2)]))
    for files in ((one, other), (other, one)):
        report = await bring_in(tk, *files)
        assert {problem.text.partition(", ")[2] for problem in report.problems} == {
            "too far back or in a circle; its own lines are here"
        }
    said = [await window(tk, row.id) for row in await tk.threads()]
    assert all(any(spoken(number)[0] in items for items in said) for number in (1, 2))
    assert (await tk.verify()).ok


async def test_what_is_wrong_in_a_parent_is_said_once(tk: Threadkeep, tmp_path: Path) -> None:
    """Whether the parent is imported too or is only read for its child."""
    parent = put(rollout(tmp_path, THREAD), *numbered([meta(history_mode="paginated")]), "garbage", *numbered(turn(1), start=1))
    child = put(rollout(tmp_path, FORK), *numbered([based(FORK, THREAD, 8), *turn(2)], start=8))
    said = ImportProblem(source=str(parent), line=2, text="not a JSON object")
    assert (await bring_in(tk, child)).problems == (said,)
    async with Threadkeep(Config(store="memory:")) as other:
        assert (await bring_in(other, tmp_path)).problems == (said,)


async def test_a_child_whose_parent_is_gone_does_not_go_on_in_the_fork(tk: Threadkeep, tmp_path: Path) -> None:
    """The fork has a history that no line of the file repeats; alone, the file is a thread by itself."""
    parent = put(rollout(tmp_path, THREAD), *numbered([meta(history_mode="paginated"), *turn(1)]))
    child = put(rollout(tmp_path, FORK), *numbered([based(FORK, THREAD, 8), *turn(2)], start=8))
    await bring_in(tk, child)
    parent.unlink()
    report = await bring_in(tk, child)
    assert [thread.id for thread in report.threads] == [f"{FORK}-1"]
    assert (await window(tk, FORK), await window(tk, f"{FORK}-1")) == ([*spoken(1), *spoken(2)], spoken(2))
    assert [thread.added for thread in (await bring_in(tk, child)).threads] == [0]
    assert (await tk.verify()).ok


async def test_a_parent_that_cannot_be_read_costs_its_child_nothing_more(tk: Threadkeep, tmp_path: Path) -> None:
    """It is said, and the lines there are become a thread."""
    rollout(tmp_path, THREAD).with_suffix(".jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"no frame")
    child = put(rollout(tmp_path, FORK), *numbered([based(FORK, THREAD, 8), *turn(2)], start=8))
    report = await bring_in(tk, child)
    assert [problem.text.split(":")[0] for problem in report.problems] == [f"it begins in rollout {THREAD}"]
    assert await window(tk, FORK) == spoken(2)


async def test_a_chain_of_any_length_breaks_nothing(tk: Threadkeep, tmp_path: Path) -> None:
    """Too many rollouts that each begin in the next are followed as far as is sensible, which is said."""
    names = [f"{THREAD[:-4]}{number:04}" for number in range(MOST_BASES + 3)]
    put(rollout(tmp_path, names[0]), *numbered([meta(names[0]), *turn(1)]))
    for number, (before, name) in enumerate(pairwise(names), start=1):
        put(rollout(tmp_path, name), *numbered([based(name, before, 8 * number), *turn(2)], start=8 * number))
    report = await bring_in(tk, rollout(tmp_path, names[-1]))
    text = f"it begins in rollout {names[1]}, too far back or in a circle; its own lines are here"
    assert [problem.text for problem in report.problems] == [text]
    assert len(await window(tk, names[-1])) == len(spoken(2)) * (MOST_BASES + 1)
    assert (await tk.verify(await tk.find(names[-1]))).ok


async def test_a_name_that_leads_elsewhere_is_no_rollout(tk: Threadkeep, tmp_path: Path) -> None:
    """What a line calls its parent is looked for in no other folder."""
    put(tmp_path / "other" / "rollout-x.jsonl", *numbered([meta(THREAD), *turn(1)]))
    child = put(tmp_path / "sessions" / "r.jsonl", *numbered([based(FORK, "/../../other/rollout-x", 8), *turn(2)], start=8))
    report = await bring_in(tk, child)
    assert [problem.text.endswith("which is not here; import both to have all of it") for problem in report.problems] == [True]
    assert [row.id for row in await tk.threads()] == [FORK]
