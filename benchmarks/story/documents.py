"""Files of the invented service that are not Python: pages of documentation, migrations, settings, the API description."""

from __future__ import annotations

from random import Random

from benchmarks.story import words

_PARAGRAPHS = (
    "A {n} belongs to exactly one shop. Moving it to another one closes it there and opens a copy here, so that the "
    "history of each shop reads on its own and no report has to know about the other.",
    "Clerks see a {n} the moment it is committed. The public catalogue follows within a minute, because it is fed from "
    "the outbox and the outbox is drained in batches.",
    "The {f} of a {n} is what the supplier sent, not what we made of it. Where the two differ, the difference is kept as a "
    "note and shown in grey beside the value.",
    "When a till is offline, each {n} gets a provisional number. The number is replaced when the till is back; what was "
    "printed keeps a reference to both.",
    "Closing a {n} is final. There is a repair command for the rare case, and it asks for a reason and a second person.",
    "Most questions about a {n} are answered by its event list. Read it from the bottom: the last three events explain "
    "nine cases of ten, the tenth is a clock that went backwards.",
    "Imports never delete. A {n} missing from a feed is marked unseen, and after thirty days unseen it is put in front of a person.",
)
_HEADINGS = (
    "What it is",
    "Life of a {n}",
    "When it goes wrong",
    "Numbers and limits",
    "Fields",
    "Who may change it",
    "Offline tills",
    "How it is tested",
    "Open questions",
    "Repairing by hand",
)


def remark(rng: Random, *, noun: str) -> str:
    """Return one sentence about `noun`, such as an edit adds to a page or a comment."""
    return (
        rng.choice(_PARAGRAPHS).partition(". ")[0].format(n=noun.replace("_", " "), f=rng.choice(words.FIELDS)).rstrip(".") + "."
    )


def page(rng: Random, *, noun: str) -> str:
    """Return a page of the manual about `noun`."""
    name = noun.replace("_", " ")
    lines = [f"# {name.capitalize()}s", ""]
    for heading in rng.sample(_HEADINGS, 5):
        lines += [f"## {heading.format(n=name)}", ""]
        for paragraph in rng.sample(_PARAGRAPHS, 2):
            lines += [paragraph.format(n=name, f=rng.choice(words.FIELDS).replace("_", " ")), ""]
    lines += ["| field | type | may be empty | since | decided in |", "|---|---|---|---|---|"]
    for field in rng.sample(words.FIELDS, 7):
        kind = rng.choice(("text", "integer", "date", "numeric(12,4)", "boolean", "uuid"))
        lines.append(f"| `{field}` | {kind} | {rng.choice(('yes', 'no'))} | {words.version(rng)} | {words.ticket(rng)} |")
    return "\n".join(lines) + "\n"


def migration(rng: Random, *, noun: str) -> str:
    """Return one migration with its way back."""
    first, second, third = rng.sample(words.FIELDS, 3)
    table = f"{noun}s"
    return (
        f"-- {noun.replace('_', ' ')}: {rng.choice(('split the', 'index the', 'make room for the', 'stop guessing the'))} {first}\n"
        "-- up\n"
        "begin;\nset local lock_timeout = '3s';\n"
        f"alter table {table} add column {first}_new text;\n"
        f"alter table {table} add column {second}_checked_at timestamptz;\n"
        f"create table {noun}_{third}_history (\n"
        "    id bigint generated always as identity primary key,\n"
        f"    {noun}_id bigint not null references {table} (id) on delete restrict,\n"
        f"    old_{third} text,\n    new_{third} text not null,\n"
        "    changed_by bigint references staff (id),\n    changed_at timestamptz not null default now()\n);\n"
        f"create index concurrently if not exists {table}_{first}_idx on {table} ({first}_new) where closed_at is null;\n"
        f"update {table} set {first}_new = trim({first}) where {first} is not null;\n"
        f"comment on column {table}.{first}_new is 'as typed by the clerk; see docs/{noun}.md';\n"
        "commit;\n\n-- down\nbegin;\n"
        f"drop index if exists {table}_{first}_idx;\ndrop table {noun}_{third}_history;\n"
        f"alter table {table} drop column {second}_checked_at, drop column {first}_new;\ncommit;\n"
    )


def settings(rng: Random) -> str:
    """Return the settings of one deployment."""
    lines = ["# Which machine does what. Values in the environment win over this file.", "[service]"]
    lines += [f'bind = "0.0.0.0:{words.port(rng)}"', f"workers = {rng.randrange(2, 9)}", 'log_format = "json"', ""]
    for shop in words.SHOPS:
        lines += [f"[shop.{shop}]  # {words.ticket(rng)}", f'build = "{words.revision(rng)}"']
        lines += [f'recalled_lots = ["{words.lot_code(rng)}", "{words.lot_code(rng)}"]']
        lines += [f'database = "postgresql://quillback@{words.host(rng)}:{words.port(rng)}/qb_{shop}"']
        lines += [
            f'printer = "{words.address(rng)}:{words.port(rng)}"',
            f"opening_hours = [{rng.randrange(6, 10)}, {rng.randrange(16, 20)}]",
        ]
        lines += [f'courier_tenant = "{words.tenant(rng)}"', f"sync_every_seconds = {rng.randrange(3, 40) * 15}", ""]
    lines += ["[outbox]", f"batch = {rng.randrange(4, 30) * 25}", f"retry_seconds = [5, 30, {rng.randrange(2, 9) * 60}]", ""]
    lines += ["[labels]", 'format = "zpl"', f'fallback_host = "{words.host(rng)}"', "dots_per_mm = 8"]
    return "\n".join(lines) + "\n"


def api_description(rng: Random, *, noun: str) -> str:
    """Return the part of the OpenAPI description that covers `noun`."""
    lines = [f"/{noun}s:", "  get:", f"    operationId: list_{noun}s", "    parameters:"]
    for name in ("after", "limit", *rng.sample(words.FIELDS, 3)):
        lines += [f"      - name: {name}", "        in: query", "        required: false", "        schema: {type: string}"]
    lines += [
        "    responses:",
        "      '200':",
        f"        description: One page of {noun.replace('_', ' ')}s.",
        "        content:",
    ]
    lines += ["          application/json:", f"            schema: {{$ref: '#/components/schemas/{words.camel(noun)}Page'}}"]
    for status, why in (("401", "The key is missing or expired."), ("403", "Another shop owns it."), ("429", "Slow down.")):
        lines += [f"      '{status}':", f"        description: {why}", "        content: {application/problem+json: {}}"]
    lines += [
        "components:",
        "  schemas:",
        f"    {words.camel(noun)}:",
        "      type: object",
        "      required: [id, version]",
        "      properties:",
    ]
    for field in rng.sample(words.FIELDS, 9):
        lines += [f"        {field}:", f"          type: {rng.choice(('string', 'integer', 'boolean'))}"]
        lines += [f"          description: {rng.choice(_PARAGRAPHS).split('.')[0].format(n=noun, f=field)}."]
    return "\n".join(lines) + "\n"
