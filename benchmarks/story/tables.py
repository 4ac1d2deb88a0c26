"""What databases, profilers and exports print."""

from __future__ import annotations

from benchmarks.story import words
from benchmarks.story.logs import rows_json
from benchmarks.story.scene import Scene, command
from benchmarks.story.session import Step


def query(scene: Scene) -> Step:
    """A table of rows from the database."""
    rng = scene.rng
    columns = ("id", "sku", "lot", *rng.sample(words.FIELDS, 3))
    rows = []
    for _ in range(scene.count(12, 34)):
        values = [
            rng.choice(("", "t", "f", f"{rng.randrange(1, 900)}", f"{rng.randrange(1, 900)}.{rng.randrange(10, 99)}", "manual"))
            for _ in columns[3:]
        ]
        rows.append((str(rng.randrange(1000, 99999)), words.sku(rng), words.lot_code(rng), *values))
    widths = [max(len(column), *(len(row[index]) for row in rows)) for index, column in enumerate(columns)]
    lines = [
        " | ".join(column.ljust(width) for column, width in zip(columns, widths, strict=True)),
        "-+-".join("-" * width for width in widths),
    ]
    lines += [" | ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)) for row in rows]
    lines.append(f"({len(rows)} rows)")
    statement = f"select {', '.join(columns)} from {scene.noun}s where {columns[3]} is distinct from {columns[4]} order by id limit {len(rows)}"
    return command(scene, f'psql -X qb_{rng.choice(words.SHOPS)} -c "{statement}"', "\n".join(lines))


def explain(scene: Scene) -> Step:
    """A query plan with its timings."""
    rng = scene.rng
    cost = rng.uniform(900, 48000)
    lines = [
        f"Limit  (cost={cost / 9:.2f}..{cost:.2f} rows=50 width=88) (actual time={rng.uniform(1, 90):.3f}..{rng.uniform(91, 900):.3f} rows=50 loops=1)"
    ]
    kinds = (
        "Nested Loop Left Join",
        f"Index Scan using {scene.noun}s_pkey on {scene.noun}s",
        f"Seq Scan on {rng.choice(words.NOUNS)}s",
        "Hash Join",
        "Sort",
        f"Bitmap Heap Scan on {rng.choice(words.NOUNS)}s",
        "Materialize",
        "Gather Merge",
        "Incremental Sort",
        "Memoize",
    )
    for depth in range(rng.randrange(7, 14)):
        pad = "  " * (depth + 1)
        rows = rng.randrange(1, 90000)
        lines.append(
            f"{pad}->  {rng.choice(kinds)}  (cost=0.42..{cost / (depth + 2):.2f} rows={rows} width={rng.randrange(8, 300)}) (actual time={rng.random():.3f}..{rng.uniform(1, 400):.3f} rows={rows // 3} loops={rng.randrange(1, 40)})"
        )
        if rng.random() < 0.5:
            lines.append(f"{pad}      Filter: ({rng.choice(words.FIELDS)} IS NOT NULL)")
            lines.append(f"{pad}      Rows Removed by Filter: {rng.randrange(10, 400000)}")
        lines.append(f"{pad}      Buffers: shared hit={rng.randrange(10, 90000)} read={rng.randrange(0, 9000)}")
    lines += [f"Planning Time: {rng.uniform(0.3, 4):.3f} ms", f"Execution Time: {rng.uniform(40, 4000):.3f} ms"]
    return command(scene, f"psql -X qb_staging -f var/tmp/slow_{scene.noun}.sql", "\n".join(lines), about_seconds=2)


def schema(scene: Scene) -> Step:
    """The description of a table: columns, indexes, foreign keys, triggers."""
    rng = scene.rng
    table = f"{scene.noun}s"
    lines = [f'Table "public.{table}"', f"{'Column':24} | {'Type':26} | Nullable | Default", "-" * 88]
    lines.append(f"{'id':24} | {'bigint':26} | not null | generated always as identity")
    for field in rng.sample(words.FIELDS, rng.randrange(9, 15)):
        kind = rng.choice(("text", "integer", "numeric(12,4)", "timestamp with time zone", "boolean", "jsonb"))
        lines.append(
            f"{field:24} | {kind:26} | {rng.choice(('not null', '        '))} | {rng.choice(('', '0', 'now()', 'false', chr(39) + chr(39)))}"
        )
    lines.append("Indexes:")
    lines += [
        f'    "{table}_{field}_idx" btree ({field}, id){rng.choice(("", " WHERE closed_at IS NULL"))}'
        for field in rng.sample(words.FIELDS, 4)
    ]
    lines.append("Foreign-key constraints:")
    lines += [
        f'    "{table}_{other}_fkey" FOREIGN KEY ({other}_id) REFERENCES {other}s(id) ON DELETE RESTRICT'
        for other in rng.sample(words.NOUNS, 3)
    ]
    lines += ["Triggers:", f"    {table}_outbox AFTER INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION put_in_outbox()"]
    lines.append(f"Size: {rng.randrange(3, 900)} MB, {rng.randrange(10000, 9000000)} rows (estimate)")
    return command(scene, f"psql -X qb_staging -c '\\d+ {table}'", "\n".join(lines))


def migrate(scene: Scene) -> Step:
    """A migration run, statement by statement."""
    rng = scene.rng
    lines = [f"database qb_staging on {words.host(rng)}:{words.port(rng)}, at 00{rng.randrange(20, 30)}"]
    start = rng.randrange(2, 8)
    for offset in range(scene.count(5, 11)):
        noun = words.NOUNS[(start + offset) % len(words.NOUNS)]
        lines.append(f"applying {31 + offset:04d}_{noun}.sql ({words.ticket(rng)})")
        lines += [
            f"    {statement:28} {words.milliseconds(rng):>12}   {rng.choice(('ok', 'ok', 'ok', f'{rng.randrange(100, 90000)} rows'))}"
            for statement in rng.sample(
                (
                    "set local lock_timeout",
                    "alter table",
                    "create table",
                    "create index concurrently",
                    "update",
                    "comment on column",
                ),
                4,
            )
        ]
        lines.append(f"    checksum {words.revision(rng)}{words.revision(rng)}")
    lines.append(
        rng.choice(("done, schema and model agree", "done, 1 warning: index left invalid, run again with --repair-indexes"))
    )
    return command(scene, "bin/migrate up --verbose", "\n".join(lines), about_seconds=11)


def profile(scene: Scene) -> Step:
    """A profiler's table, hottest function first."""
    rng = scene.rng
    total = rng.uniform(2, 30)
    lines = [
        f"{rng.randrange(200000, 9000000)} function calls in {total:.3f} seconds",
        "",
        "   ncalls  tottime  percall  cumtime  filename:lineno(function)",
    ]
    left = total
    for _ in range(scene.count(18, 36)):
        own = left * rng.uniform(0.05, 0.3)
        left -= own
        calls = rng.randrange(1, 400000)
        where = rng.choice(
            (
                f"src/quillback/{rng.choice(words.AREAS)}/{rng.choice(words.NOUNS)}s.py",
                "json/encoder.py",
                "psycopg/cursor_async.py",
                "decimal.py",
                "asyncio/base_events.py",
            )
        )
        lines.append(
            f"{calls:9d} {own:8.3f} {own / calls:8.5f} {own + left * rng.random():8.3f}  {where}:{rng.randrange(9, 700)}({rng.choice(('page', 'merge', 'quantize', 'row_of', 'iterencode', 'take', 'execute'))})"
        )
    return command(
        scene, f"python -m cProfile -s tottime bin/replay --{scene.noun.replace('_', '-')}", "\n".join(lines), about_seconds=total
    )


def export(scene: Scene) -> Step:
    """The first lines of a CSV export."""
    rng = scene.rng
    lines = ["sku;name;lot;shop;quantity;unit_price;currency;counted_at"]
    lines += [
        f"{words.sku(rng)};{rng.choice(words.GOODS)};{words.lot_code(rng)};{rng.choice(words.SHOPS)};{rng.randrange(0, 400)};{rng.randrange(1, 900)},{rng.randrange(10, 99)};{rng.choice(('NOK', 'EUR', 'GBP', 'SEK', 'PLN'))};{at}"
        for at in words.moments(rng, count=scene.count(18, 44), mean_gap_ms=60000)
    ]
    return command(scene, f"head -n {len(lines)} var/export/{scene.noun}s.csv", "\n".join(lines))


def api_rows(scene: Scene) -> Step:
    """A saved answer of the API, pretty-printed."""
    return command(scene, f"jq . tests/fixtures/{scene.noun}s.json", rows_json(scene, scene.count(5, 16)))
