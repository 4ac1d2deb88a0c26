"""What the demo claims about a played session, each claim checked against the run.

Demands are judged closed book, by the last request alone: no store, no recall, no earlier request. Everything else is checked
against the store and against what both ends of the wire saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from threadkeep.client import Thread, Threadkeep
from threadkeep.compaction import Section
from threadkeep.compaction.state_text import HEADINGS, TAG
from threadkeep.demo.client import DemoClient
from threadkeep.demo.provider import DemoProvider
from threadkeep.demo.session import Demand, Session, read_message
from threadkeep.store import RecordKind

BEFORE_COMPACTION = "demo-before-compaction"
UNDONE = "demo-undone"
CLIENT_RECORDS = frozenset({RecordKind.ITEM, RecordKind.NOTE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One claim, whether it held in this run, and the figures it rests on."""

    claim: str
    held: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One compaction and how long the request or command that caused it waited.

    `request` is the index of the first request the provider received after it, `items` the length of the client's history then,
    `figures` those of its checkpoint.
    """

    ordinal: int
    turn: int
    request: int
    items: int
    by_command: bool
    figures: Mapping[str, int]
    wait_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A session that was played to its end. `command_answer` is the gateway's answer to `/compact`, None without one."""

    session: Session
    client: DemoClient
    provider: DemoProvider
    compactions: tuple[Compaction, ...]
    command_answer: str | None
    store: str
    thread: str
    seconds: float

    @property
    def sent_items(self) -> int:
        """How many items of the history the client had sent in the end."""
        return self.client.sent[-1].items


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A demand and its place in a request, None where no active part of the request holds it.

    `is_outdated` says that the value it replaces stands there without the newer one after it.
    """

    demand: Demand
    place: str | None
    is_outdated: bool

    @property
    def holds(self) -> bool:
        return self.place is not None and not self.is_outdated


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the report is made from. The demo succeeds if every check held."""

    played: Played
    judged: tuple[Judged, ...]
    checks: tuple[Check, ...]


async def check_run(tk: Threadkeep, played: Played) -> Findings:
    """Check everything the report claims. Leaves two forks in the store, named above."""
    judged = tuple(judge(played.session.demands, played.provider.received[-1].items))
    thread = await tk.find(played.thread)
    checks = (
        *_check_demands(judged),
        _check_prefix(played),
        *_check_command(played),
        await _check_bytes(thread, played),
        *await _check_recall(thread, played),
        await _check_fork(thread, played),
        await _check_undo(thread, played),
        await _check_store(tk),
    )
    return Findings(played=played, judged=judged, checks=checks)


def judge(demands: Sequence[Demand], items: Sequence[bytes]) -> list[Judged]:
    """Judge demands by the items of one request.

    A demand is kept if its needle stands under Objective or Active Memory of the state, or in a message of the user after it.
    """
    sections: dict[Section, list[str]] = {section: [] for section in Section}
    messages: list[str] = []
    for item in map(read_message, items):
        if f"<{TAG}>\n" in item.text and f"\n</{TAG}>" in item.text:
            sections = _parse_state(item.text.partition(f"<{TAG}>\n")[2].rpartition(f"\n</{TAG}>")[0])
            messages = []
        elif item.role == "user":
            messages.append(item.text)
    places = {"objective": sections[Section.OBJECTIVE], "active memory": sections[Section.ACTIVE], "recent message": messages}
    return [_judge_demand(demand, places) for demand in demands]


def _judge_demand(demand: Demand, places: Mapping[str, list[str]]) -> Judged:
    place = next((name for name, texts in places.items() if any(demand.needle in text for text in texts)), None)
    # The state lists messages in the order they were sent, and those after it are newer: the later one decides.
    texts = [text for found in places.values() for text in found]
    newest = max((index for index, text in enumerate(texts) if demand.needle in text), default=-1)
    is_outdated = demand.stale is not None and any(demand.stale in text for text in texts[newest + 1 :])
    return Judged(demand=demand, place=place, is_outdated=is_outdated)


def _parse_state(block: str) -> dict[Section, list[str]]:
    headings = {heading: section for section, heading in HEADINGS.items()}
    lines: dict[Section, list[str]] = {section: [] for section in Section}
    section: Section | None = None
    for line in block.splitlines():
        section = headings.get(line, section)
        if section is not None and line not in headings:
            lines[section].append(line)
    return lines


