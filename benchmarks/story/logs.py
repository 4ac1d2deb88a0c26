"""What a running service leaves behind: structured logs, access logs, stack traces, journals, probes."""

from __future__ import annotations

import json

from benchmarks.story import words
from benchmarks.story.scene import Scene, command
from benchmarks.story.session import Step

_EVENTS = (
    "job.claimed",
    "job.done",
    "job.deferred",
    "outbox.drained",
    "label.printed",
    "feed.merged",
    "lock.waited",
    "till.connected",
    "till.lost",
    "sync.started",
    "sync.finished",
    "price.recomputed",
    "cache.evicted",
    "session.opened",
    "courier.answered",
)
_ERRORS = (
    ("psycopg.errors.SerializationFailure", "could not serialize access due to concurrent update"),
    ("psycopg.errors.UniqueViolation", 'duplicate key value violates unique constraint "{n}s_source_ref_key"'),
    ("httpx.ReadTimeout", "the courier did not answer within 8 s"),
    ("KeyError", "'{f}'"),
    ("decimal.InvalidOperation", "[<class 'decimal.ConversionSyntax'>]"),
    ("quillback.api.errors.Refused", "someone else changed this {n}"),
    ("ConnectionResetError", "[Errno 104] Connection reset by peer"),
    ("UnicodeDecodeError", "'utf-8' codec can't decode byte 0xf8 in position 41: invalid start byte"),
)


def json_log_lines(scene: Scene, count: int) -> str:
    """Return `count` lines of the worker's structured log."""
    rng = scene.rng
    lines = []
    for at in words.moments(rng, count=count, mean_gap_ms=900):
        entry: dict[str, object] = {"at": at + "Z", "level": rng.choices(("info", "debug", "warning", "error"), (8, 3, 2, 1))[0]}
        entry |= {"event": rng.choice(_EVENTS), "shop": rng.choice(words.SHOPS), "host": words.host(rng)}
        match rng.randrange(5):
            case 0:
                entry |= {scene.noun: rng.randrange(1000, 99999), "attempt": rng.randrange(1, 6)}
            case 1:
                entry |= {"peer": f"{words.address(rng)}:{words.port(rng)}", "took": words.milliseconds(rng)}
            case 2:
                entry |= {"sku": words.sku(rng), "lot": words.lot_code(rng), "left": rng.randrange(0, 400)}
            case 3:
                entry |= {"rows": rng.randrange(1, 900), "build": words.revision(rng)}
            case _:
                entry |= {"tenant": words.tenant(rng), "status": rng.choice((200, 202, 204, 409, 429, 503))}
        lines.append(json.dumps(entry))
    return "\n".join(lines)


def worker_log(scene: Scene) -> Step:
    """The worker's structured log."""
    count = scene.count(12, 32)
    return command(scene, f"tail -n {count} var/log/worker.jsonl", json_log_lines(scene, count))


def access_log(scene: Scene) -> Step:
    """The proxy's access log."""
    rng = scene.rng
    lines = []
    agents = ("quillback-till/4", "curl/8", "Mozilla/5.0 (X11; Linux)", "courier-hook/2", "scanner-fw/19")
    for at in words.moments(rng, count=scene.count(16, 40), mean_gap_ms=300):
        noun = scene.noun if rng.random() < 0.5 else rng.choice(words.NOUNS)
        request = f"{rng.choice(('GET', 'GET', 'GET', 'POST', 'PATCH'))} /{noun}s/{rng.randrange(10, 99999)}"
        status = rng.choices((200, 201, 304, 404, 409, 412, 429, 500), (60, 9, 12, 4, 3, 3, 2, 1))[0]
        lines.append(
            f'{words.address(rng)} - - [{at}] "{request} HTTP/1.1" {status} {rng.randrange(90, 48000)} "{rng.choice(agents)}" {rng.random() * 2:.3f}'
        )
    return command(scene, f"grep {scene.noun} var/log/access.log | tail -n {len(lines)}", "\n".join(lines))


def trace_text(scene: Scene) -> str:
    """Return a stack trace through the service, with the chained error below it that such traces have."""
    rng = scene.rng
    error, text = rng.choice(_ERRORS)
    lines = ["Traceback (most recent call last):"]
    for _ in range(rng.randrange(5, 11)):
        noun = scene.noun if rng.random() < 0.6 else rng.choice(words.NOUNS)
        source = [
            line
            for line in scene.tree.read(f"src/quillback/{rng.choice(words.AREAS)}/{noun}s.py").splitlines()
            if line.startswith("        ")
        ]
        name = rng.choice(("create", "handle", "merge", "sweep", "take", "page", "update", "drain"))
        lines += [
            f'  File "/srv/quillback/src/quillback/{rng.choice(words.AREAS)}/{noun}s.py", line {rng.randrange(12, 340)}, in {name}_{noun}'
        ]
        lines += [f"    {rng.choice(source or ['        await job']).strip()}"]
    lines.append(f"{error}: {text.format(n=scene.noun, f=rng.choice(words.FIELDS))}")
    if rng.random() < 0.5:
        other, cause = rng.choice(_ERRORS)
        lines += [
            "",
            "During handling of the above exception, another exception occurred:",
            "",
            "Traceback (most recent call last):",
        ]
        lines += [
            f'  File "/srv/quillback/src/quillback/worker/queue.py", line {rng.randrange(40, 200)}, in _settle',
            "    await self._connection.execute(SETTLE, [job.id, outcome])",
        ]
        lines.append(f"{other}: {cause.format(n=scene.noun, f=rng.choice(words.FIELDS))}")
    return "\n".join(lines)


