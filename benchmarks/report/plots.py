"""Pictures of a report, from the parts as they are kept, where matplotlib is installed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.report.part import Part
from benchmarks.retention.arms import EXTRACTIVE, arm_names
from benchmarks.retention.facts import USER_KINDS
from benchmarks.retention.tally import wilson

COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#b8860b", "#6a4c93", "#e07b39", "#444444")
MARKERS = "osD^vPX"
OTHERS = "#9aa5b1"
# Curves of the first picture: the library, its worst enemy, and what others do.
ARMS = {
    EXTRACTIVE: "threadkeep, no model",
    "session, lying": "threadkeep, a summariser that lies",
    "handoff layout, faithful": "summary and newest messages, faithful",
    "whole-block rewrite, faithful": "one rewritten block, faithful",
    "whole-block rewrite, lossy": "one rewritten block, lossy",
    "keep last": "newest items only",
}
LENGTHS = ("resume, from closed", "window, store open", "append", "fork in the middle", "rollback, one turn")
# How far curves that may lie on each other stand apart, as a share of the picture.
APART = 0.008


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A share with its interval, in percent, at a place on the axis."""

    at: float
    share: float
    low: float
    high: float


def can_plot() -> bool:
    """Whether matplotlib is here."""
    return find_spec("matplotlib") is not None


def write_plots(parts: Mapping[str, Part], folder: Path) -> list[str]:
    """Write what the parts can be drawn of into `folder`, each as SVG and PNG; return the names of the SVG files.

    A picture is called like its part; one of peers has `-peers` behind that. The same parts give the same bytes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed; see `can_plot`.
    """
    matplotlib = import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams.update(
        {"svg.hashsalt": "threadkeep", "svg.fonttype": "none", "font.family": "DejaVu Sans", "font.size": 8}
    )
    pyplot = import_module("matplotlib.pyplot")
    written: list[str] = []
    for name, part, draw in _drawings(parts):
        figure, axes = pyplot.subplots(figsize=(8.4, 3.6), layout="constrained")
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes, part)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
        pyplot.close(figure)
        written.append(f"{name}.svg")
    return written


def _drawings(parts: Mapping[str, Part]) -> Iterator[tuple[str, Part, Callable[[Any, Part], None]]]:
    for name, draw in DRAWINGS.items():
        if name in parts:
            yield name, parts[name], draw
            if draw is _retention and _peers(parts[name]):
                yield f"{name}-peers", parts[name], _beside_peers


def _counts(part: Part) -> dict[tuple[str, int], tuple[int, int]]:
    """Return how many user-stated facts of how many each arm told after each hop."""
    users = {kind.value for kind in USER_KINDS}
    counts: defaultdict[tuple[str, int], tuple[int, int]] = defaultdict(lambda: (0, 0))
    cells = part.data["cells"]
    for row in cells["rows"]:
        cell = dict(zip(cells["columns"], row, strict=True))
        if cell["kind"] in users:
            kept, asked = counts[cell["arm"], cell["hop"]]
            counts[cell["arm"], cell["hop"]] = (kept + cell["kept"], asked + cell["asked"])
    return dict(counts)


def _told(at: float, right: int, asked: int) -> Told:
    low, high = wilson(right, asked)
    return Told(at=at, share=100 * right / asked, low=100 * low, high=100 * high)


def _peers(part: Part) -> list[str]:
    """Return the arms that are neither the library's nor a baseline."""
    known = set(arm_names())
    return list(dict.fromkeys(arm for arm, _ in _counts(part) if arm not in known))


def _curves(axes: Any, curves: Mapping[str, Sequence[Told]], *, along: str) -> None:
    """Draw shares over hops, each with its interval; curves that lie on each other stand side by side."""
    hops = sorted({round(told.at) for curve in curves.values() for told in curve})
    step = (hops[-1] - hops[0] + 1) * APART if hops else 0
    for number, (label, curve) in enumerate(curves.items()):
        at = [told.at + (number - (len(curves) - 1) / 2) * step for told in curve]
        look = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.1}
        axes.plot(at, [told.share for told in curve], label=label, marker=MARKERS[number % len(MARKERS)], markersize=4, **look)
        axes.vlines(at, [told.low for told in curve], [told.high for told in curve], alpha=0.4, **look)
    axes.set(xlabel=along, ylim=(-3, 104), xticks=hops)
    axes.grid(visible=True, axis="y", alpha=0.25, linewidth=0.5)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)


