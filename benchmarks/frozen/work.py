"""Generates the ordinary work of a session: files, logs, tables, test runs, builds. Frozen: see the package's docstring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.frozen.lines import Domain
from benchmarks.frozen.tools import Toolset
from benchmarks.retention.open_work import Part
from benchmarks.story.session import Step

_VERBS = ("load", "merge", "check", "build", "apply", "read", "map", "collect", "drop", "fold", "trim", "sort", "count", "join")
_THINGS = ("row", "batch", "page", "frame", "chunk", "slot", "key", "block", "entry", "node", "group", "table", "field", "unit")
_STATES = ("done", "queued", "skipped", "retry", "ok", "slow", "cached", "partial")
_LEVELS = ("INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR")

Maker = Callable[[Random, str, int], str]


def _name(rng: Random, slug: str) -> str:
    return f"{rng.choice(_VERBS)}_{slug if rng.random() < 0.4 else rng.choice(_THINGS)}"


def _moment(rng: Random) -> str:
    # Seconds since start: times of day would stand beside those that users name.
    return f"T+{rng.randrange(1, 99_999):05d}.{rng.randrange(1000):03d}"


def source(rng: Random, slug: str, size: int) -> str:
    """A file of code with numbered lines."""
    lines = [f"# {slug}: {rng.choice(_VERBS)} and {rng.choice(_VERBS)} every {rng.choice(_THINGS)}", ""]
    while sum(map(len, lines)) < size:
        name, thing = _name(rng, slug), rng.choice(_THINGS)
        lines += [
            f"def {name}({thing}s, limit={rng.randrange(2, 900)}):",
            f'    """{rng.choice(_VERBS).capitalize()} each {thing} once."""',
            f"    kept = [{thing} for {thing} in {thing}s if {thing}.{rng.choice(_STATES)} > {rng.randrange(1, 400)}]",
            f"    for at, {thing} in enumerate(kept):",
            f"        {rng.choice(_VERBS)}_{rng.choice(_THINGS)}({thing}, at * {rng.randrange(2, 60)})",
            f"    return kept[:limit], {rng.randrange(0, 9000)}",
            "",
        ]
    return "\n".join(f"{number:5d}  {line}" for number, line in enumerate(lines, start=1))


def log(rng: Random, slug: str, size: int) -> str:
    """Lines of a log."""
    lines: list[str] = []
    while sum(map(len, lines)) < size:
        what = f"{rng.choice(_VERBS)} {rng.choice(_THINGS)} {rng.randrange(1, 99_999)} {rng.choice(_STATES)}"
        took = f"in {rng.randrange(1, 9_000)} ms"
        lines.append(f"{_moment(rng)} {rng.choice(_LEVELS):5} [{slug}] {what} {took}")
    return "\n".join(lines)


def table(rng: Random, slug: str, size: int) -> str:
    """Rows of a query."""
    columns = rng.sample(_THINGS, 5)
    lines = [" | ".join(f"{column:>10}" for column in columns), "-+-".join("-" * 10 for _ in columns)]
    while sum(map(len, lines)) < size:
        cells = (rng.choice((str(rng.randrange(1, 99_999)), f"{rng.random() * 90:.3f}", rng.choice(_STATES))) for _ in columns)
        lines.append(" | ".join(f"{cell:>10}" for cell in cells))
    return "\n".join([*lines, f"({len(lines) - 2} rows)"])


def tests(rng: Random, slug: str, size: int) -> str:
    """A run of tests."""
    lines = ["collecting ..."]
    while sum(map(len, lines)) < size:
        lines.append(f"test_{slug}.{_name(rng, slug)}[{rng.choice(_THINGS)}-{rng.randrange(1, 99)}] PASSED {rng.random():.2f}s")
    return "\n".join([*lines, f"{len(lines) - 1} passed in {rng.uniform(2, 40):.1f}s"])


def trace(rng: Random, slug: str, size: int) -> str:
    """A stack trace."""
    lines = ["Traceback (most recent call last):"]
    while sum(map(len, lines)) < size:
        name = _name(rng, slug)
        lines += [
            f'  File "{slug}/{name}.py", line {rng.randrange(5, 900)}, in {name}',
            f"    {_name(rng, slug)}({rng.choice(_THINGS)}s)",
        ]
    return "\n".join([*lines, f"RuntimeError: {rng.choice(_THINGS)} {rng.randrange(1, 9_999)} is {rng.choice(_STATES)}"])


def json_text(rng: Random, slug: str, size: int) -> str:
    """A configuration or an answer of a service."""
    lines = ["{", f'  "{slug}": [']
    while sum(map(len, lines)) < size:
        state = rng.choice(_STATES)
        lines.append(
            f'    {{"{rng.choice(_THINGS)}": {rng.randrange(1, 99_999)}, "state": "{state}", "share": {rng.random():.4f}}},'
        )
    return "\n".join([*lines, "  ]", "}"])


def matches(rng: Random, slug: str, size: int) -> str:
    """What a search found."""
    lines: list[str] = []
    while sum(map(len, lines)) < size:
        name = _name(rng, slug)
        lines.append(
            f"{slug}/{name}.txt:{rng.randrange(1, 900)}:  {rng.choice(_VERBS)}_{rng.choice(_THINGS)}({rng.choice(_THINGS)})"
        )
    return "\n".join(lines)


_COMMANDS: Sequence[tuple[str, Maker]] = (
    ("tail -n 200 logs/{s}.log", log),
    ("journalctl -u {s} --since -1h", log),
    ("bin/query '{s} by day'", table),
    ("bin/query 'last {s} runs'", table),
    ("make test PART={s}", tests),
    ("bin/run {s} --debug", trace),
    ("curl -s localhost/{s}/status", json_text),
    ("cat conf/{s}.json", json_text),
)


def steps(rng: Random, *, tools: Toolset, slug: str, path: str, size: int) -> list[Step]:
    """Return what an agent does in one turn, about `size` characters of it: look, search, run, change, run again."""
    made = [tools.looked(path, source(rng, slug, rng.randrange(1_200, 3_200)))]
    while sum(len(step.output) for step in made) < size - 1_500:
        if rng.random() < 0.2:
            made.append(tools.searched(rng.choice((slug, rng.choice(_THINGS))), matches(rng, slug, rng.randrange(500, 1_500))))
        else:
            command, maker = rng.choice(_COMMANDS)
            code = 1 if maker is trace else 0
            made.append(tools.ran(command.format(s=slug), maker(rng, slug, rng.randrange(700, 2_600)), code=code))
    old, new = (f"    return kept[:limit], {rng.randrange(0, 9_000)}" for _ in range(2))
    made.append(tools.edited(path, old=old, new=new))
    made.append(tools.ran(f"make test PART={slug}", tests(rng, slug, rng.randrange(500, 1_200))))
    return made


def around(rng: Random, line: str, *, slug: str) -> str:
    """Return the output of a command with `line` somewhere in it."""
    lines = log(rng, slug, rng.randrange(200, 1_400)).splitlines()
    lines.insert(rng.randrange(len(lines) + 1), line)
    return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A card in hand: the steps that show it, and what can be asked about it."""

    label: str
    steps: tuple[Step, ...]
    parts: tuple[Part, ...]


