"""The requests a strategy sends: on the thread's own warm prefix where it fits, else the span as a transcript, in parts.

How large a request is, is estimated before it is sent. A provider that finds it too large all the same is believed, once: the
next request is clearly smaller. There is no third.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from threadkeep.compaction.draft import Brief, DraftRefused, Summariser
from threadkeep.compaction.instructions import write_transcript_question
from threadkeep.compaction.plan import Position
from threadkeep.compaction.reply_checks import check_reply
from threadkeep.compaction.transcript import chunk_passages, split_passages
from threadkeep.dialects import HISTORY_FIELDS, Request
from threadkeep.errors import ModelOverflow
from threadkeep.items import ItemKind, Role, find_boundaries, find_open_calls
from threadkeep.threads import EntryKind
from threadkeep.tokens import estimate_bytes, estimate_item, estimate_text

# What the answer, and the difference between our estimate and the provider's count, may take.
ANSWER_TOKENS = 8_000
HEADROOM_PERCENT = 90
# After an overflow that names no limit, a request of this share of the refused one is clearly smaller.
AFTER_OVERFLOW_PERCENT = 50
LEAST_PART_TOKENS = 1_000
PARTS_ASKED = 40
# Why a model was not asked: a draft that no person asked for would have cost more than the settings allow.
OVER_BUDGET = "over_budget"


class DraftWriter(Protocol):
    """A draft being written, one reply after the other."""

    @property
    def tells_state(self) -> bool:
        """Whether a transcript must tell the state that stands in the window; not where the instruction does."""
        ...

    @property
    def most_tokens(self) -> int:
        """How long an answer may be; several times what was asked for is none."""
        ...

    @property
    def needs_its_end(self) -> bool:
        """Whether one that ran out of room is none: half a sentence could say anything."""
        ...

    def instruction(self) -> str:
        """Return what to ask next, given what was taken so far."""
        ...

    def is_draft(self, text: str) -> bool:
        """Whether a text is what was asked for beyond doubt, whatever else came with it."""
        ...

    def take(self, text: str) -> None:
        """Take what the model answered.

        Raises:
            DraftRefused: It is nothing that can be used.
        """
        ...


class NotAsked(DraftRefused):
    """No draft, and no fault of the model's: what is to be drafted is nothing it can be asked."""


D = TypeVar("D", bound=DraftWriter)


async def write_draft(brief: Brief, summariser: Summariser, begin: Callable[[], D]) -> D:
    """Return the draft that `begin` begins, finished: one request on the warm prefix, or the span in parts, oldest first.

    Raises:
        DraftRefused: A reply says nothing that can be used.
        NotAsked: There is nothing to tell, in more parts than are ever asked for, or the model takes too little to be told one;
            or it would read more than it may.
        ModelError: The model could not be asked.
    """
    room = _compute_room(summariser.window_tokens)
    draft = begin()
    if summariser.own is not None:
        request = build_warm_request(brief, summariser, summariser.own, draft.instruction())
        size = estimate_request(request)
        if not summariser.may_read(size):
            raise NotAsked(OVER_BUDGET)
        if size <= room:
            try:
                await _ask(summariser, request, draft)
            except ModelOverflow as overflow:
                room = _choose_smaller_size(overflow, size)
            else:
                return draft
    sent: list[int] = []
    try:
        return await _write_in_parts(brief, summariser, begin(), room=room, sent=sent)
    except ModelOverflow as overflow:
        # What was refused may be far smaller than what was thought to fit.
        return await _write_in_parts(brief, summariser, begin(), room=_choose_smaller_size(overflow, sent[-1]), sent=sent)


