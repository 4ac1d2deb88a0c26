"""Python source of the invented service, put together from functions that such a service has.

In the pieces `thing` stands for a noun of the domain and `field` for one of its columns.
"""

from __future__ import annotations

from random import Random

from benchmarks.story.words import FIELDS, NOUNS, camel

_HEADS = {
    "api": "from starlette.requests import Request\nfrom starlette.responses import JSONResponse\n\nfrom quillback.api.errors import NotThere, Refused\n",
    "worker": "import asyncio\nimport logging\n\nfrom quillback.worker.queue import Job, Queue\n\nlog = logging.getLogger(__name__)\n",
    "store": "from collections.abc import AsyncIterator\n\nfrom psycopg import AsyncConnection\n\nfrom quillback.store.rows import Row, row_of\n",
    "cli": "import argparse\nimport sys\n\nfrom quillback.cli.printing import table\n",
    "pricing": "from dataclasses import dataclass\nfrom decimal import ROUND_HALF_EVEN, Decimal\n",
    "sync": "import hashlib\nimport json\nfrom pathlib import Path\n\nfrom quillback.sync.feeds import Feed\n",
    "tests": "import pytest\n\nfrom quillback.testing import a_shop, a_user, client\n",
}

_PIECES = (
    '''
async def list_things(request: Request) -> JSONResponse:
    """Return one page of things the caller may see, newest first."""
    after = request.query_params.get("after")
    limit = min(int(request.query_params.get("limit", "50")), 200)
    page = await request.state.things.page(after=after, limit=limit)
    return JSONResponse({"things": [t.as_json() for t in page.rows], "next": page.next_cursor})
''',
    """
async def create_thing(request: Request) -> JSONResponse:
    body = await request.json()
    try:
        draft = ThingDraft.from_json(body)
    except KeyError as error:
        raise Refused(f"thing lacks {error.args[0]!r}") from error
    async with request.state.unit_of_work() as work:
        thing = await work.things.add(draft, by=request.user.id)
        await work.outbox.put("thing.created", {"id": thing.id, "field": thing.field})
    return JSONResponse(thing.as_json(), status_code=201, headers={"Location": f"/things/{thing.id}"})
""",
    '''
async def handle_thing_changed(job: Job, *, queue: Queue) -> None:
    """Bring search and the label cache up to date after a thing changed."""
    payload = job.payload
    if payload.get("field") is None:
        log.info("thing %s has no field yet, trying later", payload["id"])
        await queue.defer(job, seconds=30 * 2**job.attempts)
        return
    await asyncio.gather(reindex("thing", payload["id"]), drop_label(payload["id"]))
    log.debug("thing %s done after %d attempts", payload["id"], job.attempts)
''',
    '''
class ThingLocks:
    """Advisory locks per thing, so that two tills never book the same field."""

    def __init__(self, connection: AsyncConnection[Row]) -> None:
        self._connection = connection
        self._held: set[int] = set()

    async def take(self, thing_id: int) -> bool:
        cursor = await self._connection.execute("select pg_try_advisory_xact_lock(%s)", [thing_id])
        row = await cursor.fetchone()
        if row is not None and row[0]:
            self._held.add(thing_id)
            return True
        return False
''',
    '''
async def open_things(connection: AsyncConnection[Row], *, shop: str) -> AsyncIterator[Row]:
    query = """
        select t.id, t.field, t.updated_at
          from things t
          join shops s on s.id = t.shop_id
         where s.code = %s and t.closed_at is null
         order by t.updated_at, t.id
    """
    async with connection.cursor(name="open_things") as cursor:
        await cursor.execute(query, [shop])
        async for record in cursor:
            yield row_of(record)
''',
    '''
def thing_total(rows: list[Row], *, currency: str) -> Decimal:
    """Sum the field of every row in one currency; rows in another are an error of the caller."""
    total = Decimal(0)
    for row in rows:
        if row["currency"] != currency:
            raise ValueError(f"thing {row['id']} is in {row['currency']}, expected {currency}")
        total += Decimal(row["field"]) * row["quantity"]
    return total.quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN)
''',
    '''
@dataclass(frozen=True)
class ThingRule:
    """When and by how much a thing changes the price of a line."""

    field: str
    percent: Decimal
    minimum: int = 1

    def applies_to(self, line: dict[str, object]) -> bool:
        return line.get("field") == self.field and int(str(line["quantity"])) >= self.minimum

    def apply(self, amount: Decimal) -> Decimal:
        return (amount * (100 - self.percent) / 100).quantize(Decimal("0.0001"))
''',
    """
def add_thing_commands(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("thing", help="look at and repair things")
    parser.add_argument("--shop", required=True, help="code of the shop")
    parser.add_argument("--field", help="show those with this field")
    parser.add_argument("--json", action="store_true", help="one object per line instead of a table")
    parser.set_defaults(run=run_thing)


def run_thing(arguments: argparse.Namespace) -> int:
    rows = [r for r in fetch_things(arguments.shop) if arguments.field in (None, r["field"])]
    if not rows:
        print(f"no thing in {arguments.shop}", file=sys.stderr)
        return 3
    print(table(rows, columns=("id", "field", "updated_at")))
    return 0
""",
    '''
def merge_thing_feed(feed: Feed, known: dict[str, str]) -> list[dict[str, object]]:
    """Return the entries of `feed` whose digest differs from what the shop already has."""
    changed = []
    for entry in feed.entries("thing"):
        digest = hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
        if known.get(entry["ref"]) == digest:
            continue
        known[entry["ref"]] = digest
        changed.append({**entry, "field": entry.get("field") or "unset"})
    return changed
''',
    '''
async def sweep_expired_things(queue: Queue, *, batch: int = 100) -> int:
    """Close things whose time ran out; returns how many. Safe to run on several workers at once."""
    closed = 0
    while True:
        ids = await queue.store.claim_expired("things", limit=batch)
        if not ids:
            return closed
        for thing_id in ids:
            await queue.put("thing.expired", {"id": thing_id})
        closed += len(ids)
        await asyncio.sleep(0)
''',
    '''
class ThingGone(NotThere):
    """The thing existed once. The answer carries what replaced it, where that is known."""

    status = 410

    def __init__(self, thing_id: int, *, replaced_by: int | None = None) -> None:
        super().__init__(f"thing {thing_id} was closed")
        self.extra = {"replaced_by": replaced_by} if replaced_by else {}
''',
    """
async def patch_thing(request: Request) -> JSONResponse:
    wanted = request.headers.get("if-match")
    change = await request.json()
    current = await request.state.things.get(int(request.path_params["id"]))
    if wanted and wanted.strip('"') != str(current.version):
        raise Refused("someone else changed this thing", status=412)
    unknown = change.keys() - {"field", "note", "quantity"}
    if unknown:
        raise Refused(f"cannot change {', '.join(sorted(unknown))}")
    changed = await request.state.things.update(current.id, change, version=current.version)
    return JSONResponse(changed.as_json(), headers={"ETag": f'"{changed.version}"'})
""",
    """
def load_thing_snapshot(path: Path) -> list[dict[str, object]]:
    rows = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path.name}:{number}: {error.msg}") from error
            if row.get("kind") == "thing" and row.get("field"):
                rows.append(row)
    return rows
""",
)

