"""Rollouts larger than memory should be: what an import holds does not grow with them, and a killed one goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.transfer.rollouts import THREAD, answer, bring_in, call, event, item, line, meta, output, user, window, written

from threadkeep import Config, Threadkeep
from threadkeep.transfer.importer import Importer

pytestmark = pytest.mark.slow

# Imports a file and prints the most memory the process ever held, in KiB; ends as a kill would once `stop` bytes were read.
IMPORT = """
import asyncio, os, resource, sys
from pathlib import Path
from threadkeep import Config, Threadkeep
from threadkeep.transfer.importer import Importer

async def main(store, source, stop):
    def progress(path, read):
        if stop and read >= stop:
            os._exit(9)
    async with Threadkeep(Config(store=store)) as tk:
        await Importer(tk.backend).run([Path(source)], progress=progress)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def grow(path: Path, megabytes: int) -> Path:
    """Write a rollout of that size: long outputs, and a compaction every twenty turns."""
    with path.open("w") as stream:
        stream.write(json.dumps(meta()) + "\n")
        number = 0
        while stream.tell() < megabytes << 20:
            number += 1
            turn = [item(user(f"question {number}"))]
            for step in range(6):
                called = f"c{number}_{step}"
                turn += [item(call(called)), item(output(called, f"{number} {step} " + "lorem ipsum " * 300))]
            turn.append(item(answer(f"answer {number}")))
            if number % 20 == 0:
                turn.append(line("compacted", {"message": "", "replacement_history": [user(f"so far {number}")]}))
            stream.writelines(json.dumps(each) + "\n" for each in turn)
    return path


def run(store: Path, source: Path, *, stop: int = 0) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", IMPORT, str(store), str(source), str(stop)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Nine times the file costs less than half of the difference in memory; holding its lines would cost all of it."""
    small = run(tmp_path / "small.db", grow(tmp_path / "small.jsonl", 2))
    large = run(tmp_path / "large.db", grow(tmp_path / "large.jsonl", 18))
    assert (small.returncode, large.returncode) == (0, 0), large.stderr
    assert int(large.stdout) - int(small.stdout) < (16 << 10) // 2


@pytest.mark.anyio
async def test_an_import_that_was_killed_is_completed(tmp_path: Path) -> None:
    """What the killed process had written is found, the rest added; the records are those of an import in one go."""
    source = grow(tmp_path / "r.jsonl", 3)
    killed = run(tmp_path / "killed.db", source, stop=2 << 20)
    assert killed.returncode == 9
    async with Threadkeep(Config(store=str(tmp_path / "killed.db"))) as tk, Threadkeep(Config(store="memory:")) as other:
        before = (await tk.backend.store.get(THREAD)).next
        report = await bring_in(tk, source)
        await bring_in(other, source)
        records = [record.body for record in await (await tk.find(THREAD)).records()]
        assert 1 < before < len(records)
        assert [thread.added for thread in report.threads] == [len(records) - before]
        assert records == [record.body for record in await (await other.find(THREAD)).records()]
        assert (await tk.verify()).ok


@pytest.mark.anyio
async def test_a_rollback_reaches_back_over_thousands_of_turns(tmp_path: Path) -> None:
    """It takes back as many turns as it says; one of more turns than there are goes back to the first."""
    turns, back = 3_000, 2_007
    path = tmp_path / "r.jsonl"
    path.write_bytes(written(meta(), *(item(user(f"question {number}")) for number in range(turns))))
    async with Threadkeep(Config(store="memory:")) as tk:
        importer = Importer(tk.backend, growing=True)
        await importer.run([path])
        with path.open("ab") as stream:
            stream.write(written(event("thread_rolled_back", num_turns=back), item(user("onward"))))
        assert (await importer.run([path])).problems == ()
        expected = [user(f"question {number}") for number in range(turns - back)]
        assert await window(tk, THREAD) == [*expected, user("onward")]
        with path.open("ab") as stream:
            stream.write(written(event("thread_rolled_back", num_turns=turns), item(user("from the start"))))
        await importer.run([path])
        assert await window(tk, THREAD) == [user("from the start")]
        assert [thread.added for thread in (await bring_in(tk, path)).threads] == [0]
