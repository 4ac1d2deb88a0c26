"""Rollback, fork, resume and undo across three checkpoints, whichever strategy made them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.drafting.replies import SUMMARY, block
from tests.parity.vocabulary import OFFERED, SPEECHES, Json, Speech, config, of_kind, play, turn, turns

from threadkeep import Thread, Threadkeep
from threadkeep.store import RecordKind
from threadkeep.testing.scripted_model import Compacts, ScriptedRemoteModel, Step, says

pytestmark = pytest.mark.anyio

STRATEGIES = ("session", "handoff", "remote", "extractive")
CASES = [(speech, name) for speech in SPEECHES for name in STRATEGIES if name != "remote" or speech in OFFERED]
ROOM = 200_000
ISSUER = "here#1"


def opaque(speech: Speech, number: int) -> Json:
    """What only the provider can read, as each of them writes it."""
    if speech.dialect == "messages":
        return {"role": "assistant", "content": [{"type": "compaction", "content": f"sealed {number}"}]}
    if speech.dialect == "responses":
        return {"type": "compaction", "encrypted_content": f"sealed {number}"}
    return {"role": "assistant", "compaction": f"sealed {number}"}


def steps(strategy: str, speech: Speech) -> list[Step]:
    match strategy:
        case "session":
            return [says(block(active=f"Finding {number} (#1)", handoff="go on")) for number in (1, 2, 3)]
        case "handoff":
            return [says(f"{SUMMARY} Hop {number}.") for number in (1, 2, 3)]
        case "remote":
            return [Compacts(items=(opaque(speech, number),)) for number in (1, 2, 3)]
        case _:
            return []


class Compacted:
    """A thread with three checkpoints, and what its window was at every step."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.windows: list[list[Json]] = []

    async def look(self) -> None:
        self.windows.append(await shown(self.thread))


async def shown(thread: Thread) -> list[Json]:
    """Return the window as the model that made its checkpoints is sent it, what only its provider can read among it."""
    return list(await thread.window(issuer=ISSUER))


Case = tuple[Speech, str]


@pytest.fixture(params=CASES, ids=[f"{speech.dialect}-{strategy}" for speech, strategy in CASES])
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture
def speech(case: Case) -> Speech:
    return case[0]


@pytest.fixture
def strategy(case: Case) -> str:
    return case[1]


@pytest.fixture
async def compacted(tk: Threadkeep, speech: Speech, strategy: str) -> AsyncIterator[Compacted]:
    """Three times five turns and a compaction: windows 0, 2, 4 are those before each, 1, 3, 5 those after."""
    thread = await tk.thread("t", dialect=speech.dialect)
    made = Compacted(thread)
    async with ScriptedRemoteModel(steps(strategy, speech), dialect=speech.dialect, window_tokens=ROOM, issuer=ISSUER) as model:
        for hop in range(3):
            await play(thread, speech, 6 * hop + 1, 6 * hop + 6)
            await made.look()
            report = await thread.compact(strategy=strategy, model=None if strategy == "extractive" else model)
            assert (report.strategy, report.fell_back_from) == (strategy, None)
            await made.look()
        yield made


async def test_undo_takes_back_one_compaction_after_the_other(compacted: Compacted) -> None:
    """Each undo restores the window from before its compaction, back to the whole history."""
    thread = compacted.thread
    for before in (4, 2):
        await thread.undo()
        assert await shown(thread) == compacted.windows[before]
        await thread.rollback(turns=6)
        assert await shown(thread) == compacted.windows[before - 1]
    await thread.undo()
    assert await shown(thread) == compacted.windows[0]


async def test_a_restart_shows_the_same_window(compacted: Compacted, store_file: Path) -> None:
    """Another process reads what this one saw."""
    async with Threadkeep(config(store_file)) as again:
        assert await shown(await again.thread("t")) == compacted.windows[5]
        assert (await again.verify()).problems == ()


async def test_a_rollback_into_an_older_span_brings_its_window_back(compacted: Compacted, speech: Speech) -> None:
    """A rollback of seven turns, to before the second checkpoint, restores the window of that time."""
    thread = compacted.thread
    await thread.rollback(turns=7)
    kept = compacted.windows[2][: -len(turn(speech, 12))]
    assert kept[-len(turn(speech, 11)) :] == turn(speech, 11)
    assert await shown(thread) == kept
    await thread.record(turn(speech, 40))
    assert await shown(thread) == [*kept, *turn(speech, 40)]
    assert (await of_kind(thread, RecordKind.ROLLBACK))[0].kind is RecordKind.ROLLBACK


async def test_a_fork_before_every_checkpoint_sees_the_uncompacted_history(compacted: Compacted, speech: Speech) -> None:
    """Five turns in, nothing was compacted yet."""
    child = await compacted.thread.fork(before_turn=6)
    assert await shown(child) == turns(speech, 1, 5)
    assert compacted.windows[0] == turns(speech, 1, 6)


async def test_a_fork_at_the_end_goes_on_from_the_same_window(compacted: Compacted, speech: Speech) -> None:
    """Parent and child share every byte up to the fork, and nothing after it."""
    child = await compacted.thread.fork()
    assert await shown(child) == compacted.windows[5]
    await child.record(turn(speech, 50))
    assert await shown(compacted.thread) == compacted.windows[5]


async def test_every_window_holds_one_state_and_every_user_rule(compacted: Compacted) -> None:
    """After three hops the requests of all eighteen turns are told, and there is one state block."""
    text = "\n".join(str(item) for item in compacted.windows[5])
    assert text.count("The earlier part of this session was compacted.") == 1
    for number in range(1, 19):
        assert f"Please look into part {number} of the parser." in text


async def test_what_a_provider_sealed_stands_first_in_its_own_windows_and_in_no_others(
    compacted: Compacted, speech: Speech, strategy: str
) -> None:
    """After each hop the newest alone; an account that did not write it is sent the window without it."""
    sealed = [[item for item in window if "sealed" in str(item)] for window in compacted.windows[1::2]]
    made = [[opaque(speech, number)] if strategy == "remote" else [] for number in (1, 2, 3)]
    assert sealed == made
    assert list(await compacted.thread.window(issuer="elsewhere#2")) == compacted.windows[5][len(made[2]) :]
