"""`threadkeep show --plot`: how large the window was, over the life of a thread."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.stories import Cli, grown, stored

from threadkeep import Threadkeep
from threadkeep.cli.show import choose_scale, split_columns
from threadkeep.viewer.size_history import SizeHistory, draw_bars


async def thrice_compacted(tk: Threadkeep) -> None:
    thread = await grown(tk, "long", turns=2)
    for _ in range(3):
        await thread.compact()
        await grown(tk, "long", turns=4)


def test_bars_stand_beside_each_other_and_limits_above_them() -> None:
    """A row is as wide as there are bars; a bar of the top's height fills them all, the least of it shows a mark."""
    assert draw_bars([0, 1, 4, 8], top=8, rows=2, blocks=" ▄█") == ["   █", " ▄██"]


def test_the_scale_reaches_as_high_as_the_window_did() -> None:
    """Below the limit, far below it, just over it and far over it: the top is never less than what was reached."""
    assert choose_scale(200_000, limit=244_800) == (244_800, {0: "limit 244,800", 6: "122,400"})
    assert choose_scale(10_000, limit=244_800) == (10_000, {0: "10,000", 6: "5,000"})
    assert choose_scale(250_000, limit=244_800) == (267_055, {0: "267,055", 1: "limit 244,800", 6: "133,527"})
    assert choose_scale(1_340_000, limit=244_800) == (1_340_000, {0: "1,340,000", 6: "670,000", 10: "limit 244,800"})


def test_a_window_over_the_limit_is_drawn_over_it(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bars of a thread that outgrew its model end at what it holds, and the limit is named below."""
    monkeypatch.setenv("THREADKEEP_MODEL_CONTEXT_WINDOW", "2000")
    path = stored(home / "large.db", lambda tk: grown(tk, "large", turns=8))
    told = cli("show", "large", "--plot", "--json", "--store", path).json
    highest, limit = max(told["window"]), told["limits"]["hard"]
    assert highest > 2 * limit
    labels = [
        line.split("┤")[0].strip() for line in cli("show", "large", "--plot", "--store", path).out.splitlines() if "┤" in line
    ]
    assert (labels[0], f"limit {limit:,}" in labels[1:]) == (f"{highest:,}", True)


def test_a_stretch_shows_its_largest_window_and_an_empty_one_what_was_there() -> None:
    """Ten records in five columns: the second compacted, nothing said in the fourth."""
    series = SizeHistory(
        ordinals=[0, 1, 2, 3, 5, 8, 9],
        at_ms=[0] * 7,
        window=[1, 5, 7, 2, 3, None, 6],
        compactions=[(3, 0, 7, 2)],
        upto=10,
    )
    assert split_columns(series, width=5) == ([5, 7, 3, 3, 6], {1})


def test_the_plot_shows_every_compaction(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three marks below, and as many columns as the terminal has room for."""
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
    assert lines[-1] == "3 compactions; `threadkeep show long` lists them"


def test_the_points_are_there_for_machines(cli: Cli, home: Path) -> None:
    """`--json` prints the columns behind the plot."""
    path = stored(home / "long.db", thrice_compacted)
    told = cli("show", "long", "--plot", "--json", "--store", path).json
    assert told["thread"] == "long"
    assert len(told["ordinals"]) == len(told["window"]) == len(told["at_ms"])
    assert [len(compaction) for compaction in told["compactions"]] == [4, 4, 4]


def test_a_thread_without_items_has_no_plot(cli: Cli, home: Path) -> None:
    """It says so."""
    path = stored(home / "new.db", lambda tk: tk.thread("new"))
    ran = cli("show", "new", "--plot", "--store", path)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "nothing was recorded yet")
