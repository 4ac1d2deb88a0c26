"""`holdfast show --plot`: how large the window was, over the life of a thread."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.stories import Cli, grown, stored

from holdfast import Holdfast
from holdfast.cli.plot import columns_of, rows_of
from holdfast.viewer.series import Series


async def thrice_compacted(hf: Holdfast) -> None:
    thread = await grown(hf, "long", turns=2)
    for _ in range(3):
        await thread.compact()
        await grown(hf, "long", turns=4)


def test_bars_stand_beside_each_other_and_limits_above_them() -> None:
    """A row is as wide as there are bars; a bar of the top's height fills them all, the least of it shows a mark."""
    assert rows_of([0, 1, 4, 8], top=8, rows=2, blocks=" ▄█") == ["   █", " ▄██"]


def test_a_stretch_shows_its_largest_window_and_an_empty_one_what_was_there() -> None:
    """Ten records in five columns: the second compacted, nothing said in the fourth."""
    series = Series(
        ordinals=[0, 1, 2, 3, 5, 8, 9],
        at_ms=[0] * 7,
        window=[1, 5, 7, 2, 3, None, 6],
        compactions=[(3, 0, 7, 2)],
        upto=10,
    )
    assert columns_of(series, width=5) == ([5, 7, 3, 3, 6], {1})


def test_the_plot_shows_every_compaction(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three marks below, three rows of a table, and as many columns as the terminal has room for."""
    monkeypatch.setenv("COLUMNS", "60")
    path = stored(home / "long.db", thrice_compacted)
    ran = cli("show", "long", "--plot", "--store", path)
    assert (ran.code, ran.err) == (0, "")
    told = cli("show", "long", "--plot", "--json", "--store", path).json
    lines = ran.out.splitlines()
    assert lines[0] == f"long  tokens in the window over {told['upto']} records"
    assert max(map(len, lines)) <= 60
    (axis,) = [line for line in lines if "└" in line]
    assert (axis.count("▲"), sum("│" in line or "┤" in line for line in lines)) == (3, 12)
    listed = [line.split() for line in lines[-3:]]
    assert [row[:3] for row in listed] == [
        [f"#{at}", f"{before:,}", f"{after:,}"] for at, _, before, after in told["compactions"]
    ]


def test_the_points_are_there_for_machines(cli: Cli, home: Path) -> None:
    """`--json` prints the columns behind the plot."""
    path = stored(home / "long.db", thrice_compacted)
    told = cli("show", "long", "--plot", "--json", "--store", path).json
    assert told["thread"] == "long"
    assert len(told["ordinals"]) == len(told["window"]) == len(told["at_ms"])
    assert [len(compaction) for compaction in told["compactions"]] == [4, 4, 4]


def test_a_thread_without_items_has_no_plot(cli: Cli, home: Path) -> None:
    """It says so."""
    path = stored(home / "new.db", lambda hf: hf.thread("new"))
    ran = cli("show", "new", "--plot", "--store", path)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "nothing was recorded yet")
