"""Records a conversation, compacts it as it grows, and checks whether recall finds the evidence for its questions."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.datasets.formats import Conversation
from benchmarks.retention.tally import compute_wilson
from benchmarks.tables import Table
from threadkeep.client import Config, Thread, Threadkeep
from threadkeep.errors import NothingToCompact
from threadkeep.store import RecordKind
from threadkeep.tokens import estimate_text

LIMIT = 5
# A compaction after each stretch of so many tokens.
STRETCH_TOKENS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A question that has evidence: whether any, and whether all of it, was among the first five found."""

    conversation: str
    kind: str
    any_found: bool
    all_found: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """A whole run; questions without evidence, or with none that was said, are counted and not asked."""

    form: str
    conversations: int
    messages: int
    history_tokens: int
    window_tokens: int
    compactions: int
    without_evidence: int
    looked: tuple[Looked, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the one object `--json` prints."""
        return {"bench": "dataset", **asdict(self)}


async def run_dataset(form: str, conversations: Sequence[Conversation], *, say: Callable[[str], None]) -> Searched:
    """Play every conversation in a store of its own, which is gone afterwards."""
    looked: list[Looked] = []
    sizes = {"history": 0, "window": 0, "compactions": 0}
    with tempfile.TemporaryDirectory(prefix="threadkeep-dataset-") as folder:
        for number, talk in enumerate(conversations, start=1):
            say(
                f"{form} {talk.id}: {len(talk.said)} messages, {len(talk.questions)} questions ({number} of {len(conversations)})"
            )
            async with Threadkeep(Config(store=str(Path(folder) / f"{number}.db"))) as tk:
                thread = await tk.thread("conversation", dialect="chat")
                sizes["compactions"] += await _lived(thread, talk)
                sizes["history"] += sum(estimate_text(line.text) for line in talk.said)
                sizes["window"] += (await thread.window()).tokens
                looked += await _looked(thread, talk)
    return Searched(
        form=form,
        conversations=len(conversations),
        messages=sum(len(talk.said) for talk in conversations),
        history_tokens=sizes["history"],
        window_tokens=sizes["window"],
        compactions=sizes["compactions"],
        without_evidence=sum(len(talk.questions) for talk in conversations) - len(looked),
        looked=tuple(looked),
    )


def build_table(found: Searched) -> Table:
    """Return what was found, kind by kind."""
    kinds: defaultdict[str, list[Looked]] = defaultdict(list)
    for each in found.looked:
        kinds[each.kind].append(each)
        kinds["all"].append(each)
    rows = []
    for kind, asked in sorted(kinds.items(), key=lambda pair: pair[0] == "all"):
        hit = sum(each.any_found for each in asked)
        low, high = compute_wilson(hit, len(asked))
        whole = sum(each.all_found for each in asked)
        rows.append([kind, str(len(asked)), f"{hit / len(asked):.1%}", f"{low:.0%}–{high:.0%}", f"{whole / len(asked):.1%}"])
    return Table(
        title=f"{found.form}: recall@{LIMIT} from the question",
        aside="any, and all, of the messages that its makers name as evidence",
        columns=["kind", ">asked", ">any", ">95 %", ">all"],
        rows=rows,
    )


async def _lived(thread: Thread, talk: Conversation) -> int:
    """Record everything, compacting on the way; return how often."""
    since = made = 0
    for line in talk.said:
        await thread.record([{"role": line.role, "content": line.text}])
        since += estimate_text(line.text)
        if since >= STRETCH_TOKENS:
            since = 0
            try:
                await thread.compact()
            except NothingToCompact:
                continue
            made += 1
    return made


async def _looked(thread: Thread, talk: Conversation) -> list[Looked]:
    items = [record.ordinal for record in await thread.records() if record.kind is RecordKind.ITEM]
    place = {line.mark: ordinal for line, ordinal in zip(talk.said, items, strict=True)}
    looked = []
    for question in talk.questions:
        wanted = {place[mark] for mark in question.evidence if mark in place}
        if not wanted:
            continue
        found = {hit.pointer.ordinal for hit in await thread.recall(question.text, limit=LIMIT)}
        looked.append(Looked(conversation=talk.id, kind=question.kind, any_found=bool(wanted & found), all_found=wanted <= found))
    return looked
