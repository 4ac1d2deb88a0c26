"""Curves over compactions as SVG and PNG, where matplotlib is installed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

from benchmarks.retention.arms import EXTRACTIVE, FULL, NONE, SESSION, STATELESS, SUMMARISING
from benchmarks.retention.facts import USER_KINDS, FactKind
from benchmarks.retention.run import Retained
from benchmarks.retention.summarisers import SUMMARISERS
from benchmarks.retention.tally import hops_of

ROWS: Mapping[str, Collection[FactKind]] = {
    "user-stated": USER_KINDS,
    "tool-only, reused": {FactKind.TOOL_REUSED},
}
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#b8860b", "#6a4c93", "#e07b39", "#444444")
MARKERS = "osD^vPX"
_PLACES = re.compile(r"-?\d+\.\d{3,}")
LINE = {"markersize": 4, "linewidth": 1.1}


def can_plot() -> bool:
    """Whether matplotlib is here."""
    return find_spec("matplotlib") is not None


def write_plots(result: Retained, folder: Path) -> list[Path]:
    """Write the curves of every arm and summariser into `folder`, as SVG and PNG, and return their paths.

    A panel an arm that summarises, a curve a summariser; arms that do not are in the first panel. The same run gives the same
    bytes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed; see `can_plot`.
    """
    matplotlib = import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams.update(
        {"svg.hashsalt": "threadkeep", "svg.fonttype": "none", "font.family": "DejaVu Sans", "font.size": 8}
    )
    pyplot = import_module("matplotlib.pyplot")
    plain = [name for name in STATELESS if name not in (NONE, FULL)]
    panels = [("no summariser", {name: name for name in (FULL, EXTRACTIVE, *plain, NONE)})]
    panels += [(arm, {name: f"{arm}, {name}" for name in SUMMARISERS}) for arm in (*SUMMARISING, SESSION)]
    figure, grid = pyplot.subplots(len(ROWS), len(panels), figsize=(13, 5.6), sharex=True, sharey=True, squeeze=False)
    for axes_row, (row, kinds) in zip(grid, ROWS.items(), strict=True):
        for axes, (title, arms) in zip(axes_row, panels, strict=True):
            _panel(axes, result, arms, kinds=kinds)
            axes.set_title(f"{title}: {row}", fontsize=8)
    for axes in grid[:, 0]:
        axes.set_ylabel("share told by the window alone")
    for axes in grid[-1]:
        axes.set_xlabel("compactions")
    # One legend for the panels with summarisers, one for the first: the names differ.
    grid[0, 0].legend(fontsize=6.5, loc="center right")
    grid[0, 1].legend(fontsize=6.5, loc="lower left")
    figure.suptitle(f"{result.family} family, seeds {result.seed} to {result.seed + result.plan.seeds - 1}; bars: Wilson, 95 %")
    figure.tight_layout()
    return _saved(figure, pyplot, folder / f"retention-{result.family}")


def _panel(axes: Any, result: Retained, arms: Mapping[str, str], *, kinds: Collection[FactKind]) -> None:
    hops = hops_of(result.tally.cells)
    # Curves that lie on each other stand side by side.
    step = max(hops) * 0.008
    for number, (label, arm) in enumerate(arms.items()):
        shares = {hop: result.tally.share(arm=arm, hop=hop, kinds=kinds) for hop in hops}
        told = {hop: share for hop, share in shares.items() if share.asked}
        at = [hop + (number - len(arms) / 2) * step for hop in told]
        colour = COLOURS[number % len(COLOURS)]
        marker = MARKERS[number % len(MARKERS)]
        axes.plot(at, [share.kept_share for share in told.values()], label=label, color=colour, marker=marker, **LINE)
        low, high = ([share.interval[end] for share in told.values()] for end in (0, 1))
        axes.vlines(at, low, high, color=colour, alpha=0.45, linewidth=0.8)
    axes.set(ylim=(-0.03, 1.04))
    axes.grid(visible=True, alpha=0.25, linewidth=0.5)


def _saved(figure: Any, pyplot: Any, stem: Path) -> list[Path]:
    paths = [stem.with_suffix(".svg"), stem.with_suffix(".png")]
    drawn = StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    # A tenth of a point is finer than any screen; six places of it are a third of the file.
    paths[0].write_text(_PLACES.sub(lambda found: f"{float(found[0]):.1f}", drawn.getvalue()), encoding="utf-8")
    figure.savefig(paths[1], dpi=110, metadata={"Software": None})
    pyplot.close(figure)
    return paths
