"""What the shell, git, containers and continuous integration print, and how files are read, searched and patched."""

from __future__ import annotations

from benchmarks.story import words
from benchmarks.story.checkout import path_of
from benchmarks.story.logs import trace_text
from benchmarks.story.scene import Scene, command
from benchmarks.story.session import Step

_SUBJECTS = (
    "take the lock before reading the {f}",
    "{n}: say which line is wrong",
    "drop the second copy of {f}",
    "test {n} across a restart",
    "docs: how a {n} is closed",
    "worker: give up after the last retry",
    "cli: print {n}s as a table",
    "move {f} out of the hot path",
    "pin the image",
    "rename {n} helpers after what they do",
    "fix typo",
    "store: page {n}s by keyset",
    'revert "cache {f} forever"',
)


def listing(scene: Scene) -> Step:
    """A long listing of one folder."""
    rng = scene.rng
    area = rng.choice(words.AREAS)
    lines = [f"total {rng.randrange(80, 400)}"]
    names = [f"{noun}s.py" for noun in words.NOUNS] + [
        "__init__.py",
        "errors.py",
        "queue.py",
        "rows.py",
        "conftest.py",
        "README.md",
        "py.typed",
    ]
    lines += [
        f"-rw-r--r-- 1 {rng.choice(words.PEOPLE).lower():9} build {rng.randrange(90, 42000):6d} Mar {rng.randrange(1, 19):2d} {rng.randrange(6, 22):02d}:{rng.randrange(60):02d} {name}"
        for name in sorted(rng.sample(names, rng.randrange(14, len(names)))) * scene.scale
    ]
    return command(scene, f"ls -la src/quillback/{area}", "\n".join(lines), about_seconds=0.1)


def read(scene: Scene) -> Step:
    """The file the turn is about."""
    return Step(tool="read_file", arguments={"path": scene.path}, output=scene.tree.read(scene.path))


def read_beside(scene: Scene) -> Step:
    """A file that belongs to the same noun or a neighbouring one."""
    area = scene.rng.choice((*words.AREAS, "tests", "tests", "docs", "migrations", "openapi", "config"))
    noun = scene.noun if scene.rng.random() < 0.7 else scene.rng.choice(words.NOUNS)
    path = path_of(noun, area=area)
    return Step(tool="read_file", arguments={"path": path}, output=scene.tree.read(path))


def read_shared(scene: Scene) -> Step:
    """The file agents read over and over, whatever they work on; it holds a value of every shape a user may name."""
    path = path_of(scene.noun, area="config")
    return Step(tool="read_file", arguments={"path": path}, output=scene.tree.read(path))


def grep(scene: Scene) -> Step:
    """Matches of a word of the domain across the checkout."""
    rng = scene.rng
    pattern = rng.choice((scene.noun, rng.choice(words.FIELDS), "async with", "raise ", "log\\."))
    found: list[str] = []
    for area in rng.sample((*words.AREAS, "tests", "docs", "migrations"), 5):
        for noun in (scene.noun, rng.choice(words.NOUNS)):
            path = path_of(noun, area=area)
            plain = pattern.replace("\\", "")
            found += [
                f"{path}:{number}:{line}"
                for number, line in enumerate(scene.tree.read(path).splitlines(), start=1)
                if plain in line
            ][:6]
    shown = list(dict.fromkeys(found))[: scene.count(18, 40)] or ["no matches"]
    return Step(tool="grep", arguments={"pattern": pattern, "path": "."}, output="\n".join(shown))


def patch(scene: Scene) -> Step:
    """An edit of the file the turn is about."""
    text = scene.tree.edit(scene.path, rng=scene.rng, noun=scene.noun)
    return Step(
        tool="apply_patch",
        arguments={"input": text},
        output=f"Patched 1 file:\nM {scene.path}\n\n" + "\n".join(text.splitlines()[2:-1]),
    )


def git_diff(scene: Scene) -> Step:
    """What was edited since the last commit."""
    if not scene.tree.changed():
        patch(scene)
    return command(scene, "git diff -U6", scene.tree.diff(), about_seconds=0.1)


