"""Curves over compactions as SVG, where matplotlib is installed (`holdfast[bench]`)."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from holdfast.bench.retention.arms import arm_names
from holdfast.bench.retention.facts import TOOL_KINDS, USER_KINDS, WORK_KINDS, FactKind
from holdfast.bench.retention.run import Retained
from holdfast.bench.retention.tally import hops_of

CURVES: dict[str, Collection[FactKind]] = {
    "user-stated": USER_KINDS,
    "tool-only": TOOL_KINDS,
    "work": WORK_KINDS,
}


def can_plot() -> bool:
    """Whether matplotlib is here."""
    return find_spec("matplotlib") is not None


def write_plots(result: Retained, folder: Path) -> list[Path]:
    """Write one SVG a curve into `folder` and return their paths. The same run gives the same bytes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed; see `can_plot`.
    """
    matplotlib = import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "holdfast"
    pyplot = import_module("matplotlib.pyplot")
    hops = hops_of(result.tally.cells)
    written: list[Path] = []
    for name, kinds in CURVES.items():
        figure, axes = pyplot.subplots(figsize=(9, 6))
        for arm in arm_names():
            shares = [result.tally.share(arm=arm, hop=hop, kinds=kinds) for hop in hops]
            line = axes.plot(hops, [share.kept_share for share in shares], marker="o", markersize=3, label=arm)[0]
            low, high = zip(*(share.interval for share in shares), strict=True)
            axes.fill_between(hops, low, high, alpha=0.08, color=line.get_color())
        axes.set(xlabel="compactions", ylabel=f"{name} facts told", ylim=(-0.02, 1.02))
        axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
        path = folder / f"retention-{name}.svg"
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)
        written.append(path)
    return written
