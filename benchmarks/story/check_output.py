"""What test runners, type checkers and linters print."""

from __future__ import annotations

from benchmarks.story import words
from benchmarks.story.scene import Scene, command
from benchmarks.story.session import Step

_TEST_NAMES = (
    "keeps_its_{f}_after_an_update",
    "rounds_half_to_even",
    "is_swept_once",
    "of_another_shop_is_hidden",
    "survives_a_restart",
    "with_empty_{f}_is_refused",
    "is_printed_with_its_{f}",
    "can_be_reopened_by_a_manager",
    "sorts_by_{f}_then_id",
    "reports_the_line_of_a_bad_{f}",
    "is_idempotent",
    "needs_a_second_person",
    "has_a_stable_etag",
    "writes_one_outbox_row",
)
_FAILURES = (
    ("assert {a} == {b}", "AssertionError: assert {a} == {b}", "E         where {a} = len([<{N} id={i}>, <{N} id={j}>])"),
    ('    seen = (await http.get(url)).json()["{f}"]', "KeyError: '{f}'", "E       the answer had: id, version, note"),
    (
        "    await first.take({n})",
        "psycopg.errors.LockNotAvailable: canceling statement due to lock timeout",
        'E       CONTEXT:  while locking tuple ({i},{j}) in relation "{n}s"',
    ),
    ('    assert str(total) == "37.50"', "AssertionError: assert '37.5{b}' == '37.50'", "E         - 37.50\nE         + 37.5{b}"),
    (
        "    job = await queue.claim(timeout=1)",
        "TimeoutError: no job of kind '{n}.changed' within 1 s",
        "E       queue held: label.print x{a}, basket.closed x{b}",
    ),
    (
        "    draft = {N}Draft.from_json(body)",
        "TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'",
        "E       body was {{'{f}': None, 'quantity': {a}}}",
    ),
)


def _names(scene: Scene, count: int) -> list[str]:
    rng = scene.rng
    folder = rng.choice(words.AREAS)
    names = []
    for _ in range(count):
        what = rng.choice(_TEST_NAMES).format(f=rng.choice(words.FIELDS))
        noun = scene.noun if rng.random() < 0.6 else rng.choice(words.NOUNS)
        names.append(f"tests/{folder}/test_{noun}s.py::test_{noun}_{what}")
    return sorted(set(names))


def tests_pass(scene: Scene) -> Step:
    """A verbose run in which everything passes."""
    names = _names(scene, scene.count(22, 46))
    count = len(names)
    lines = [
        f"{'=' * 30} test session starts {'=' * 30}",
        "platform linux -- Python 3.12, pytest 8, pluggy 1",
        f"collected {count} items",
        "",
    ]
    for index, name in enumerate(names):
        lines.append(
            f"{name} {'SKIPPED (needs a printer)' if scene.rng.random() < 0.04 else 'PASSED'} [{(index + 1) * 100 // count:3d}%]"
        )
    lines += ["", f"{'=' * 22} {count} passed in {words.seconds(scene.rng, about=count / 6)} {'=' * 22}"]
    return command(scene, f"pytest -v tests -k {scene.noun}", "\n".join(lines), about_seconds=9)


def tests_fail(scene: Scene) -> Step:
    """A run with one to three failures, each with source, error and captured log."""
    rng = scene.rng
    failing = _names(scene, rng.randrange(1, 4))
    passing = [name for name in _names(scene, scene.count(9, 20)) if name not in failing]
    count = len(failing) + len(passing)
    lines = [f"collected {count} items", ""]
    lines += [f"{name} PASSED" for name in passing]
    lines += [f"{name} FAILED" for name in failing] + ["", f"{'=' * 34} FAILURES {'=' * 34}"]
    for name in failing:
        code, error, detail = rng.choice(_FAILURES)
        slots = {"a": rng.randrange(2, 9), "b": rng.randrange(10, 30), "i": rng.randrange(100, 999), "j": rng.randrange(10, 99)}
        slots_text = {**slots, "n": scene.noun, "N": words.camel(scene.noun), "f": rng.choice(words.FIELDS)}
        lines += [f"{'_' * 12} {name.rpartition('::')[2]} {'_' * 12}", ""]
        lines += ["".join(("    ", line)) for line in scene.tree.read(scene.path).splitlines()[20:32]]
        lines += [">   " + code.format(**slots_text).strip(), "E   " + error.format(**slots_text), detail.format(**slots_text)]
        lines += ["", f"{name.partition('::')[0]}:{rng.randrange(20, 240)}: {error.partition(':')[0].rpartition('.')[2]}"]
        lines += ["-" * 28 + " Captured log call " + "-" * 28]
        for at in words.moments(rng, count=rng.randrange(3, 9), mean_gap_ms=40):
            lines.append(
                f"{at[11:]} INFO     quillback.{rng.choice(words.AREAS)}:{scene.noun}s.py:{rng.randrange(10, 260)} {_happening(scene)}"
            )
    lines += [f"{'=' * 26} short test summary info {'=' * 26}", *(f"FAILED {name}" for name in failing)]
    lines.append(f"{'=' * 16} {len(failing)} failed, {len(passing)} passed in {words.seconds(rng, about=count / 4)} {'=' * 16}")
    return command(scene, f"pytest -x -q tests -k {scene.noun} --tb=long", "\n".join(lines), code=1, about_seconds=7)