def git_commit(scene: Scene) -> Step:
    """A commit of what was edited."""
    rng = scene.rng
    changed = scene.tree.changed() or [scene.path]
    scene.tree.commit()
    subject = rng.choice(_SUBJECTS).format(n=scene.noun, f=rng.choice(words.FIELDS))
    lines = [
        f"[{scene.noun}-work {words.revision(rng)}] {words.ticket(rng)} {subject}",
        f" {len(changed)} files changed, {rng.randrange(2, 60)} insertions(+), {rng.randrange(0, 30)} deletions(-)",
    ]
    lines += [f" M {path}" for path in changed]
    lines += [
        "",
        "hooks:",
        *(
            f"  {name:18} {words.milliseconds(rng):>10}  ok"
            for name in ("format", "lint", "types (changed)", "licence header", "no large files")
        ),
    ]
    return command(scene, f"git commit -am '{subject}'".replace('"', ""), "\n".join(lines))


def git_log(scene: Scene) -> Step:
    """The newest commits with what they touched."""
    rng = scene.rng
    lines = []
    for at in words.moments(rng, count=scene.count(9, 20), mean_gap_ms=4_000_000):
        noun = scene.noun if rng.random() < 0.5 else rng.choice(words.NOUNS)
        lines += [
            f"{words.revision(rng)} {at[:16]} {rng.choice(words.PEOPLE):9} {words.ticket(rng)} {rng.choice(_SUBJECTS).format(n=noun, f=rng.choice(words.FIELDS))}"
        ]
        lines += [
            f"    {path_of(noun, area=area):48} | {rng.randrange(1, 90):3d} {'+' * rng.randrange(1, 18)}{'-' * rng.randrange(0, 12)}"
            for area in rng.sample((*words.AREAS, "tests"), 2)
        ]
    return command(
        scene, f"git log --stat --oneline -n {len(lines) // 3} -- '*{scene.noun}*'", "\n".join(lines), about_seconds=0.2
    )


def containers(scene: Scene) -> Step:
    """Running containers with their ports and health."""
    rng = scene.rng
    lines = [f"{'NAME':26} {'IMAGE':34} {'STATUS':28} PORTS"]
    for name in ("api", "worker", "worker-labels", "postgres", "broker", "proxy", "mailcatcher", "printer-sim", "scale-sim"):
        image = f"registry.{rng.choice(words.ZONES)}/{name}:{words.version(rng)}"
        status = rng.choice(("Up 3 hours (healthy)", "Up 3 hours", "Up 40 minutes (unhealthy)", "Restarting (137) 8 seconds ago"))
        lines.append(f"quillback-{name:16} {image:34} {status:28} 127.0.0.1:{words.port(rng)}->{words.port(rng)}/tcp")
    return command(scene, "docker compose ps --all", "\n".join(lines), about_seconds=0.6)


def sockets(scene: Scene) -> Step:
    """Listening sockets: many ports, none of them the one a user spoke of."""
    rng = scene.rng
    lines = [f"{'State':8} {'Recv-Q':>6} {'Send-Q':>6} {'Local':>24} {'Peer':>24}  Process"]
    names = ("uvicorn", "postgres", "beam.smp", "nginx", "python3", "printer-bridge", "scale-bridge", "node_exporter")
    for _ in range(scene.count(14, 26)):
        state = rng.choice(("LISTEN", "LISTEN", "ESTAB"))
        peer = "0.0.0.0:*" if state == "LISTEN" else f"{words.address(rng)}:{words.port(rng)}"
        lines.append(
            f"{state:8} {0:6d} {rng.randrange(1, 4096):6d} {words.address(rng) + ':' + words.port(rng):>24} {peer:>24}  {rng.choice(names)}[{rng.randrange(300, 32000)}]"
        )
    return command(scene, "ss -tnap", "\n".join(lines), about_seconds=0.1)


