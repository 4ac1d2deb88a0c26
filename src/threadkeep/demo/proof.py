"""What can be proven about a played session from its store: nothing lost, everything findable, every compaction reversible."""

from __future__ import annotations

from dataclasses import dataclass

from threadkeep.client import Thread, Threadkeep
from threadkeep.demo.client import DemoClient
from threadkeep.demo.provider import DemoProvider
from threadkeep.demo.session import Session
from threadkeep.store import RecordKind

BEFORE_COMPACTION = "demo-before-compaction"
UNDONE = "demo-undone"
CHAINED = frozenset({RecordKind.ITEM, RecordKind.NOTE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something the demo claims, whether it held in this run, and the figures it rests on."""

    claim: str
    held: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One compaction as its checkpoint tells it, and how long it held up the request or the command that caused it.

    `request` is the index of the first request the provider received after it, `items` how long the client's history was.
    """

    ordinal: int
    turn: int
    request: int
    items: int
    by_command: bool
    tokens_before: int
    tokens_after: int
    model_calls: int
    required: int
    repaired: int
    wait_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A session that was played to its end: both ends of the wire, and what was compacted between them.

    `command_answer` is what the gateway said to the user's `/compact`, None if there was no occasion to type it.
    """

    session: Session
    client: DemoClient
    provider: DemoProvider
    compactions: tuple[Compaction, ...]
    command_answer: str | None
    window_tokens: int
    store: str
    thread: str
    seconds: float


async def prove(tk: Threadkeep, played: Played) -> list[Check]:
    """Check the store against what the client and the provider saw. Leaves two forks in it, named above."""
    thread = await tk.find(played.thread)
    return [
        await _read_back(thread, played),
        *await _recalled(thread, played),
        await _forked(thread, played),
        await _undone(thread, played),
        await _verified(tk),
    ]


async def _read_back(thread: Thread, played: Played) -> Check:
    stored = [record.body for record in await thread.records() if record.kind in CHAINED and record.chain is not None]
    sent = played.client.history[: played.client.sent[-1].items]
    same = f"all {len(sent):,} items the client sent, {sum(map(len, sent)):,} bytes, read back byte for byte"
    return Check(
        claim="nothing is lost",
        held=stored == sent,
        detail=same if stored == sent else f"the client sent {len(sent):,} items; the {len(stored):,} in the store differ",
    )


async def _recalled(thread: Thread, played: Played) -> list[Check]:
    """Ask for the first demand in its own words but for the value, then by the pointer of what came back."""
    demand = played.session.demands[0]
    question = " ".join(demand.said.replace(demand.needle, " ").split())
    hits = [hit for hit in await thread.recall(question) if demand.needle in hit.text]
    claim = "what was compacted away comes back by its words"
    if not hits:
        return [Check(claim=claim, held=False, detail=f"{question!r} did not find {demand.needle!r}")]
    pointer = f"#{hits[0].pointer.ordinal}"
    original = (await thread.recall(pointer))[0].text
    whole = original == played.session.turns[demand.turn].user
    return [
        Check(claim=claim, held=True, detail=f"{_short(question)} finds {demand.needle!r} in {pointer}"),
        Check(
            claim="and by its pointer",
            held=whole,
            detail=f"{pointer} is {'' if whole else 'not '}the user's whole message of turn {demand.turn + 1}",
        ),
    ]


async def _forked(thread: Thread, played: Played) -> Check:
    first = played.compactions[0]
    fork = await thread.fork(at=first.ordinal, new_id=BEFORE_COMPACTION)
    seen = [item.raw for item in (await fork.history()).items]
    held = seen == played.client.spoken(stop=first.items)
    return Check(
        claim="a fork from before a compaction sees none of it",
        held=held,
        detail=f"forked before #{first.ordinal}: {len(seen)} items, {'exactly' if held else 'not'} those the client had sent",
    )


async def _undone(thread: Thread, played: Played) -> Check:
    last = played.compactions[-1]
    fork = await thread.fork(new_id=UNDONE)
    await fork.undo()
    seen = [item.raw for item in (await fork.history()).items]
    # The request before the last compaction, without its developer message, and all that was said since.
    before = played.provider.received[last.request - 1].items[1:]
    since = played.client.spoken(played.client.sent[last.request - 1].items, played.client.sent[-1].items)
    held = seen == [*before, *since]
    return Check(
        claim="a compaction can be undone",
        held=held,
        detail=f"without #{last.ordinal} the window is {'exactly' if held else 'not'} what it was ({len(before)} items), "
        f"plus the {len(since)} since",
    )


async def _verified(tk: Threadkeep) -> Check:
    verdict = await tk.verify()
    found = "; ".join(f"{problem.pointer}: {problem.text}" for problem in verdict.problems[:3])
    return Check(
        claim="the store verifies",
        held=verdict.ok,
        detail=found or f"{verdict.records:,} records of {verdict.threads} threads: digests, order, chain, pairs, pointers",
    )


def _short(text: str) -> str:
    return f"“{text if len(text) <= 40 else text[:39] + '…'}”"
