"""Rollouts that share a history: forks by copy, forks by reference, reverted threads, several metas."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.transfer.rollouts import FORK, THREAD, Json, bring_in, event, kinds, meta, put, spoken, turn, window

from holdfast import Holdfast

pytestmark = pytest.mark.anyio


def numbered(lines: list[Json], *, start: int = 0) -> list[Json]:
    """Give lines the ordinals of a paginated rollout."""
    return [{**each, "ordinal": start + index} for index, each in enumerate(lines)]


def based(thread_id: str, rollout_id: str, end: int) -> Json:
    base = {"thread_id": rollout_id, "end_ordinal_exclusive": end, "end_byte_offset": 0}
    return meta(thread_id, history_mode="paginated", history_base=base)


async def test_a_fork_by_copy_arrives_as_a_fork(hf: Holdfast, tmp_path: Path) -> None:
    """The lines it copied are its parent's records; its own begin where the copy ends."""
    source = [meta(), *turn(1), *turn(2)]
    copied = put(tmp_path / "b.jsonl", meta(FORK, forked_from_id=THREAD), *source, *turn(3))
    await bring_in(hf, put(tmp_path / "a.jsonl", *source), copied)
    assert await window(hf, FORK) == [*spoken(1), *spoken(2), *spoken(3)]
    assert (await kinds(hf, FORK))[:3] == ["meta", "note", "note"]
    assert [(summary.id, summary.parent) for summary in await hf.threads()] == [(FORK, THREAD), (THREAD, None)]
    put(tmp_path / "b.jsonl", meta(FORK, forked_from_id=THREAD), *source, *turn(3), *turn(4))
    put(tmp_path / "a.jsonl", *source, *turn(5))
    again = await bring_in(hf, tmp_path)
    assert sum(thread.added for thread in again.threads) == 2 * len(turn(1)) + 2
    assert await window(hf, FORK) == [*spoken(1), *spoken(2), *spoken(3), *spoken(4)]
    assert await window(hf, THREAD) == [*spoken(1), *spoken(2), *spoken(5)]
    assert (await hf.verify()).ok


async def test_a_fork_by_copy_in_the_middle_shares_what_it_copied(hf: Holdfast, tmp_path: Path) -> None:
    """A fork that copied the first turn alone leaves its parent there."""
    source = [meta(), *turn(1), *turn(2)]
    first = [meta(FORK, forked_from_id=THREAD), meta(), *turn(1), *turn(3)]
    await bring_in(hf, put(tmp_path / "a.jsonl", *source), put(tmp_path / "b.jsonl", *first))
    assert await window(hf, FORK) == [*spoken(1), *spoken(3)]
    assert (await hf.backend.store.get(FORK)).parent == THREAD
    assert (await hf.verify()).ok


async def test_a_copy_whose_source_is_not_here_stands_by_itself(hf: Holdfast, tmp_path: Path) -> None:
    """Its several metas are data; imported again beside its source, it stays what it is."""
    source = [meta(), *turn(1)]
    copied = put(tmp_path / "b.jsonl", meta(FORK, forked_from_id=THREAD), *source, *turn(2))
    await bring_in(hf, copied)
    assert await window(hf, FORK) == [*spoken(1), *spoken(2)]
    again = await bring_in(hf, put(tmp_path / "a.jsonl", *source), copied)
    assert [(thread.id, thread.added > 0) for thread in again.threads] == [(THREAD, True), (FORK, False)]


async def test_a_fork_by_reference_begins_in_its_parent(hf: Holdfast, tmp_path: Path) -> None:
    """Only its own lines are in its file; the history before them is its parent's, up to the line it names."""
    parent = numbered([meta(history_mode="paginated"), *turn(1), *turn(2)])
    put(tmp_path / f"rollout-2026-01-02T03-04-05-{THREAD}.jsonl", *parent)
    child = numbered([based(FORK, THREAD, 8), *turn(3)], start=8)
    path = put(tmp_path / f"rollout-2026-01-02T03-04-06-{FORK}.jsonl", *child)
    await bring_in(hf, path)
    assert await window(hf, FORK) == [*spoken(1), *spoken(3)]
    assert (await hf.backend.store.get(FORK)).parent == THREAD
    await bring_in(hf, tmp_path)
    assert await window(hf, THREAD) == [*spoken(1), *spoken(2)]
    assert await window(hf, FORK) == [*spoken(1), *spoken(3)]
    again = await bring_in(hf, tmp_path)
    assert [thread.added for thread in again.threads] == [0, 0]
    assert (await hf.verify()).ok


async def test_a_rollback_can_reach_back_into_the_parent(hf: Holdfast, tmp_path: Path) -> None:
    """Turns before the fork count like any other."""
    parent = numbered([meta(history_mode="paginated"), *turn(1), *turn(2)])
    put(tmp_path / f"rollout-2026-01-02T03-04-05-{THREAD}.jsonl", *parent)
    rollback = event("thread_rolled_back", num_turns=2)
    child = numbered([based(FORK, THREAD, 15), *turn(3), rollback, *turn(4)], start=15)
    await bring_in(hf, put(tmp_path / f"rollout-2026-01-02T03-04-06-{FORK}.jsonl", *child))
    assert await window(hf, FORK) == [*spoken(1), *spoken(4)]
    assert (await hf.verify()).ok


async def test_a_reverted_thread_goes_on_in_a_thread_of_its_own(hf: Holdfast, tmp_path: Path) -> None:
    """It keeps its id in a second rollout: two histories, of which the older stays as it was."""
    parent = numbered([meta(history_mode="paginated"), *turn(1), *turn(2)])
    put(tmp_path / f"rollout-2026-01-02T03-04-05-{THREAD}.jsonl", *parent)
    child = numbered([based(THREAD, THREAD, 8), *turn(3)], start=8)
    put(tmp_path / f"rollout-2026-01-02T03-04-06-{THREAD}_{FORK}.jsonl", *child)
    report = await bring_in(hf, tmp_path)
    reverted = next(thread.id for thread in report.threads if thread.id != THREAD)
    assert reverted.startswith(f"{THREAD}-")
    assert await window(hf, reverted) == [*spoken(1), *spoken(3)]
    assert await window(hf, THREAD) == [*spoken(1), *spoken(2)]


async def test_a_parent_that_is_not_here_is_said(hf: Holdfast, tmp_path: Path) -> None:
    """The lines there are become a thread all the same."""
    child = numbered([based(FORK, THREAD, 8), *turn(3)], start=8)
    report = await bring_in(hf, put(tmp_path / "r.jsonl", *child))
    text = f"it begins in rollout {THREAD}, which is not here; import both to have all of it"
    assert [problem.text for problem in report.problems] == [text]
    assert await window(hf, FORK) == spoken(3)
