"""The tour runs offline, prints what its comments promise, and leaves a sound store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from examples.tour import tour
from tests.cli.stories import surroundings


@pytest.mark.anyio
async def test_the_tour_shows_what_its_comments_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The compacted window holds every message of the user, the old output is recalled, and the undo is exact."""
    await tour(tmp_path / "tour.db")
    before, after, recalled, fork, undone, verified = capsys.readouterr().out.split("\n== ")[1:]
    people_said = [line.partition("|")[2].strip() for line in before.splitlines() if line.strip().startswith("user |")]
    assert len(people_said) == 6
    assert [text for text in people_said if text not in after] == []
    assert "run id: mig-7f3a91c2" not in after
    assert "Recalled new-ledger#14: run id: mig-7f3a91c2" in recalled
    assert "The fork has 4 turns, the thread 6." in fork
    assert "the old one: True" in undone
    assert "0 problems" in verified


@pytest.mark.slow
def test_it_runs_as_its_first_lines_say() -> None:
    """`python examples/tour.py` needs no argument, key or network."""
    root = Path(__file__).resolve().parents[2]
    line = [sys.executable, str(root / "examples" / "tour.py")]
    ran = subprocess.run(line, env=surroundings(), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.endswith("0 problems\n")
