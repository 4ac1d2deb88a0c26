"""The report as Markdown: where it was measured, the design's table, then every part with all that was found."""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from holdfast.bench.result import Machine, machine
from holdfast.bench.timing import summary
from holdfast.bench.whole.design import Judged, judged
from holdfast.bench.whole.part import KeptTable, Part

TITLES = {
    "start": "Starting",
    "retention-frozen": "What compactions keep: the frozen family",
    "retention-story": "What compactions keep: the story family (not blind)",
    "cases": "Blind cases, asked of a reader",
    "kit": "compaction-conformance-kit",
    "compaction": "What a compaction costs",
    "store": "The store",
    "gateway": "The gateway",
}
# What the pictures of a part show.
PICTURES = {
    "retention-frozen": "user-stated facts told by the window, over compactions",
    "retention-story": "user-stated facts told by the window, over compactions",
    "cases": "cases answered right, over hops",
    "store": "times of the store, over the length of a thread",
    "gateway": "requests a second, beside other proxies",
}
PEERS = "-peers"
# A table that is longer, and not the first of its part, is folded away: it is there to look things up in.
SHOWN_ROWS = 14
PACKAGES = ("msgspec", "aiohttp", "uvicorn", "uvloop", "openai-agents", "langgraph-checkpoint-sqlite", "langchain", "litellm")


def this_machine() -> Machine:
    """Return where this is, without timing anything."""
    still = summary([0.0])
    return machine(fsync_before=still, fsync_after=still)


def markdown(parts: Mapping[str, Part], *, skipped: Mapping[str, str], plots: Sequence[str], at: Machine) -> str:
    """Return the whole report.

    Args:
        skipped: Parts that could not be run, and why.
        plots: Names of picture files beside the report.
    """
    lines = ["# Report", "", *_head(parts, at), ""]
    lines += list(_design(judged(parts)))
    if skipped:
        lines += ["## Not run", "", *(f"- {name}: {why}" for name, why in skipped.items()), ""]
    for name, title in TITLES.items():
        if name in parts:
            lines += list(
                _part(title, parts[name], plots=[plot for plot in (f"{name}.svg", f"{name}{PEERS}.svg") if plot in plots])
            )
    return "\n".join(lines).rstrip() + "\n"


def report_json(parts: Mapping[str, Part], *, skipped: Mapping[str, str], at: Machine) -> dict[str, object]:
    """Return the one object `--json` prints: the machine, the versions, the design's table; each part is a file of its own."""
    return {
        "bench": "report",
        "machine": {"processor": at.processor, "cores": at.cores, "system": at.system, "python": at.python, "sqlite": at.sqlite},
        "versions": _versions(),
        "design": [
            {"row": line.row, "what": line.what, "bound": line.bound, "found": line.found, "verdict": line.verdict}
            for line in judged(parts)
        ],
        "parts": {
            name: {"plan": part.plan, "seed": part.seed, "seconds": part.seconds, "at": part.at, "holdfast": part.holdfast}
            for name, part in parts.items()
        },
        "skipped": dict(skipped),
    }


def _head(parts: Mapping[str, Part], at: Machine) -> Iterator[str]:
    yield f"{at.processor}, {at.cores} cores, {at.system}, {at.python}, SQLite {at.sqlite}, {platform.machine()}."
    yield ""
    yield f"Installed beside it: {', '.join(f'{name} {there}' for name, there in _versions().items()) or 'nothing'}."
    yield ""
    yield "Ratios count, not seconds. `holdfast bench report` repeats it; each part says its plan, seed and when it was measured."
    yield ""
    yield "| part | plan | seed | seconds | measured (UTC) | holdfast |"
    yield "| --- | --- | ---: | ---: | --- | --- |"
    for name, title in TITLES.items():
        if name in parts:
            part = parts[name]
            there = f"[{name}](#{_anchor(title)})"
            yield f"| {there} | {part.plan} | {part.seed} | {part.seconds:,.0f} | {part.at} | {part.holdfast} |"
    yield f"| all | | | {sum(part.seconds for part in parts.values()):,.0f} | | |"


def _design(lines: Sequence[Judged]) -> Iterator[str]:
    counts = Counter(line.verdict for line in lines)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("met", "missed", "not told", "not run") if counts[verdict])
    yield "## The design's bounds"
    yield ""
    yield f"{len(lines)} in all: {told}. *Not told* is a bound that a run this short cannot tell; *not run* was not measured."
    yield ""
    yield "| | what | found | bound | |"
    yield "| --- | --- | --- | --- | --- |"
    last = ""
    for line in lines:
        row = line.row if line.row != last else ""
        last = line.row
        verdict = f"**{line.verdict}**" if line.verdict == "missed" else line.verdict
        yield f"| {row} | {_cell(line.what)} | {_cell(line.found)} | {_cell(line.bound)} | {verdict} |"
    yield ""


def _part(title: str, part: Part, *, plots: Sequence[str]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield from (f"- {fact}" for fact in part.facts)
    yield ""
    for plot in plots:
        yield f"![{_shown(plot)}]({plot})"
        yield ""
    if part.targets:
        words = {True: "met", False: "**missed**", None: "not told"}
        rows = [[words[each.met], each.found, each.bound, each.what] for each in part.targets]
        yield from _table(KeptTable(title="Targets", aside="", columns=["", "found", "bound", "what"], rows=rows), folded=False)
    for number, table in enumerate(part.tables):
        yield from _table(table, folded=number > 0 and len(table.rows) > SHOWN_ROWS)


def _table(table: KeptTable, *, folded: bool) -> Iterator[str]:
    yield f"### {table.title}"
    yield ""
    if table.aside:
        yield table.aside
        yield ""
    if folded:
        yield f"<details><summary>{len(table.rows)} rows</summary>"
        yield ""
    yield _row([column.removeprefix(">") for column in table.columns])
    yield _row(["---:" if column.startswith(">") else "---" for column in table.columns])
    yield from (_row(row) for row in table.rows)
    yield ""
    if folded:
        yield "</details>"
        yield ""


def _shown(plot: str) -> str:
    """Return what a picture shows, for who cannot see it."""
    stem = plot.removesuffix(".svg")
    part = stem.removesuffix(PEERS)
    return f"{PICTURES.get(part, part)}{', of other compactors' if stem != part else ''}"


def _anchor(title: str) -> str:
    """Return what a heading is linked by."""
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "∣").replace("\n", " ")


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
