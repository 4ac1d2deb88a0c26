"""The requests a strategy sends: on the thread's own warm prefix where it fits, else the span as a transcript, in parts.

The size of a request is estimated before it is sent. If the provider still finds it too large, what it has not read yet is sent
in clearly smaller parts, until they fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from threadkeep.compaction.plan import Position
from threadkeep.compaction.strategies.instructions import write_transcript_question
from threadkeep.compaction.strategies.reply import check_reply
from threadkeep.compaction.strategies.strategy import Brief, DraftRefused, Summariser
from threadkeep.compaction.transcript import Passage, chunk_passages, split_passages
from threadkeep.dialects import HISTORY_FIELDS, Request
from threadkeep.errors import ModelOverflow
from threadkeep.items import ItemKind, Role, find_boundaries, find_open_calls
from threadkeep.threads import EntryKind
from threadkeep.tokens import estimate_bytes, estimate_item, estimate_text

# The room for the answer, and for the difference between our estimate and the provider's count.
ANSWER_TOKENS = 8_000
HEADROOM_PERCENT = 90
# After an overflow that names no limit, a request of this share of the refused one is clearly smaller.
AFTER_OVERFLOW_PERCENT = 50
LEAST_PART_TOKENS = 1_000
PARTS_ASKED = 40
# Why a model was not asked: an automatic draft would have cost more than the settings allow.
OVER_BUDGET = "over_budget"


class DraftWriter(ABC):
    """A draft being written, one reply after the other.

    Attributes:
        transcript_has_state: Whether the transcript includes the state of the window; not if the instruction does.
        most_tokens: The longest answer that counts as a draft.
        needs_its_end: Whether an answer cut off at its length limit is refused.
    """

    transcript_has_state: ClassVar[bool]
    most_tokens: ClassVar[int]
    needs_its_end: ClassVar[bool]

    @abstractmethod
    def instruction(self) -> str:
        """Return the next instruction, given the answers so far."""

    @abstractmethod
    def is_draft(self, text: str) -> bool:
        """Whether a text is certainly a draft, whatever else came with it."""

    @abstractmethod
    def take(self, text: str) -> None:
        """Add an answer to the draft; raises DraftRefused if it is unusable."""


class NotAsked(DraftRefused):
    """The model was not asked, because of the span or the settings. This does not count as a failure of the model."""


D = TypeVar("D", bound=DraftWriter)


async def write_draft(brief: Brief, summariser: Summariser, begin: Callable[[], D]) -> D:
    """Write a draft with one request on the warm prefix, or with the span in parts, oldest first.

    `begin` makes an empty draft for each try.

    Raises:
        DraftRefused: A reply is unusable.
        NotAsked: The span is empty, needs too many parts or costs more than the budget, or the model's window is too small.
        ModelError: The request failed.
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
    return await _write_in_parts(brief, summariser, begin(), room=room)


async def _write_in_parts(brief: Brief, summariser: Summariser, draft: D, *, room: int) -> D:
    """Send the span in parts that fit `room`; after an overflow the rest of it in smaller ones."""
    span = select_settled(brief.window_for(summariser))
    left_out = {EntryKind.START} if draft.transcript_has_state else {EntryKind.START, EntryKind.STATE}
    parts = [split_passages([seen for seen in span if seen.entry.kind not in left_out])]
    refused: ModelOverflow | None = None
    sent = read = 0
    while True:
        budget = room - estimate_text(draft.instruction())
        if budget < LEAST_PART_TOKENS:
            raise refused or NotAsked("model_too_small")
        parts = chunk_passages([passage for part in parts[sent:] for passage in part], budget_tokens=budget)
        sent = 0
        if not parts:
            # An empty draft would replace the one before.
            raise NotAsked("nothing_to_tell")
        if len(parts) > PARTS_ASKED:
            raise NotAsked("too_many_parts")
        if not summariser.may_read(read + sum(estimate_text(_write_question(draft, [part])) for part in parts)):
            raise NotAsked(OVER_BUDGET)
        try:
            for sent, _ in enumerate(parts):
                question = _write_question(draft, parts, number=sent)
                request = Request(fields={}, head=(), items=(summariser.dialect.make_user_message(question),))
                size = estimate_request(request)
                await _ask(summariser, request, draft)
                read += size
        except ModelOverflow as overflow:
            refused, room = overflow, _choose_smaller_size(overflow, size)
        else:
            return draft


def _write_question(draft: DraftWriter, parts: Sequence[Sequence[Passage]], *, number: int = 0) -> str:
    transcript = "\n\n".join(passage.text for passage in parts[number])
    return write_transcript_question(draft.instruction(), transcript, part=number + 1, parts=len(parts))


async def _ask(summariser: Summariser, request: Request, draft: DraftWriter) -> None:
    reply = await summariser.ask(request)
    if reply.ending == "length" and draft.needs_its_end:
        raise DraftRefused("cut_off")
    draft.take(check_reply(reply, most_tokens=draft.most_tokens, is_draft=draft.is_draft))


def build_warm_request(brief: Brief, summariser: Summariser, own: Request, instruction: str) -> Request:
    """Return the thread's own request with the instruction as one more message after its history.

    Pending items (a message without a reply, an open call) are left out: they are not compacted.
    """
    settled = [seen.entry.item for seen in select_settled(brief.window_for(summariser))]
    # Without this field the provider does not compact the history before it drafts.
    fields = {name: raw for name, raw in own.fields.items() if name != "context_management"}
    items = brief.dialect.arrange([*settled, brief.dialect.make_user_message(instruction)])
    return brief.dialect.api.forbid_tools(Request(fields=fields, head=own.head, items=tuple(items)))


def select_settled(window: Sequence[Position]) -> list[Position]:
    """Return a window without the pending items at its end: input without a reply, and open calls."""
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
    """Return the estimated tokens of a request."""
    beside = sum(len(raw) for name, raw in request.fields.items() if name not in HISTORY_FIELDS)
    return estimate_bytes(beside) + sum(estimate_item(item.raw) for item in (*request.head, *request.items))


def _is_answer(seen: Position) -> bool:
    """Whether an item settles the items before it: a model's item, a tool's output, or the session state."""
    return seen.view.kind is not ItemKind.MESSAGE or seen.view.role is Role.ASSISTANT or seen.entry.kind is EntryKind.STATE


def _compute_room(window_tokens: int) -> int:
    return window_tokens * HEADROOM_PERCENT // 100 - min(ANSWER_TOKENS, window_tokens // 4)


def _choose_smaller_size(overflow: ModelOverflow, refused_tokens: int) -> int:
    """Return the room after an overflow: the provider's limit if that is smaller than the refused request, else half of it."""
    room = _compute_room(overflow.limit_tokens) if overflow.limit_tokens else refused_tokens
    return room if room < refused_tokens else refused_tokens * AFTER_OVERFLOW_PERCENT // 100
