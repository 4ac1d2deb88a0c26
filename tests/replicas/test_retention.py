"""Erased on request: in no record, no index, no window, no memory, in every store; and everything, in one's own hands."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conftest import ManualClock

from threadkeep import Config, Threadkeep
from threadkeep.cli import main
from threadkeep.erasure.erase import ErasurePlan, ErasureReport, erase, plan_erasure
from threadkeep.errors import RecordNotFound
from threadkeep.memory.memory import Memories
from threadkeep.store import RecordKind, Span
from threadkeep.threads.erasure_notes import ErasureNote

pytestmark = pytest.mark.anyio

SECRET = "The maiden name of Zsofia Kadarkuti must never be shown."
WORD = b"Kadarkuti"


def turn(number: int, text: str) -> list[dict[str, object]]:
    call: dict[str, object] = {
        "type": "function_call",
        "call_id": f"c{number}",
        "name": "shell",
        "arguments": json.dumps({"command": text}),
    }
    return [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
        call,
        {"type": "function_call_output", "call_id": f"c{number}", "output": f"looked up: {text} " * 30},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"You said: {text}"}]},
    ]


@pytest.fixture(params=["memory:", "sqlite", "postgres"])
async def tk(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Threadkeep]:
    """A thread in which somebody said something, compacted twice, with a fork, and remembered."""
    store = {"memory:": "memory:", "sqlite": str(tmp_path / "s.db"), "postgres": ""}[request.param]
    if not store:
        store = await request.getfixturevalue("postgres_server").new_store()
    async with Threadkeep(Config(store=store, model_context_window=4_000), clock=clock) as opened:
        thread = await opened.thread("told")
        for number in range(4):
            await thread.record(turn(number, f"You must never rename table_{number}."))
        await thread.record(turn(4, SECRET))
        for number in range(5, 9):
            await thread.record(turn(number, f"You must never rename table_{number}."))
        await thread.compact()
        fork = await thread.fork(new_id="forked")
        for each, first in ((thread, 20), (fork, 40)):
            for number in range(first, first + 5):
                await each.record(turn(number, f"You must never rename table_{number}."))
            await each.compact()
        clock.ms += 7 * 3_600_000
        await Memories(opened.backend).run()
        yield opened


async def where(tk: Threadkeep, word: bytes) -> list[str]:
    """Return every record of the store whose bytes hold a word."""
    found: list[str] = []
    for row in await tk.backend.store.threads(limit=100):
        records = await tk.backend.store.read(Span(thread_id=row.id, start=0, stop=10**6))
        found += [f"{row.id}#{record.ordinal} {record.kind}" for record in records if word in record.body]
    return found


async def erased(tk: Threadkeep, plan: ErasurePlan) -> ErasureReport:
    async def recompact(thread_id: str) -> object:
        return await (await tk.find(thread_id)).compact(strategy="extractive")

    return await erase(tk.backend, plan, reason="asked to", memories=Memories(tk.backend), recompact=recompact)


async def said_in(tk: Threadkeep) -> list[int]:
    records = await tk.backend.store.read(Span(thread_id="told", start=0, stop=10**6), kinds={RecordKind.ITEM})
    return [record.ordinal for record in records if WORD in record.body]


async def test_what_is_erased_is_nowhere(tk: Threadkeep) -> None:
    """Bytes, previews, checkpoints here and in the fork, memories, search: nothing holds a word of it; the rest verifies."""
    before = await where(tk, WORD)
    assert {place.split()[1] for place in before} >= {"item", "turn", "checkpoint", "note"}
    plan = await plan_erasure(tk.backend, "told", await said_in(tk))
    report = await erased(tk, plan)
    assert await where(tk, WORD) == []
    for name in ("told", "forked"):
        thread = await tk.find(name)
        window = await thread.window()
        assert WORD.decode() not in str(list(window))
        assert all("Kadarkuti" not in hit.text for hit in await thread.recall("maiden name of Zsofia Kadarkuti"))
        assert "table_3" in str(list(window))
    assert set(report.recompacted) == {"told", "forked"}
    assert (await tk.verify()).problems == ()
    assert "Kadarkuti" not in await Memories(tk.backend).page()


async def test_an_erasure_is_noted_and_its_rest_remembered(tk: Threadkeep, clock: ManualClock) -> None:
    """The thread says that it was done and why, and nothing of what; the other rules are remembered again."""
    asked = await said_in(tk)
    await erased(tk, await plan_erasure(tk.backend, "told", asked))
    notes = await tk.backend.store.read(Span(thread_id="told", start=0, stop=10**6), kinds={RecordKind.NOTE})
    said = json.loads(notes[-1].body)
    assert (said["note"], said["asked"], said["reason"]) == (ErasureNote.__struct_config__.tag, asked, "asked to")
    clock.ms += 7 * 3_600_000
    memories = Memories(tk.backend)
    await memories.run()
    page = await memories.page()
    assert ("table_2" in page, "Kadarkuti" in page) == (True, False)


async def test_one_half_of_a_call_takes_the_other_along(tk: Threadkeep) -> None:
    """Asked to erase an output, its call goes too: no window is left with half a pair."""
    records = await tk.backend.store.read(Span(thread_id="told", start=0, stop=10**6), kinds={RecordKind.ITEM})
    output = next(record.ordinal for record in records if b'"function_call_output"' in record.body and WORD in record.body)
    plan = await plan_erasure(tk.backend, "told", [output])
    assert {output, output - 1} <= set(plan.ordinals)
    await erased(tk, plan)
    assert (await tk.verify()).problems == ()


async def test_a_whole_thread_can_go(tk: Threadkeep) -> None:
    """Nothing of what it said is left, in its forks neither; it is put away, and its place stays."""
    await erased(tk, await plan_erasure(tk.backend, "told"))
    assert await where(tk, WORD) == []
    assert await where(tk, b"table_3") == []
    assert list(await (await tk.find("told")).window()) == []
    assert "table_44" in str(list(await (await tk.find("forked")).window()))
    assert [thread.id for thread in await tk.threads()] == ["forked"]
    assert (await tk.verify()).problems == ()


async def test_erasing_twice_is_erasing_once(tk: Threadkeep) -> None:
    """A plan carried out again finds nothing left to do, and does no harm."""
    asked = await said_in(tk)
    await erased(tk, await plan_erasure(tk.backend, "told", asked))
    await erased(tk, await plan_erasure(tk.backend, "told", asked))
    assert await where(tk, WORD) == []
    assert (await tk.verify()).problems == ()


async def test_a_record_that_is_not_there_is_refused(tk: Threadkeep) -> None:
    """Bad input costs nothing: the plan names what is missing, and nothing was erased."""
    with pytest.raises(RecordNotFound):
        await plan_erasure(tk.backend, "told", [3, 99_999])
    assert await where(tk, WORD)


def test_the_commands_plan_first_and_take_everything_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`erase` without --yes changes nothing; with it the word is gone; `takeout` writes down what is there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THREADKEEP_STORE", str(tmp_path / "s.db"))
    Path("talk.json").write_text(json.dumps([*turn(1, "hello there"), *turn(2, SECRET)]), encoding="utf-8")
    assert main(["import", "talk.json", "--format", "responses"]) == 0
    capfd.readouterr()
    assert main(["threads", "--json"]) == 0
    thread = json.loads(capfd.readouterr().out)["threads"][0]["id"]
    assert main(["erase", thread, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["done"] is None
    assert main(["takeout", "-o", "before", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["threads"] == 1
    assert main(["erase", thread, "--yes"]) == 0
    assert main(["takeout", "-o", "after"]) == 0
    assert main(["takeout", "-o", "after"]) == 1
    before = b"".join(path.read_bytes() for path in Path("before").rglob("*.*"))
    after = b"".join(path.read_bytes() for path in Path("after").rglob("*.*"))
    assert (WORD in before, WORD in after) == (True, False)
    assert main(["verify"]) == 0