def make_card(rng: Random, *, number: int, work: Domain, tools: Toolset, slug: str) -> Card:
    """Return the work on card `number`; no two cards share a value."""
    label = f"card {number:03d}"

    def four(templates: Sequence[str]) -> tuple[str, str, str, str]:
        template = rng.choice(templates)
        one, two, three, last = (
            template.format(s=slug, k=200_000 + number * 1_000 + ending) for ending in rng.sample(range(100, 1_000), 4)
        )
        return one, two, three, last

    files = four([path.replace("{s}", "{s}_{k}") for path in work.files])
    next_steps, blockers, commands = four(work.todo), four(work.blockers), four(work.commands)
    parts = (
        Part(name="file", value=files[0], question=f"In which file was the change for {label} left half done?", likes=files[1:]),
        Part(name="next step", value=next_steps[0], question=f"What comes next on {label}?", likes=next_steps[1:]),
        Part(name="blocker", value=blockers[0], question=f"What is {label} stuck on?", likes=blockers[1:]),
        Part(name="command", value=commands[0], question=f"How does one reproduce the failure of {label}?", likes=commands[1:]),
    )
    todo = [(f"{label}: find the cause", "completed"), (next_steps[0], "in_progress"), ("tell the others", "pending")]
    steps = (
        tools.planned(todo),
        tools.edited(files[0], old="    pass", new=f"    raise NotImplementedError('{label}')"),
        tools.ran(commands[0], f"running 1 check for {label}\n{blockers[0]}\n1 failed", code=1),
    )
    return Card(label=label, steps=steps, parts=parts)
