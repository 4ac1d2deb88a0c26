"""Several imports at the same time, and files that others move, write and remove meanwhile."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from tests.transfer.rollouts import FORK, THREAD, bring_in, event, line, meta, put, spoken, turn, user, window

from threadkeep import Config, Threadkeep
from threadkeep.errors import UnreadableTranscript
from threadkeep.transfer.importer import Importer, ImportProblem

pytestmark = pytest.mark.anyio

# Long enough for many appends, each of which another import may come before.
LONG = [each for number in range(400) for each in turn(number)]


async def test_imports_of_one_file_at_the_same_time_make_one_thread(tmp_path: Path) -> None:
    """Each finds what the others wrote; together they add every record once."""
    # The oldest form of a compaction is read from what was said before it, and from nothing that another import wrote behind it.
    old_form = line("compacted", {"message": "old form"})
    compacted = line("compacted", {"message": "s", "replacement_history": [user("s")]})
    source = put(tmp_path / "a.jsonl", meta(), old_form, *LONG[:1500], old_form, *LONG[1500:], compacted)
    store = str(tmp_path / "s.db")
    async with (
        Threadkeep(Config(store=store)) as one,
        Threadkeep(Config(store=store)) as two,
        Threadkeep(Config(store=store)) as three,
    ):
        reports = await asyncio.gather(*(bring_in(each, source) for each in (one, two, three)))
        assert [thread.id for report in reports for thread in report.threads] == [THREAD] * 3
        records = len(await (await one.find(THREAD)).records())
        assert sum(thread.added for report in reports for thread in report.threads) in range(records - 1, records + 1)
        assert [row.id for row in await one.threads()] == [THREAD]
        assert await window(one, THREAD) == [user("s")]
        assert (await one.verify()).ok


async def test_folders_imported_at_the_same_time_arrive_whole(tmp_path: Path) -> None:
    """Forks, compactions and rollbacks are laid down once, whoever comes first."""
    put(tmp_path / "in" / "a.jsonl", meta(), *LONG[:700], event("thread_rolled_back", num_turns=3))
    put(tmp_path / "in" / "b.jsonl", meta(FORK, forked_from_id=THREAD), meta(), *LONG[:700], *turn(900))
    store = str(tmp_path / "s.db")
    async with (
        Threadkeep(Config(store=store)) as one,
        Threadkeep(Config(store=store)) as two,
        Threadkeep(Config(store="memory:")) as alone,
    ):
        reports = await asyncio.gather(bring_in(one, tmp_path / "in"), bring_in(two, tmp_path / "in"))
        await bring_in(alone, tmp_path / "in")
        assert [problem for report in reports for problem in report.problems] == []
        for thread_id in (THREAD, FORK):
            assert await window(one, thread_id) == await window(alone, thread_id)
        assert sorted(row.id for row in await one.threads()) == sorted((THREAD, FORK))
        assert (await one.verify()).ok


@pytest.mark.slow
async def test_processes_that_import_one_file_all_succeed(tmp_path: Path) -> None:
    """The command, three times at once, on one store."""
    source = put(tmp_path / "a.jsonl", meta(), *LONG)
    words = ["import", str(source), "--store", str(tmp_path / "s.db"), "--json"]
    code = f"import sys; from threadkeep.cli import main; sys.exit(main({words!r}))"
    ended = await asyncio.gather(*(anyio.run_process([sys.executable, "-c", code], check=False) for _ in range(3)))
    assert [(each.returncode, each.stderr) for each in ended] == [(0, b"")] * 3
    async with Threadkeep(Config(store=str(tmp_path / "s.db"))) as tk:
        assert [row.id for row in await tk.threads()] == [THREAD]
        assert await window(tk, THREAD) == [each for number in range(400) for each in spoken(number)]
        assert (await tk.verify()).ok


async def test_what_another_writer_says_in_the_middle_of_an_import_is_kept(tmp_path: Path) -> None:
    """The import looks again, leaves the thread where the other went on, and reports what it added."""
    source = put(tmp_path / "a.jsonl", meta(), *LONG)
    said: list[str] = []

    async def say() -> None:
        async with Threadkeep(Config(store=str(tmp_path / "s.db"))) as other:
            for thread in await other.threads():
                if (await other.backend.store.get(thread.id)).next > 2:
                    await (await other.find(thread.id)).record([user("said here")])
                    said.append(thread.id)

    def interrupt(path: Path, read: int) -> None:
        if not said:
            with ThreadPoolExecutor() as elsewhere:
                elsewhere.submit(lambda: asyncio.run(say())).result()

    async with Threadkeep(Config(store=str(tmp_path / "s.db"))) as tk:
        (thread,) = (await Importer(tk.backend).run([source], progress=interrupt)).threads
        assert (said, thread.id[: len(THREAD) + 1]) == ([THREAD], f"{THREAD}-")
        assert (await window(tk, THREAD))[-1] == user("said here")
        assert await window(tk, thread.id) == [each for number in range(400) for each in spoken(number)]
        assert thread.added == len(await (await tk.find(thread.id)).records()) - 1
        assert (await tk.verify()).ok


async def test_a_file_that_is_watched_may_disappear_and_come_back(tk: Threadkeep, tmp_path: Path) -> None:
    """That it is gone is said once; what it says when it is back is added."""
    path = put(tmp_path / "a.jsonl", meta(), *turn(1))
    importer = Importer(tk.backend, growing=True)
    await importer.run([path])
    path.unlink()
    gone = ImportProblem(source=str(path), line=0, text=f"{str(path)!r} cannot be imported: No such file or directory")
    assert (await importer.run([path])).problems == (gone,)
    assert (await importer.run([path])).problems == ()
    put(path, meta(), *turn(1), *turn(2))
    await importer.run([path])
    assert await window(tk, THREAD) == [*spoken(1), *spoken(2)]
    path.unlink()
    assert (await importer.run([path])).problems == (gone,)


async def test_a_folder_that_is_watched_may_disappear(tk: Threadkeep, tmp_path: Path) -> None:
    """As a file may."""
    path = put(tmp_path / "in" / "a.jsonl", meta(), *turn(1))
    importer = Importer(tk.backend, growing=True)
    await importer.run([tmp_path / "in"])
    path.unlink()
    path.parent.rmdir()
    assert [problem.source for problem in (await importer.run([tmp_path / "in"])).problems] == [str(tmp_path / "in")]
    put(path, meta(), *turn(1), *turn(2))
    await importer.run([tmp_path / "in"])
    assert await window(tk, THREAD) == [*spoken(1), *spoken(2)]


async def test_a_file_that_was_never_there_cannot_be_watched(tk: Threadkeep, tmp_path: Path) -> None:
    """A wrong name is an error at once, not something to wait for."""
    with pytest.raises(UnreadableTranscript, match="No such file or directory"):
        await Importer(tk.backend, growing=True).run([tmp_path / "wrong.jsonl"])


async def test_what_cannot_be_read_in_a_watched_folder_is_said_once(tk: Threadkeep, tmp_path: Path) -> None:
    """A file of something else beside the transcripts is no news each second."""
    (tmp_path / "notes.json").write_text('"nothing to import"')
    importer = Importer(tk.backend, growing=True)
    assert len((await importer.run([tmp_path])).problems) == 1
    assert (await importer.run([tmp_path])).problems == ()
