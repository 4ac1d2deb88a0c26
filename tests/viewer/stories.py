"""Threads for the viewer to show: a long piece of work with compactions, a fork, mail, and what hostile tools print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.conftest import ManualClock
from tests.drafting.replies import block
from tests.histories import Json, answered, call, output, said

from threadkeep import Thread, Threadkeep
from threadkeep.items import link_chain
from threadkeep.store import NewRecord, RecordKind
from threadkeep.testing.scripted_model import ScriptedModel, says
from threadkeep.threads import ReplyBody, TurnBody, encode_body
from threadkeep.threads.reader import load_current_turn, load_tip
from threadkeep.threads.records import MailBody, SpawnBody

WINDOW = 24_000
# After so many turns the compaction is a model's.
CORRECTED_AFTER = 6

# Everything a tool or a person could put into a transcript to leave the page it is shown on.
HOSTILE = (
    "</pre></bdi><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>"
    "\"'><svg onload=window.broken=3> {{ 7*7 }} {% raw %}"
    " \x1b[31mred\x1b[0m \x07 \u202egnp.exe\u202c <!-- javascript:window.broken=4"
)

STEPS = (
    ("Move the billing service to PostgreSQL. Never touch vendor/.", "grep -rn 'sqlite' billing/"),
    ("Staging listens on port 4610.", "cat billing/migrations/0007_invoices.sql"),
    ("The invoice numbers must stay gapless, the auditors check that.", "pytest billing/tests/test_numbers.py"),
    ("Write the migration in two steps so that we can roll back.", "alembic revision -m 'invoices, step one'"),
    ("Correction: staging listens on port 4711, not 4610.", "sed -i 's/4610/4711/' deploy/staging.toml"),
    ("Run the whole suite before you push anything.", "pytest -q"),
    ("Use the read replica for the monthly report.", "cat billing/reports/monthly.py"),
    ("The report times out. Add an index on issued_at, but no new dependency.", "psql -c 'explain analyze select …'"),
    ("Forget about the read replica, the primary is fine.", "git diff --stat"),
    ("Rename InvoiceLine to Line everywhere except in the public API.", "grep -rln InvoiceLine billing/"),
    ("Customers in Japan see the tax twice. Find out why.", "pytest billing/tests/test_tax.py -k japan"),
    ("Write the release notes. Mention the port change.", "git log --oneline main.."),
)


def worked(number: int, demand: str, command: str) -> list[Json]:
    """Return one turn of work: what was asked, two calls with long outputs, an answer."""
    listing = "".join(
        f"billing/module_{number}_{line}.py:{line * 7}: row = session.execute(query_{line})\n" for line in range(90)
    )
    return [
        said(demand),
        call(f"call_{number}_a", f'{{"cmd":"{command}"}}'),
        output(f"call_{number}_a", listing),
        call(f"call_{number}_b", f'{{"cmd":"pytest -q billing -k step_{number}"}}'),
        output(f"call_{number}_b", f"{number * 3} passed, 1 warning in {number}.4{number}s\n" + "." * 400),
        answered(f"Step {number} is done; the tests for it pass and nothing under vendor/ was touched."),
    ]


async def billing(
    tk: Threadkeep, clock: ManualClock, *, name: str = "billing", compact_after: Sequence[int] = (3, 6, 9)
) -> Thread:
    """Return a thread of twelve turns, compacted after some of them, with what a provider counted for each."""
    thread = await tk.thread(name)
    for number, (demand, command) in enumerate(STEPS, start=1):
        clock.ms += 90_000
        await thread.record(worked(number, demand, command), model="gpt-5.1")
        await counted(tk, thread, cached=number not in {after + 1 for after in compact_after})
        if number in compact_after:
            clock.ms += 20_000
            await (corrected(thread) if number == CORRECTED_AFTER else thread.compact(target="40%"))
    return thread


async def corrected(thread: Thread) -> None:
    """Compact with a model that quotes the correction of the port."""
    reply = block(inactive='supersede | [2] → "staging listens on port 4711, not 4610" (#35)')
    async with ScriptedModel([says(reply)], window_tokens=WINDOW) as model:
        await thread.compact(target="40%", strategy="session", model=model)


async def counted(tk: Threadkeep, thread: Thread, *, cached: bool) -> None:
    """Record a reply as the gateway does: what the provider counted for the window, most of it from its cache."""
    tokens = (await thread.history()).tokens
    seen = int(tokens * 1.08) + 900
    body = ReplyBody(
        items=[],
        outcome="completed",
        estimated_tokens=tokens,
        input_tokens=seen,
        output_tokens=180,
        cached_tokens=int(seen * 0.88) if cached else 900,
    )
    await appended(tk, thread, [NewRecord(kind=RecordKind.REPLY, at_ms=_now(tk), turn=0, tokens=180, body=encode_body(body))])


async def corresponded(tk: Threadkeep, thread: Thread, *, child: str) -> None:
    """Give a thread a sub-agent and a letter from it."""
    letter = MailBody(id="m1", items=[], sender="reviewer", way="trigger")
    bodies = [SpawnBody(child=child, status="open", name="reviewer"), letter]
    records = [NewRecord(kind=RecordKind.MAIL, at_ms=_now(tk), turn=0, tokens=0, body=encode_body(body)) for body in bodies]
    await appended(tk, thread, records)


async def hostile(tk: Threadkeep, *, name: str = "hostile") -> Thread:
    """Return a compacted thread in which everybody says what would break a careless page."""
    thread = await tk.thread(name)
    for number in range(1, 6):
        demand = said(f"Always keep this: {HOSTILE} number {number}.")
        work = [call(f"c{number}", f'{{"cmd":"echo {number}"}}', name="<b>shell</b>"), output(f"c{number}", HOSTILE * 40)]
        await thread.record([demand, *work, answered(HOSTILE)])
    await thread.compact(target="50%", focus=HOSTILE)
    await thread.rename(HOSTILE)
    return thread


async def long_thread(tk: Threadkeep, *, records: int, name: str = "long") -> Thread:
    """Return a thread of about so many records, appended in large units."""
    thread = await tk.thread(name)
    store = tk.backend.store
    key = store.tenant.key
    tip = await load_tip(store, thread.id, seed=thread._seed)
    chain, ordinal, depth, turn = tip.chain, tip.next, 0, 0
    while ordinal < records:
        batch: list[NewRecord] = []
        for _ in range(500):
            turn += 1
            preview = f"Step {turn}: look into part {turn}."
            opened = encode_body(TurnBody(preview=preview))
            batch.append(NewRecord(kind=RecordKind.TURN, at_ms=_now(tk) + turn, turn=turn, tokens=0, body=opened))
            for item in (said(preview), answered(f"Part {turn} is fine.")):
                written = thread.dialect.parse(item)
                chain = link_chain(key, chain, thread.dialect.canonical(written))
                depth += 1
                batch.append(
                    NewRecord(
                        kind=RecordKind.ITEM,
                        at_ms=_now(tk) + turn,
                        turn=turn,
                        tokens=20,
                        body=written.raw,
                        chain=chain,
                        depth=depth,
                    )
                )
        ordinal = await store.append(thread.id, batch, expected=ordinal)
    return thread


async def appended(tk: Threadkeep, thread: Thread, records: Sequence[NewRecord]) -> None:
    """Append records at the end of a thread, in the turn it is in."""
    row = await tk.backend.store.get(thread.id)
    turn = await load_current_turn(tk.backend.store, row, stop=row.next)
    await tk.backend.append(thread.id, [replace(record, turn=turn) for record in records], expected=row.next)


def _now(tk: Threadkeep) -> int:
    return tk.backend.clock.now_ms()