_TESTS = (
    """
async def test_thing_keeps_its_field_after_an_update() -> None:
    async with client(user=a_user(role="clerk")) as http:
        made = (await http.post("/things", json={"field": "b-12", "quantity": 3})).json()
        await http.patch(f"/things/{made['id']}", json={"quantity": 4})
        seen = (await http.get(f"/things/{made['id']}")).json()
    assert seen == {**made, "quantity": 4, "version": made["version"] + 1}
""",
    """
@pytest.mark.parametrize(
    ("quantity", "expected"),
    [(1, "12.50"), (3, "37.50"), (10, "118.75"), (0, "0.00")],
)
def test_thing_total_rounds_half_to_even(quantity: int, expected: str) -> None:
    assert str(thing_total([{"id": 1, "field": "12.50", "currency": "NOK", "quantity": quantity}], currency="NOK")) == expected
""",
    """
async def test_two_tills_cannot_take_the_same_thing() -> None:
    shop = await a_shop(things=1)
    first, second = await shop.till(), await shop.till()
    assert await first.take(shop.things[0]) is True
    assert await second.take(shop.things[0]) is False
""",
    """
async def test_expired_things_are_swept_once() -> None:
    shop = await a_shop(things=5, expired=3)
    assert await shop.sweep() == 3
    assert await shop.sweep() == 0
    assert [t.field for t in await shop.open_things()] == ["open", "open"]
""",
    """
async def test_thing_feed_with_a_broken_line_names_the_line(tmp_path) -> None:
    path = tmp_path / "things.jsonl"
    path.write_text('{"kind": "thing", "field": "x"}\\n{oops\\n')
    with pytest.raises(ValueError, match="things.jsonl:2"):
        load_thing_snapshot(path)
""",
    """
async def test_clerk_of_another_shop_gets_a_404_for_a_thing() -> None:
    here, there = await a_shop(things=1), await a_shop()
    async with client(user=a_user(shop=there)) as http:
        answer = await http.get(f"/things/{here.things[0].id}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_there")
""",
)

_ADDITIONS = (
    '    if field is None:\n        raise Refused("thing has no field")\n',
    '    log.info("thing %s took %.1f ms", thing_id, (after - before) * 1000)\n',
    "    # Two shops share this thing; without the lock the second one reads a half written field.\n    await locks.take(thing_id)\n",
    '    seen: set[int] = set()\n    rows = [r for r in rows if not (r["id"] in seen or seen.add(r["id"]))]\n',
    '    field = unicodedata.normalize("NFC", field.strip())\n',
    '    assert answer.headers["x-thing-version"] == str(thing.version)\n',
    "    deadline = asyncio.timeout(settings.thing_timeout_seconds)\n    async with deadline:\n        await flush_things()\n",
    "    if thing.closed_at is not None:\n        return None\n",
    '    total += Decimal(row["field"] or 0)\n',
)


def _about(piece: str, *, noun: str, field: str) -> str:
    return piece.replace("Thing", camel(noun)).replace("thing", noun).replace("field", field)


def python_source(rng: Random, *, area: str, noun: str) -> str:
    """Return a module of `area` that deals with `noun` and, as modules do, with one or two neighbours."""
    pool = _TESTS if area == "tests" else _PIECES
    nouns = [noun, noun, noun, *rng.sample(NOUNS, 2)]
    pieces = rng.sample(pool, min(len(pool), rng.randrange(5, 8)))
    body = "\n".join(_about(piece, noun=rng.choice(nouns), field=rng.choice(FIELDS)) for piece in pieces)
    purpose = rng.choice(("Everything the {0} does with {1}s.", "{1}s, as the {0} sees them.", "The {0}'s side of a {1}."))
    return f'"""{purpose.format(area, noun.replace("_", " "))}"""\n\nfrom __future__ import annotations\n\n{_HEADS[area]}\n{body}'


def addition(rng: Random, *, noun: str) -> list[str]:
    """Return a few lines that an edit could add to a function about `noun`."""
    return _about(rng.choice(_ADDITIONS), noun=noun, field=rng.choice(FIELDS)).splitlines()
