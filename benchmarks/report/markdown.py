"""Renders the report as Markdown: where it was measured, the table of targets, then every part with all its results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from benchmarks.report.bounds import Judged, judge_bounds
from benchmarks.report.origin import Origin, list_differences
from benchmarks.report.part import KeptTable, Part

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
# A table that is longer, and not the first of its part, is folded away: it is there to look things up in.
SHOWN_ROWS = 14
# Beside a verdict that another machine, other packages or other code than the writer's came to.
ELSEWHERE = "†"


def render_markdown(parts: Mapping[str, Part], *, skipped: Mapping[str, str], here: Origin) -> str:
    """Return the whole report.

    Args:
        skipped: Parts that were not run or failed, and why.
        here: Where the report is written; parts from elsewhere are marked.
    """
    lines = ["# Report", "", *_render_head(parts, here), ""]
    lines += list(_render_bounds(judge_bounds(parts), elsewhere=find_differences(parts, here)))
    if skipped:
        lines += ["## Not run", "", *(f"- {name}: {why}" for name, why in skipped.items()), ""]
    for name, title in TITLES.items():
        if name in parts:
            lines += _render_part(title, parts[name])
    return "\n".join(lines).rstrip() + "\n"


def report_json(parts: Mapping[str, Part], *, skipped: Mapping[str, str], here: Origin) -> dict[str, object]:
    """Return the one object `--json` prints: the writer's machine and code, the design's table, and of each part where its
    numbers come from and in what that is not here; each part is a file of its own."""
    marked = find_differences(parts, here)
    return {
        "bench": "report",
        **_render_origin(here),
        "design": [_render_line(line, elsewhere=is_elsewhere(line, marked)) for line in judge_bounds(parts)],
        "parts": {
            name: {
                "plan": part.plan,
                "seed": part.seed,
                "seconds": part.seconds,
                "at": part.at,
                "threadkeep": part.threadkeep,
                **_render_origin(part.origin),
                "elsewhere": marked.get(name, []),
            }
            for name, part in parts.items()
        },
        "skipped": dict(skipped),
    }


def find_differences(parts: Mapping[str, Part], here: Origin) -> dict[str, list[str]]:
    """Return, of each part that was not measured as this process would measure it, in what it differs."""
    found = {name: list_differences(part.origin, here) for name, part in parts.items()}
    return {name: differs for name, differs in found.items() if differs}


def is_elsewhere(line: Judged, marked: Mapping[str, object]) -> bool:
    """Return whether a verdict comes from one of the parts that `elsewhere` names; what was not run comes from nowhere."""
    return line.verdict != "not run" and line.part in marked


def _render_origin(origin: Origin) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(origin)
    return told


def _render_line(line: Judged, *, elsewhere: bool) -> dict[str, object]:
    return {
        "row": line.row,
        "what": line.what,
        "bound": line.bound,
        "found": line.found,
        "verdict": line.verdict,
        "part": line.part,
        "elsewhere": elsewhere,
    }


def _render_head(parts: Mapping[str, Part], here: Origin) -> Iterator[str]:
    yield f"{here.machine}. Source `{here.source}`, commit {here.commit}."
    yield ""
    yield f"Installed beside it: {', '.join(f'{name} {there}' for name, there in here.versions.items()) or 'nothing'}."
    yield ""
    yield "Ratios count, not seconds. `python -m benchmarks report` repeats it; each part gives its plan, seed and date."
    yield f"{ELSEWHERE} marks what was measured on another machine, with other packages or of other code than wrote this page."
    yield ""
    yield "| part | plan | seed | seconds | measured (UTC) | threadkeep | source, commit | measured where |"
    yield "| --- | --- | ---: | ---: | --- | --- | --- | --- |"
    marked = find_differences(parts, here)
    for name, title in TITLES.items():
        if name in parts:
            part = parts[name]
            yield _render_row(
                [
                    f"[{name}](#{_make_anchor(title)})",
                    part.plan,
                    str(part.seed),
                    f"{part.seconds:,.0f}",
                    part.at,
                    part.threadkeep,
                    f"{part.origin.source}, {part.origin.commit}",
                    f"{ELSEWHERE} {'; '.join(marked[name])}" if name in marked else "here",
                ]
            )
    yield f"| all | | | {sum(part.seconds for part in parts.values()):,.0f} | | | | |"


def _render_bounds(lines: Sequence[Judged], *, elsewhere: Mapping[str, Sequence[str]]) -> Iterator[str]:
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
        mark = f" {ELSEWHERE}" if is_elsewhere(line, elsewhere) else ""
        yield f"| {row} | {_escape_cell(line.what)} | {_escape_cell(line.found)} | {_escape_cell(line.bound)} | {verdict}{mark} |"
    yield ""


def _render_part(title: str, part: Part) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield from (f"- {fact}" for fact in part.facts)
    yield ""
    if part.targets:
        words = {True: "met", False: "**missed**", None: "not told"}
        rows = [[words[each.met], each.found, each.bound, each.what] for each in part.targets]
        yield from _render_table(
            KeptTable(title="Targets", aside="", columns=["", "found", "bound", "what"], rows=rows), folded=False
        )
    for number, table in enumerate(part.tables):
        yield from _render_table(table, folded=number > 0 and len(table.rows) > SHOWN_ROWS)


def _render_table(table: KeptTable, *, folded: bool) -> Iterator[str]:
    yield f"### {table.title}"
    yield ""
    if table.aside:
        yield table.aside
        yield ""
    if folded:
        yield f"<details><summary>{len(table.rows)} rows</summary>"
        yield ""
    yield _render_row([column.removeprefix(">") for column in table.columns])
    yield _render_row(["---:" if column.startswith(">") else "---" for column in table.columns])
    yield from (_render_row(row) for row in table.rows)
    yield ""
    if folded:
        yield "</details>"
        yield ""


def _make_anchor(title: str) -> str:
    """Return what a heading is linked by."""
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def _render_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_escape_cell(cell) for cell in cells)} |"


def _escape_cell(text: str) -> str:
    return text.replace("|", "∣").replace("\n", " ")