async def _write_in_parts(brief: Brief, summariser: Summariser, draft: D, *, room: int, sent: list[int]) -> D:
    """Tell the span in parts that fit `room`; the size of each request is added to `sent` before it goes out."""
    span = select_settled(brief.window_for(summariser))
    untold = {EntryKind.START} if draft.tells_state else {EntryKind.START, EntryKind.STATE}
    told = split_passages([seen for seen in span if seen.entry.kind not in untold])
    budget = room - estimate_text(draft.instruction())
    if budget < LEAST_PART_TOKENS:
        raise NotAsked("model_too_small")
    parts = chunk_passages(told, budget_tokens=budget)
    if not parts:
        # A draft of nothing would stand in place of whatever was drafted before.
        raise NotAsked("nothing_to_tell")
    if len(parts) > PARTS_ASKED:
        raise NotAsked("too_many_parts")
    if not summariser.may_read(sum(estimate_text(write_transcript_question(draft.instruction(), part)) for part in parts)):
        raise NotAsked(OVER_BUDGET)
    for number, part in enumerate(parts, start=1):
        question = write_transcript_question(draft.instruction(), part, part=number, parts=len(parts))
        request = Request(fields={}, head=(), items=(summariser.dialect.make_user_message(question),))
        sent.append(estimate_request(request))
        await _ask(summariser, request, draft)
    return draft


async def _ask(summariser: Summariser, request: Request, draft: DraftWriter) -> None:
    reply = await summariser.ask(request)
    if reply.ending == "length" and draft.needs_its_end:
        raise DraftRefused("cut_off")
    draft.take(check_reply(reply, most_tokens=draft.most_tokens, is_draft=draft.is_draft))


def build_warm_request(brief: Brief, summariser: Summariser, own: Request, instruction: str) -> Request:
    """Return the thread's own request with the instruction behind its history: what a turn would send, and one message more.

    What is pending (a message not yet answered, a call not yet closed) is not shown: it is not what is compacted.
    """
    settled = [seen.entry.item for seen in select_settled(brief.window_for(summariser))]
    # A provider that compacts by itself while it drafts would draft from what it left.
    fields = {name: raw for name, raw in own.fields.items() if name != "context_management"}
    items = brief.dialect.arrange([*settled, brief.dialect.make_user_message(instruction)])
    return brief.dialect.calls.forbid_tools(Request(fields=fields, head=own.head, items=tuple(items)))


def select_settled(window: Sequence[Position]) -> list[Position]:
    """Return a window without what is pending at its end: input nobody answered, and calls nobody closed."""
    views = [seen.view for seen in window]
    end = len(window)
    while end and not _is_answer(window[end - 1]):
        end -= 1
    running = set(find_open_calls(views[:end]))
    while running:
        end = next(index for index, view in enumerate(views) if running & set(view.opens))
        running = set(find_open_calls(views[:end]))
    cuts = [cut for cut in find_boundaries(views) if cut <= end]
    return list(window[: max(cuts, default=0)])


def estimate_request(request: Request) -> int:
    """Return what a request is estimated at."""
    beside = sum(len(raw) for name, raw in request.fields.items() if name not in HISTORY_FIELDS)
    return estimate_bytes(beside) + sum(estimate_item(item.raw) for item in (*request.head, *request.items))


def _is_answer(seen: Position) -> bool:
    """Whether an item settles what came before it: something of the model's, a tool's output, or the state of a compaction."""
    return seen.view.kind is not ItemKind.MESSAGE or seen.view.role is Role.ASSISTANT or seen.entry.kind is EntryKind.STATE


def _compute_room(window_tokens: int) -> int:
    return window_tokens * HEADROOM_PERCENT // 100 - min(ANSWER_TOKENS, window_tokens // 4)


def _choose_smaller_size(overflow: ModelOverflow, refused_tokens: int) -> int:
    """Return what to send after an overflow: what the provider said it takes, if that is less than it refused, else half."""
    said = _compute_room(overflow.limit_tokens) if overflow.limit_tokens else refused_tokens
    return said if said < refused_tokens else refused_tokens * AFTER_OVERFLOW_PERCENT // 100