def inventory(scene: Scene) -> Step:
    """The machines of the deployment and what runs on them."""
    rng = scene.rng
    lines = [f"{'host':28} {'address':16} {'role':12} {'shop':10} {'build':12} last ticket"]
    lines += [
        f"{words.host(rng):28} {words.address(rng):16} {rng.choice(('db', 'db-replica', 'api', 'worker', 'till-hub', 'backup')):12} {rng.choice(words.SHOPS):10} {words.revision(rng):12} {words.ticket(rng)}"
        for _ in range(scene.count(14, 24))
    ]
    return command(scene, "bin/fleet list", "\n".join(lines), about_seconds=1)


def usage(scene: Scene) -> Step:
    """A command's own help."""
    rng = scene.rng
    name = scene.noun.replace("_", "-")
    lines = [
        f"usage: quillback {name} [-h] --shop CODE [--json] [options] ACTION",
        "",
        f"Look at and repair {name}s of one shop.",
        "",
        "actions:",
    ]
    lines += [
        f"  {action:12} {text}"
        for action, text in (
            ("list", "print a table"),
            ("show", "one of them with its events"),
            ("close", "close it, with a reason"),
            ("repair", "make totals and events agree"),
            ("export", "write a CSV for the accountant"),
        )
    ]
    lines += ["", "options:"]
    for field in rng.sample(words.FIELDS, 9):
        lines.append(
            f"  --{field.replace('_', '-'):20} {rng.choice(('show those with this', 'set the', 'ignore rows without a', 'sort by'))} {field.replace('_', ' ')}"
        )
    lines += [
        "  --limit N              stop after N rows (default 50)",
        "  --as-of TIME           the state at that time",
        "",
        "exit status: 0 done, 3 no such row, 4 refused, 5 the shop is offline",
    ]
    return command(scene, f"quillback {name} --help", "\n".join(lines), about_seconds=0.3)


def pipeline(scene: Scene) -> Step:
    """The log of a continuous-integration job, steps and all."""
    rng = scene.rng
    lines = [
        f"job {rng.randrange(10000, 99999)} on {words.host(rng)}, image build:{words.version(rng)}, commit {words.revision(rng)}"
    ]
    for title in (
        "checkout",
        "restore cache",
        "install",
        "lint",
        "types",
        "unit tests",
        "integration tests",
        "build image",
        "publish report",
    ):
        lines.append(f"::group::{title}")
        for at in words.moments(rng, count=scene.count(4, 9), mean_gap_ms=700):
            what = rng.choice(
                (
                    f"wheel {words.sku(rng).lower()} reused",
                    f"tests/{rng.choice(words.AREAS)}/test_{rng.choice(words.NOUNS)}s.py ....s.... ok",
                    f"layer {words.revision(rng)} already there",
                    f"waiting for {words.host(rng)}:{words.port(rng)}",
                    f"{rng.choice(words.NOUNS)}s: {rng.randrange(2, 90)} checks, {words.milliseconds(rng)}",
                )
            )
            lines.append(f"{at[11:]} {what}")
        lines.append(f"::endgroup:: {words.seconds(rng, about=14)}")
    lines += ["integration tests failed, last output:", trace_text(scene)]
    return command(scene, f"bin/ci log --branch {scene.noun}-work --last", "\n".join(lines), about_seconds=2)


def plan(scene: Scene) -> Step:
    """The agent's own list of what it will do."""
    name = scene.noun.replace("_", " ")
    steps = scene.rng.sample(
        (
            f"read the {name} code and its tests",
            "reproduce it with the smallest input",
            "change one place",
            "run the suite around it",
            "look at the plan of the slow query",
            "write down what changed",
            "check the worker's side",
        ),
        4,
    )
    entries = [{"step": step, "status": "in_progress" if index == 0 else "pending"} for index, step in enumerate(steps)]
    return Step(
        tool="update_plan",
        arguments={"plan": entries},
        output="plan noted\n"
        + "\n".join(f"{index + 1}. [{entry['status']}] {entry['step']}" for index, entry in enumerate(entries)),
    )
