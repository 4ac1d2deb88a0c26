"""Pictures of a report, from the parts as they are kept, where matplotlib is installed (`holdfast[bench]`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from holdfast.bench.retention.facts import USER_KINDS
from holdfast.bench.whole.part import Part

COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#b8860b", "#6a4c93", "#e07b39", "#444444")
# Curves of the first picture: the library, its worst enemy, and what others do.
ARMS = {
    "extractive": "holdfast, no model",
    "session, lying": "holdfast, a summariser that lies",
    "handoff layout, faithful": "summary and newest messages, faithful",
    "whole-block rewrite, faithful": "one rewritten block, faithful",
    "whole-block rewrite, lossy": "one rewritten block, lossy",
    "keep last": "newest items only",
}
LENGTHS = ("resume, from closed", "window, store open", "append", "fork in the middle", "rollback, one turn")


def can_plot() -> bool:
    """Whether matplotlib is here."""
    return find_spec("matplotlib") is not None


def write_plots(parts: Mapping[str, Part], folder: Path) -> list[str]:
    """Write what the parts can be drawn of into `folder`, each as SVG and PNG; return the names of the SVG files.

    Raises:
        ModuleNotFoundError: matplotlib is not installed; see `can_plot`.
    """
    matplotlib = import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "holdfast", "svg.fonttype": "none", "font.family": "DejaVu Sans", "font.size": 8})
    pyplot = import_module("matplotlib.pyplot")
    written: list[str] = []
    for name, draw in DRAWINGS.items():
        if name not in parts:
            continue
        figure, axes = pyplot.subplots(figsize=(7, 3.6))
        draw(axes, parts[name])
        axes.grid(visible=True, alpha=0.25, linewidth=0.5)
        figure.tight_layout()
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
        pyplot.close(figure)
        written.append(f"{name}.svg")
    return written


def _retention(axes: Any, part: Part) -> None:
    users = {kind.value for kind in USER_KINDS}
    counts: defaultdict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    cells = part.data["cells"]
    for row in cells["rows"]:
        cell = dict(zip(cells["columns"], row, strict=True))
        if cell["kind"] in users:
            both = counts[cell["arm"], cell["hop"]]
            both[0] += cell["kept"]
            both[1] += cell["asked"]
    for (arm, label), colour in zip(ARMS.items(), COLOURS, strict=False):
        at = sorted(hop for name, hop in counts if name == arm)
        axes.plot(at, [100 * counts[arm, hop][0] / counts[arm, hop][1] for hop in at], marker="o", label=label, color=colour)
    axes.set(xlabel="compactions", ylabel="% of user-stated facts told", ylim=(-3, 104), title=f"{part.name}, {part.plan}")
    axes.legend(fontsize=6.5, loc="lower left")


def _cases(axes: Any, part: Part) -> None:
    variants = part.data["aggregates"]["variants"]
    for (variant, found), colour in zip(variants.items(), COLOURS, strict=False):
        hops = sorted(found["hops"], key=int)
        right = [100 * found["hops"][hop]["exact"] / found["hops"][hop]["asked"] for hop in hops]
        axes.plot([int(hop) for hop in hops], right, marker="o", label=variant, color=colour)
    axes.set(xlabel="hops", ylabel="% right", ylim=(-3, 104), title=f"cases, reader {part.data['reader']}")
    axes.legend(fontsize=6.5, loc="lower left")


def _store(axes: Any, part: Part) -> None:
    for measure, colour in zip(LENGTHS, COLOURS, strict=False):
        figures = [each for each in part.data["figures"] if each["measure"] == measure and each["contender"] == "holdfast"]
        axes.plot([f["size"] for f in figures], [f["value"]["median"] for f in figures], marker="o", label=measure, color=colour)
    axes.set(xscale="log", xlabel="records in the thread", ylabel="ms", ylim=(0, None), title=f"store, {part.plan}")
    axes.legend(fontsize=6.5)


def _gateway(axes: Any, part: Part) -> None:
    figures = [each for each in part.data["figures"] if each["measure"] == "requests a second"]
    axes.bar([each["contender"] for each in figures], [each["value"]["median"] for each in figures], color=COLOURS[0])
    axes.set(ylabel="requests a second, small, 32 clients", title=f"gateway, {part.plan}")


DRAWINGS: Mapping[str, Callable[[Any, Part], None]] = {
    "retention-frozen": _retention,
    "retention-story": _retention,
    "cases": _cases,
    "store": _store,
    "gateway": _gateway,
}
