"""Every way back across three checkpoints, by every strategy on every wire: in this process, in a new one, for any account."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.drafting.test_branching import CASES, ISSUER, ROOM, Case, shown, steps
from tests.parity.vocabulary import Json, config, of_kind, play, turn, turns

from threadkeep import Thread, Threadkeep
from threadkeep.errors import NothingToUndo
from threadkeep.items import decode_json
from threadkeep.store import RecordKind
from threadkeep.testing.scripted_model import ScriptedRemoteModel, Step

pytestmark = pytest.mark.anyio

ELSEWHERE = "elsewhere#2"


@pytest.fixture(params=CASES, ids=[f"{speech.dialect}-{strategy}" for speech, strategy in CASES])
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


async def compact(thread: Thread, strategy: str, step: list[Step]) -> None:
    """Compact by `strategy` and no other."""
    async with ScriptedRemoteModel(step, dialect=thread.dialect.name, window_tokens=ROOM, issuer=ISSUER) as model:
        report = await thread.compact(strategy=strategy, model=None if strategy == "extractive" else model)
    assert (report.strategy, report.fell_back_from) == (strategy, None)


async def lived(tk: Threadkeep, case: Case) -> tuple[Thread, list[list[Json]]]:
    """Return a thread of three times six turns and a compaction; windows 0, 2, 4 are those before each, 1, 3, 5 those after."""
    speech, strategy = case
    thread = await tk.thread("t", dialect=speech.dialect)
    windows: list[list[Json]] = []
    replies = steps(strategy, speech)
    for hop in range(3):
        await play(thread, speech, 6 * hop + 1, 6 * hop + 6)
        windows.append(await shown(thread))
        await compact(thread, strategy, replies[hop : hop + 1])
        windows.append(await shown(thread))
    return thread, windows


async def agreed(thread: Thread, expected: list[Json], *, file: Path) -> None:
    """Check that this process and a new one show a window, and any other account the same without what it cannot read."""
    assert await shown(thread) == expected
    readable = [item for item in expected if "sealed" not in str(item)]
    async with Threadkeep(config(file)) as again:
        resumed = await again.thread(thread.id)
        assert await shown(resumed) == expected
        for account in (ELSEWHERE, None):
            assert list(await resumed.window(issuer=account)) == readable
        assert (await again.verify()).problems == ()


def followed(thread: Thread, window: list[Json], items: list[Json]) -> list[Json]:
    """Return a window with what came after it, as it is sent: where roles must alternate, two messages in a row are one."""
    dialect = thread.dialect
    return [decode_json(item.raw) for item in dialect.arrange([dialect.parse(item) for item in (*window, *items)])]


async def checkpoints(thread: Thread) -> list[int]:
    return [record.ordinal for record in await of_kind(thread, RecordKind.CHECKPOINT)]


async def test_three_undos_in_a_row_bring_the_whole_history_back(tk: Threadkeep, store_file: Path, case: Case) -> None:
    """Nothing is rolled back in between: each leaves the older checkpoint and everything since, the last the whole history."""
    thread, windows = await lived(tk, case)
    speech, _ = case
    for expected in (windows[4], [*windows[2], *turns(speech, 13, 18)], turns(speech, 1, 18)):
        await thread.undo()
        await agreed(thread, expected, file=store_file)
    with pytest.raises(NothingToUndo):
        await thread.undo()
    await thread.record(turn(speech, 30))
    await agreed(thread, [*turns(speech, 1, 18), *turn(speech, 30)], file=store_file)


async def test_a_rollback_to_any_turn_shows_what_was_shown_then(tk: Threadkeep, store_file: Path, case: Case) -> None:
    """Back over one, two and all three checkpoints, one rollback after the other, each resumed by a new process."""
    thread, windows = await lived(tk, case)
    speech, _ = case
    length = len(turn(speech, 1))
    for back, expected in ((1, windows[4][:-length]), (6, windows[2][:-length]), (6, turns(speech, 1, 5))):
        await thread.rollback(turns=back)
        await agreed(thread, expected, file=store_file)


async def test_forks_begin_before_and_after_each_checkpoint(tk: Threadkeep, store_file: Path, case: Case) -> None:
    """Before one the fork is shown what it was made of, from one on what it left; the parent notices none of them."""
    thread, windows = await lived(tk, case)
    speech, _ = case
    for number, ordinal in enumerate(await checkpoints(thread)):
        for at, window in ((ordinal, windows[2 * number]), (ordinal + 1, windows[2 * number + 1])):
            fork = await thread.fork(at=at, new_id=f"at-{at}")
            await agreed(fork, window, file=store_file)
            await fork.record(turn(speech, 30))
            await agreed(fork, followed(fork, window, turn(speech, 30)), file=store_file)
    await agreed(thread, windows[5], file=store_file)


async def test_what_was_taken_back_leaves_no_trace_in_the_next_compaction(
    tk: Threadkeep, store_file: Path, tmp_path: Path, case: Case
) -> None:
    """Back over two checkpoints and compacted anew, the window is that of a thread that never went there, numbers aside."""
    speech, strategy = case
    thread, windows = await lived(tk, case)
    await thread.rollback(turns=7)
    await play(thread, speech, 30, 35)
    before = await shown(thread)
    assert before == [*windows[2][: -len(turn(speech, 12))], *turns(speech, 30, 35)]
    last = steps(strategy, speech)[-1:]
    await compact(thread, strategy, last)
    after = await shown(thread)
    async with Threadkeep(config(tmp_path / "straight.db")) as other:
        straight = await other.thread("t", dialect=speech.dialect)
        await play(straight, speech, 1, 6)
        await compact(straight, strategy, steps(strategy, speech)[:1])
        await play(straight, speech, 7, 11)
        await play(straight, speech, 30, 35)
        await compact(straight, strategy, last)
        assert unnumbered(after) == unnumbered(await shown(straight))
    await agreed(thread, after, file=store_file)
    await thread.undo()
    await agreed(thread, before, file=store_file)


async def test_a_fork_goes_its_own_way_through_compaction_undo_and_rollback(tk: Threadkeep, store_file: Path, case: Case) -> None:
    """It inherits three checkpoints, makes a fourth, and goes back over all of them; its parent's window stays what it was."""
    speech, strategy = case
    thread, windows = await lived(tk, case)
    fork = await thread.fork(new_id="fork")
    await play(fork, speech, 30, 35)
    await compact(fork, strategy, steps(strategy, speech)[:1])
    compacted = await shown(fork)
    assert turn(speech, 30)[2] not in compacted
    await agreed(fork, compacted, file=store_file)
    for window in (windows[5], windows[4]):
        await fork.undo()
        await agreed(fork, followed(fork, window, turns(speech, 30, 35)), file=store_file)
    await fork.rollback(turns=13)
    await agreed(fork, windows[2][: -len(turn(speech, 12))], file=store_file)
    await agreed(thread, windows[5], file=store_file)


def unnumbered(window: list[Json]) -> str:
    """Return a window in which no record is named by its number."""
    return re.sub(r"#\d+", "#", json.dumps(window))
