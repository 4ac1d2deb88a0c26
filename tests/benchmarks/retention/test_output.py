"""What the command does beside measuring: it refuses folders that are not there, and draws where it can."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.command.main import run
from benchmarks.retention.plots import write_plots
from benchmarks.retention.run import Retained
from threadkeep.errors import BadInput


@pytest.mark.parametrize(("output", "plots"), [("gone/out.json", None), (None, "gone")])
def test_a_folder_that_is_not_there_is_refused_before_measuring(tmp_path: Path, output: str | None, plots: str | None) -> None:
    """Nobody waits for minutes to learn that the result has no place to go."""
    args = Namespace(
        what="retention",
        output=None if output is None else str(tmp_path / output),
        plots=None if plots is None else str(tmp_path / plots),
        full=False,
        seed=1,
        family="both",
        json=False,
    )
    with pytest.raises(BadInput, match="there is no folder"):
        run(args)


@pytest.mark.slow
@pytest.mark.anyio
async def test_curves_are_drawn_the_same_twice(tiny_run: Retained, tmp_path: Path) -> None:
    """One SVG and one PNG a family, byte for byte the same when drawn again."""
    pytest.importorskip("matplotlib", reason="plots need matplotlib (dependency group bench)")
    first = [path.read_bytes() for path in write_plots(tiny_run, tmp_path)]
    again = [path.read_bytes() for path in write_plots(tiny_run, tmp_path)]
    assert [drawn[:5] for drawn in first] == [b"<?xml", b"\x89PNG\r"]
    assert first == again