def _happening(scene: Scene) -> str:
    rng = scene.rng
    return rng.choice(
        (
            f"{scene.noun} {rng.randrange(100, 9999)} claimed by till {rng.randrange(1, 9)}",
            f"outbox drained, {rng.randrange(1, 60)} rows in {words.milliseconds(rng)}",
            f"lock on {scene.noun}s released after {words.milliseconds(rng)}",
            f"printing {words.sku(rng)} on {words.address(rng)}:{words.port(rng)}",
            f"session opened for {rng.choice(words.PEOPLE).lower()} in {rng.choice(words.SHOPS)}",
        )
    )


def types(scene: Scene) -> Step:
    """A type checker's complaints."""
    rng = scene.rng
    complaints = (
        'Argument 1 to "take" has incompatible type "int | None"; expected "int"  [arg-type]',
        'Item "None" of "Row | None" has no attribute "version"  [union-attr]',
        'Missing type parameters for generic type "AsyncConnection"  [type-arg]',
        'Incompatible return value type (got "list[Row]", expected "tuple[Row, ...]")  [return-value]',
        "Function is missing a return type annotation  [no-untyped-def]",
        'Unused "type: ignore" comment  [unused-ignore]',
        f'Module "quillback.store.rows" has no attribute "{words.camel(scene.noun)}Row"  [attr-defined]',
    )
    found = scene.count(9, 26)
    lines = sorted(
        f"src/quillback/{rng.choice(words.AREAS)}/{rng.choice(words.NOUNS)}s.py:{rng.randrange(8, 330)}: error: {rng.choice(complaints)}"
        for _ in range(found)
    )
    lines.append(
        f"Found {found} errors in {min(found, rng.randrange(4, 12))} files (checked {rng.randrange(90, 140)} source files)"
    )
    return command(scene, "mypy --strict src", "\n".join(lines), code=1, about_seconds=14)


def lint(scene: Scene) -> Step:
    """A linter's findings, with the lines they are about."""
    rng = scene.rng
    rules = (
        ("F401", "`asyncio` imported but unused"),
        ("B904", "raise inside `except` without `from`"),
        ("E711", "comparison to `None`"),
        ("SIM108", "use a ternary here"),
        ("UP007", "write `X | Y` for a union"),
        ("RUF006", "keep a reference to this task"),
    )
    source = [line for line in scene.tree.read(scene.path).splitlines() if line.strip()]
    lines = []
    for _ in range(scene.count(5, 14)):
        code, text = rng.choice(rules)
        number = rng.randrange(len(source))
        line = source[number]
        lines += [
            f"{code} {text}",
            f"  --> {scene.path}:{number + 1}:{len(line) - len(line.lstrip()) + 1}",
            "   |",
            f"{number + 1:3d}| {line}",
        ]
        lines += ["   | " + " " * (len(line) - len(line.lstrip())) + "^" * max(3, len(line.strip()) // 2), ""]
    lines.append(f"{len(lines) // 6} findings, {rng.randrange(0, 4)} fixable.")
    return command(scene, "ruff check src tests", "\n".join(lines), code=1)


def coverage(scene: Scene) -> Step:
    """A coverage table with the lines that no test reaches."""
    rng = scene.rng
    lines = [f"{'Name':52} {'Stmts':>6} {'Miss':>5} {'Branch':>7} {'Cover':>6}   Missing", "-" * 104]
    for _ in range(scene.count(20, 38)):
        statements = rng.randrange(18, 320)
        missed = int(statements * rng.betavariate(1.2, 8))
        gaps = ", ".join(f"{at}-{at + rng.randrange(1, 9)}" for at in sorted(rng.sample(range(10, 400), min(4, missed))))
        name = f"src/quillback/{rng.choice(words.AREAS)}/{rng.choice(words.NOUNS)}s.py"
        lines.append(
            f"{name:52} {statements:6d} {missed:5d} {statements // 4:7d} {100 - missed * 100 // statements:5d}%   {gaps}"
        )
    return command(scene, "coverage report --show-missing --skip-covered", "\n".join(lines), about_seconds=2)


def audit(scene: Scene) -> Step:
    """Installed packages beside what could be installed."""
    rng = scene.rng
    packages = (
        "starlette",
        "psycopg",
        "anyio",
        "uvicorn",
        "httpx",
        "structlog",
        "msgspec",
        "rich",
        "pytest",
        "hypothesis",
        "mypy",
        "ruff",
        "cryptography",
        "zeroconf",
        "segno",
        "babel",
        "pillow",
        "python-barcode",
        "tzdata",
        "typing-extensions",
        "coverage",
    )
    lines = [f"{'package':24} {'locked':>10} {'newest':>10}  note"]
    for name in rng.sample(packages, rng.randrange(14, len(packages))):
        note = rng.choice(("", "", "", "major", "drops 3.10", "wheel for arm64 missing", "changelog mentions a deadlock"))
        major, minor = rng.randrange(1, 9), rng.randrange(10, 30)
        locked, newest = f"{major}.{minor}.{rng.randrange(10)}", f"{major + (note == 'major')}.{minor + rng.randrange(1, 9)}.0"
        lines.append(f"{name:24} {locked:>10} {newest:>10}  {note}".rstrip())
    return command(scene, "python -m quillback.dev.outdated", "\n".join(lines), about_seconds=3)