def traceback(scene: Scene) -> Step:
    """What the error tracker has on the newest failure."""
    rng = scene.rng
    head = f"{rng.randrange(3, 240)} times since {words.moments(rng, count=1, mean_gap_ms=1)[0]}, build {words.revision(rng)}, last on {words.host(rng)}, seen before in {words.ticket(rng)} and {words.ticket(rng)}\n"
    return command(
        scene,
        f"bin/errors show --newest --about {scene.noun}",
        head + trace_text(scene) + "\n\nbreadcrumbs:\n" + json_log_lines(scene, 6),
    )


def journal(scene: Scene) -> Step:
    """The system journal around a restart."""
    rng = scene.rng
    machine = rng.choice(words.BIRDS)
    voices = {
        "systemd[1]": (
            "Started quillback worker.",
            "Scheduled restart job, counter is at {n}.",
            "Stopping quillback worker...",
            "quillback-worker.service: Main process exited, code=killed, status=9/KILL",
            "Consumed {n}min CPU time.",
        ),
        "kernel": (
            "oom-kill: constraint=CONSTRAINT_MEMCG, task=python3",
            "Memory cgroup out of memory: killed process {p} (python3)",
        ),
        f"quillback-worker[{rng.randrange(2000, 30000)}]": (
            "reloading settings",
            "still alive, {n} jobs in hand",
            "printer socket closed by peer",
            "lease of job {p} taken over",
            "draining before stop, {n} left",
        ),
    }
    lines = []
    for at in words.moments(rng, count=scene.count(14, 30), mean_gap_ms=9000):
        unit = rng.choice(list(voices))
        event = rng.choice(voices[unit]).format(n=rng.randrange(2, 60), p=rng.randrange(2000, 30000))
        lines.append(f"{at.replace('T', ' ')} {machine} {unit}: {event}")
    return command(scene, "journalctl -u quillback-worker -o short-iso-precise --since today", "\n".join(lines))


def probe(scene: Scene) -> Step:
    """A verbose HTTP probe and the JSON it got."""
    rng = scene.rng
    where = f"{words.host(rng)}:{words.port(rng)}"
    lines = [
        f"* Connected to {where} ({words.address(rng)})",
        f"> GET /{scene.noun}s?limit=12 HTTP/1.1",
        "> accept: application/json",
        f"> x-request-id: {words.revision(rng)}",
    ]
    lines += [
        "< HTTP/1.1 200 OK",
        "< content-type: application/json",
        f'< etag: "{rng.randrange(100, 999)}"',
        f"< x-build: {words.revision(rng)}",
        "<",
    ]
    return command(
        scene,
        f"curl -sv http://{where}/{scene.noun}s?limit=12 | jq .",
        "\n".join(lines) + "\n" + rows_json(scene, rng.randrange(5, 12)),
    )


def rows_json(scene: Scene, count: int) -> str:
    """Return a page of the API's rows, as JSON."""
    rng = scene.rng
    rows = []
    for _ in range(count):
        row: dict[str, object] = {"id": rng.randrange(1000, 99999), "sku": words.sku(rng), "name": rng.choice(words.GOODS)}
        row |= {"lot": words.lot_code(rng), "shop": rng.choice(words.SHOPS), "quantity": rng.randrange(0, 250)}
        row |= {field: rng.choice((None, "manual", rng.randrange(1, 90), True)) for field in rng.sample(words.FIELDS[5:], 2)}
        rows.append(row)
    return json.dumps({f"{scene.noun}s": rows, "next": words.revision(rng)}, indent=2)


def load_test(scene: Scene) -> Step:
    """The report of a load test: latency table, status codes, the slowest requests."""
    rng = scene.rng
    base = rng.uniform(8, 45)
    lines = [
        f"target  http://{words.host(rng)}:{words.port(rng)}/{scene.noun}s",
        f"requests {rng.randrange(8000, 60000)}, {rng.randrange(8, 64)} connections",
        "",
        "latency",
    ]
    for share, factor in ((50, 1.0), (75, 1.4), (90, 2.2), (95, 3.1), (99, 6.5), (99.9, 14.0)):
        lines.append(f"  p{share:<5} {base * factor * rng.uniform(0.9, 1.2):8.1f} ms  {'#' * int(8 + factor * 3)}")
    lines += ["", "status"] + [f"  {code}  {rng.randrange(3, 40000):6d}" for code in (200, 409, 429, 503)]
    lines += ["", "slowest"]
    for _ in range(scene.count(6, 16)):
        lines.append(
            f"  {base * rng.uniform(12, 30):8.1f} ms  {rng.choice(('GET', 'POST'))} /{scene.noun}s/{rng.randrange(10, 99999)}  till {rng.randrange(1, 40)}"
        )
    return command(scene, f"bin/load --path /{scene.noun}s --seconds 30", "\n".join(lines), about_seconds=31)