def _retention(axes: Any, part: Part) -> None:
    counts = _counts(part)
    curves = {
        label: [_told(hop, *counts[name, hop]) for name, hop in sorted(counts) if name == arm] for arm, label in ARMS.items()
    }
    _curves(axes, curves, along="compactions")
    axes.set(ylabel="% of user-stated facts the window tells", title=f"{part.name}, {part.plan}; bars: Wilson, 95 %")


def _beside_peers(axes: Any, part: Part) -> None:
    counts = _counts(part)
    last = max(hop for _, hop in counts)
    arms = [EXTRACTIVE, *_peers(part)][::-1]
    for at, arm in enumerate(arms):
        told = _told(at, *counts[arm, last])
        axes.barh(at, told.share, color=COLOURS[0] if arm == EXTRACTIVE or arm.startswith("threadkeep-") else OTHERS, height=0.7)
        axes.hlines(at, told.low, told.high, color="#222222", linewidth=0.8)
    axes.figure.set_figheight(1.2 + 0.19 * len(arms))
    axes.set_yticks(range(len(arms)), labels=["threadkeep, no host, no model" if arm == EXTRACTIVE else arm for arm in arms])
    title = f"{part.name}, {part.plan}: after {last} compactions; lines: Wilson, 95 %"
    axes.set(xlabel="% of user-stated facts the window tells", xlim=(0, 104), ylim=(-0.6, len(arms) - 0.4), title=title)


def _cases(axes: Any, part: Part) -> None:
    variants = part.data["aggregates"]["variants"]
    curves = {
        variant: [_told(int(hop), each["exact"], each["asked"]) for hop, each in found["hops"].items()]
        for variant, found in variants.items()
    }
    _curves(axes, {name: sorted(curve, key=lambda told: told.at) for name, curve in curves.items()}, along="hops")
    axes.set(ylabel="% right", title=f"cases, reader {part.data['reader']}; bars: Wilson, 95 %")


def _store(axes: Any, part: Part) -> None:
    for measure, colour, marker in zip(LENGTHS, COLOURS, MARKERS, strict=False):
        figures = [each for each in part.data["figures"] if each["measure"] == measure and each["contender"] == "threadkeep"]
        at, values = [each["size"] for each in figures], [each["value"] for each in figures]
        axes.plot(at, [value["median"] for value in values], label=measure, color=colour, marker=marker, markersize=4)
        axes.vlines(at, [value["low"] for value in values], [value["high"] for value in values], color=colour, alpha=0.4)
    plain = import_module("matplotlib.ticker").FuncFormatter(lambda value, _: f"{value:,.10g}")
    axes.set(xscale="log", yscale="log", xlabel="records in the thread", ylabel="ms, both axes logarithmic")
    axes.set_title(f"store, {part.plan}; bars: middle half")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(plain)
        axis.set_minor_formatter(import_module("matplotlib.ticker").NullFormatter())
    axes.grid(visible=True, axis="y", alpha=0.25, linewidth=0.5)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)


def _gateway(axes: Any, part: Part) -> None:
    figures = [each for each in part.data["figures"] if each["measure"] == "requests a second"][::-1]
    for at, each in enumerate(figures):
        value = each["value"]
        axes.barh(at, value["median"], color=COLOURS[0] if each["contender"] == "threadkeep" else OTHERS, height=0.6)
        axes.hlines(at, value["low"], value["high"], color="#222222", linewidth=0.8)
        axes.annotate(f"{value['median']:,.0f}", (max(value["median"], value["high"]), at), (4, -2.5), textcoords="offset points")
    axes.figure.set_figheight(1.3 + 0.35 * len(figures))
    axes.set_yticks(range(len(figures)), labels=[each["contender"] for each in figures])
    axes.set(xlabel="requests a second, small, 32 clients", title=f"gateway, {part.plan}; lines: middle half")


DRAWINGS: Mapping[str, Callable[[Any, Part], None]] = {
    "retention-frozen": _retention,
    "retention-story": _retention,
    "cases": _cases,
    "store": _store,
    "gateway": _gateway,
}
