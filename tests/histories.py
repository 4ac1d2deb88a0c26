"""Responses histories: short ways to write items, and a thread's records without a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from threadkeep.compaction.audit import audit, make_report
from threadkeep.compaction.checkpoint import find_cut, lay_out
from threadkeep.compaction.engine import read_ledger
from threadkeep.compaction.ledger import Ledger, dump_ledger
from threadkeep.compaction.merge import merge_observed
from threadkeep.compaction.plan import Plan, plan_cut, read_positions
from threadkeep.compaction.state_text import render_state
from threadkeep.compaction.strategies.strategy import EXTRACTIVE
from threadkeep.dialects import find_dialect
from threadkeep.items import View, digest_body, seed_chain
from threadkeep.store import NewRecord, Record, RecordKind
from threadkeep.threads import Checkpoint, History, Pointer, Tip, assemble, make_records
from threadkeep.threads.writer import make_arrival

Json = dict[str, Any]

RESPONSES: Final = find_dialect("responses")
KEY: Final = bytes(32)


def said(text: str) -> Json:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def answered(text: str) -> Json:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def environment(text: str) -> Json:
    return said(f"<environment_context>{text}</environment_context>")


def developer(text: str) -> Json:
    return {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}


def reasoning(encrypted: str = "gAAAAA", **more: object) -> Json:
    return {"type": "reasoning", "summary": [], "encrypted_content": encrypted, **more}


def call(call_id: str, arguments: str = '{"cmd":"ls"}', *, name: str = "shell") -> Json:
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}


def output(call_id: str, text: str = "ok") -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def turn(number: int, *, words: int = 60) -> list[Json]:
    """A turn with one tool call whose output is long enough to be worth compacting away."""
    return [
        said(f"Please look into part {number} of the parser."),
        reasoning(f"r{number}"),
        call(f"c{number}", f'{{"cmd":"cat part_{number}.py"}}'),
        output(f"c{number}", f"line of part {number}\n" * words),
        answered(f"Part {number} is fine."),
    ]


def turns(first: int, last: int, *, words: int = 60) -> list[Json]:
    return [item for number in range(first, last + 1) for item in turn(number, words=words)]


def views(history: History) -> list[View]:
    return [RESPONSES.view(item) for item in history.items]


class Rollout:
    """The records of one thread, in memory, and the windows they amount to."""

    def __init__(self, items: Sequence[Json] = (), *, thread_id: str = "t") -> None:
        self.thread_id = thread_id
        self.records: list[Record] = []
        self.tip = Tip(next=0, turn=0, depth=0, chain=seed_chain(KEY, dialect="responses"))
        self.checkpoint: Checkpoint | None = None
        self.compacted_at: int | None = None
        self.add(items)

    def add(self, items: Sequence[Json]) -> None:
        arrivals = [make_arrival(RESPONSES, RESPONSES.parse(item)) for item in items]
        first = self.tip.next
        new, self.tip = make_records(self.tip, arrivals, key=KEY, at_ms=0)
        self.records.extend(self._stored(record, ordinal) for ordinal, record in enumerate(new, start=first))

    @property
    def items(self) -> list[Record]:
        return [record for record in self.records if record.kind is RecordKind.ITEM]

    def history(self) -> History:
        """Return the window after the newest checkpoint."""
        cut = self.checkpoint.cut if self.checkpoint else 0
        return assemble(
            checkpoint=self.checkpoint,
            checkpoint_ordinal=self.compacted_at,
            kept={Pointer(self.thread_id, record.ordinal): record for record in self.records},
            after=[record for record in self.records if record.ordinal >= cut],
        )

    def plan(self, *, frontier_tokens: int) -> Plan:
        return plan_cut(read_positions(self.history(), view=RESPONSES.view, tip=self.tip), frontier_tokens=frontier_tokens)

    def compact(self, *, frontier_tokens: int) -> Ledger:
        """Compact with a frontier of any size, and return the new state."""
        plan = self.plan(frontier_tokens=frontier_tokens)
        ledger = read_ledger(self.history())
        audited = audit(plan, merge_observed(ledger, plan.observed))
        state = RESPONSES.make_user_message(render_state(audited.ledger))
        cut, covers = find_cut(plan)
        self.compacted_at = self.tip.next - 1
        self.checkpoint = Checkpoint(
            strategy=EXTRACTIVE.name,
            cut=cut,
            covers=covers,
            layout=lay_out(plan, state=state, dialect=RESPONSES),
            state=msgspec.Raw(dump_ledger(audited.ledger)),
            audit=msgspec.Raw(msgspec.json.encode(make_report(audited, audited.ledger))),
            figures={},
        )
        return audited.ledger

    def _stored(self, new: NewRecord, ordinal: int) -> Record:
        return Record(
            thread_id=self.thread_id,
            ordinal=ordinal,
            kind=new.kind,
            at_ms=new.at_ms,
            turn=new.turn,
            tokens=new.tokens,
            body=new.body,
            digest=digest_body(new.body),
            target=new.target,
            chain=new.chain,
            depth=new.depth,
        )