def _check_demands(judged: Sequence[Judged]) -> list[Check]:
    missing = [each.demand.needle for each in judged if each.place is None]
    outdated = [str(each.demand.stale) for each in judged if each.is_outdated]
    kept = f"{len(judged) - len(missing)} of {len(judged)} stand in the last request"
    count = sum(each.demand.stale is not None for each in judged)
    replaced = f"{count} values were replaced, none stands after its newer one"
    return [
        Check(claim="every demand is kept", held=not missing, detail="; missing: ".join((kept, *missing[:3]))),
        Check(
            claim="no outdated value stands alone",
            held=not outdated,
            detail=f"outdated: {', '.join(outdated)}" if outdated else replaced,
        ),
    ]


def _check_prefix(played: Played) -> Check:
    received, count = played.provider.received, len(played.compactions)
    moves = [place for place, request in enumerate(received) if not request.grew]
    held = count > 0 and moves == [compaction.request for compaction in played.compactions]
    between = "between them it only grew, byte for byte" if held else f"it moved at requests {moves}"
    detail = f"{count} compactions, {len(moves)} moves in {len(received)} requests; {between}"
    return Check(claim="the prompt moves only when it is compacted", held=held, detail=detail)


def _check_command(played: Played) -> list[Check]:
    if played.command_answer is None:
        return []
    commanded = [compaction.turn for compaction in played.compactions if compaction.by_command]
    aside = {played.client.history[place] for place in played.client.aside}
    leaked = any(item in aside for request in played.provider.received for item in request.items)
    when = f"typed after turn {commanded[0]}" if commanded else "typed without effect"
    answer = played.command_answer.partition("\n")[0]
    return [
        Check(
            claim="/compact is obeyed and kept from the model",
            held=len(commanded) == 1 and not leaked,
            detail=f"{when}; the gateway's answer: {answer}",
        )
    ]


async def _check_bytes(thread: Thread, played: Played) -> Check:
    stored = [record.body for record in await thread.records() if record.kind in CLIENT_RECORDS and record.chain is not None]
    sent = played.client.history[: played.sent_items]
    same = f"all {len(sent):,} items the client sent, {sum(map(len, sent)):,} bytes, read back byte for byte"
    differ = f"the client sent {len(sent):,} items; the {len(stored):,} in the store differ"
    return Check(claim="nothing is lost", held=stored == sent, detail=same if stored == sent else differ)


async def _check_recall(thread: Thread, played: Played) -> list[Check]:
    """Ask for the first demand in its own words without the value, then by the pointer of the hit."""
    demand = played.session.demands[0]
    question = " ".join(demand.said.replace(demand.needle, " ").split())
    hits = [hit for hit in await thread.recall(question) if demand.needle in hit.text]
    claim = "what was compacted away comes back by its words"
    if not hits:
        return [Check(claim=claim, held=False, detail=f"{question!r} did not find {demand.needle!r}")]
    pointer = f"#{hits[0].pointer.ordinal}"
    original = (await thread.recall(pointer))[0].text
    whole = original == read_message(played.session.turns[demand.turn].user).text
    short = question if len(question) <= 40 else question[:39] + "…"
    message = f"{pointer} is {'' if whole else 'not '}the user's whole message of turn {demand.turn + 1}"
    return [
        Check(claim=claim, held=True, detail=f"“{short}” finds {demand.needle!r} in {pointer}"),
        Check(claim="and by its pointer", held=whole, detail=message),
    ]


async def _check_fork(thread: Thread, played: Played) -> Check:
    first = played.compactions[0]
    fork = await thread.fork(at=first.ordinal, new_id=BEFORE_COMPACTION)
    seen = [item.raw for item in (await fork.history()).items]
    held = seen == played.client.select_history(stop=first.items)
    detail = f"forked before #{first.ordinal}: {len(seen)} items, {'exactly' if held else 'not'} those the client had sent"
    return Check(claim="a fork from before a compaction sees none of it", held=held, detail=detail)


async def _check_undo(thread: Thread, played: Played) -> Check:
    last = played.compactions[-1]
    fork = await thread.fork(new_id=UNDONE)
    await fork.undo()
    seen = [item.raw for item in (await fork.history()).items]
    # The request before the last compaction, without its developer message, and all that was said since.
    before = played.provider.received[last.request - 1].items[1:]
    since = played.client.select_history(played.client.sent[last.request - 1].items, played.sent_items)
    held = seen == [*before, *since]
    window = f"without #{last.ordinal} the window is {'exactly' if held else 'not'} what it was ({len(before)} items)"
    return Check(claim="a compaction can be undone", held=held, detail=f"{window}, plus the {len(since)} since")


async def _check_store(tk: Threadkeep) -> Check:
    verdict = await tk.verify()
    found = "; ".join(f"{problem.pointer}: {problem.text}" for problem in verdict.problems[:3])
    checked = f"{verdict.records:,} records of {verdict.threads} threads: digests, order, chain, pairs, pointers"
    return Check(claim="the store verifies", held=verdict.ok, detail=found or checked)
