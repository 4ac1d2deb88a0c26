"""What threadkeep asks of a wire language: `Dialect`, with ports for its answers and its API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from threadkeep.dialects.answer_filter import AnswerFilter
from threadkeep.dialects.api import Api
from threadkeep.dialects.raw_json import (
    Fields,
    Json,
    encode_canonical,
    join_list,
    join_object,
    read_items,
    read_object,
    split_list,
    split_object,
)
from threadkeep.dialects.reply_reader import ReplyReader
from threadkeep.dialects.values import ERASED_NAME, Answer, Delta, Reply, Request, Speech, SplitItem
from threadkeep.errors import InvalidItem
from threadkeep.items import Item, Role, ToolCall, View, is_json


class Wire(Protocol):
    """How a dialect's answers look on the wire."""

    def make_reader(self) -> ReplyReader:
        """Return a reader for one streamed answer."""
        ...

    def read_reply(self, body: bytes) -> Reply:
        """Return the reply that an answer which was not streamed carries; `cut` if it cannot be read."""
        ...

    def render_answer_stream(self, answer: Answer) -> bytes:
        """Return the whole event stream of an answer the gateway gives by itself."""
        ...

    def render_answer(self, answer: Answer) -> bytes:
        """Return the same answer as one JSON object."""
        ...

    def render_error(self, status: int, code: str, message: str) -> bytes:
        """Return the body of an error with HTTP status `status`; clients show `message` and branch on `code`."""
        ...

    def make_filter(self, name: str) -> AnswerFilter:
        """Return a filter for one streamed answer that hides calls of the tool called `name`."""
        ...

    def merge_answers(self, answers: Sequence[Json], *, name: str) -> Json:
        """Return one answer that was not streamed, made of several, without calls of the tool called `name`."""
        ...

    @property
    def streams_items(self) -> bool:
        """Whether an answer is several items, each complete before the next; otherwise it is one message."""
        ...

    def read_delta(self, event: Fields) -> Delta | None:
        """Return what an event of a streamed answer says."""
        ...

    def read_finished_item(self, event: Fields) -> Item | None:
        """Return the item an event completes, where the dialect streams items."""
        ...

    def read_stop_reason(self, event: Fields) -> str | None:
        """Return why an answer ended, where the event, or the whole answer, says so."""
        ...

    def read_speech(self, item: Item) -> Speech:
        """Return what an item of an answer says, its reasoning and its calls left out."""
        ...


class Dialect(ABC):
    """One wire language. Pure: no method does I/O, none changes its arguments.

    Attributes:
        history_field: The field of a request that holds its history.
        parts_field: The field of a message that holds its parts.
        held_elsewhere: Fields with which the provider holds the history, or a part of it.
        opens_with_user: Whether the provider refuses a history whose first message is not in the user's role.
        takes_instructions_anywhere: Whether instructions within a history may stand before a message in the user's role.
        sealed_marks: Every item with sealed content holds one of these; an item without them need not be read for it.
    """

    name: ClassVar[str]
    history_field: ClassVar[str]
    parts_field: ClassVar[str] = "content"
    held_elsewhere: ClassVar[Collection[str]] = ()
    opens_with_user: ClassVar[bool] = False
    takes_instructions_anywhere: ClassVar[bool] = False
    sealed_marks: ClassVar[Collection[bytes]]
    wire: ClassVar[Wire]
    api: ClassVar[Api]

    @abstractmethod
    def read_view(self, fields: Json) -> View:
        """Return what is known about a decoded item. An unknown form is `OPAQUE`, never an error."""

    @abstractmethod
    def normalise(self, fields: Json) -> Json:
        """Return a decoded item in the form that two spellings of it share."""

    @abstractmethod
    def compose(self, *, system: str | None, tools: Sequence[Mapping[str, Any]], cache_key: str | None) -> Request:
        """Return a request without a history: what stands beside it, in the fields this language has for it."""

    @abstractmethod
    def recognises(self, item: Item) -> bool:
        """Whether an item of unknown origin can only be of this dialect."""

    @abstractmethod
    def make_user_message(self, text: str) -> Item:
        """Return a message in the user's role; the session state is one too."""

    @abstractmethod
    def replace_output(self, item: Item, text: str) -> Item | None:
        """Return an output item with its payload replaced by `text`, all else untouched but a client's cache markers, which go.

        None where the item is not an output, or of a form whose payload the provider insists on.
        """

    @abstractmethod
    def abort_calls(self, item: Item, calls: Collection[str]) -> list[Item]:
        """Return what closes those of the item's calls whose ids are in `calls`: outputs that say the call was aborted.

        Calls of the provider's own tools are not the client's to close; they, and ids the item does not open, yield nothing.
        """

    @abstractmethod
    def remove_sealed(self, item: Item) -> Item | None:
        """Return an item without what only the account it was issued to may hand back: encrypted reasoning, signed thinking.

        The very same item where it holds nothing of the kind; None where nothing would be left of it.
        """

    @abstractmethod
    def blank_item(self, item: Item, text: str) -> Item | None:
        """Return what goes out in place of an item whose words must not: of the same role, with the same calls and answers to
        them, saying nothing but `text`. Deterministic; None where nothing of that form can be without its words.
        """

    def make_erased_call(self, outputs: Sequence[tuple[str, Item]]) -> Item | None:
        """Return an item that calls for these outputs, by call id, and says nothing else; None where their form allows none."""
        return self.api.make_calls([ToolCall(id=call_id, name=ERASED_NAME, arguments="{}") for call_id, _ in outputs])[0]

    def arrange(self, items: Sequence[Item]) -> list[Item]:
        """Return `items` in a form the provider accepts where its roles must alternate; untouched where they need not.

        Deterministic, and stable under appending: the arrangement of a prefix is a prefix, but for its last item.
        """
        return list(items)

    def read_history(self, history: bytes) -> list[Item] | None:
        """Return the items of a request's history field; None where they cannot be read."""
        return read_items(history)

    def parse(self, value: object) -> Item:
        """Return the item for a decoded JSON value, in threadkeep's one fixed serialisation.

        Raises:
            InvalidItem: It is not a JSON object, or holds what JSON cannot say.
        """
        if not isinstance(value, dict):
            raise InvalidItem(dialect=self.name, reason=f"a JSON object was expected, not {type(value).__name__}")
        try:
            if is_json(value):
                return Item(msgspec.json.encode(value))
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise InvalidItem(dialect=self.name, reason=str(error)) from error
        raise InvalidItem(dialect=self.name, reason="it holds something JSON cannot say")

    def view(self, item: Item) -> View:
        """Return what is known about an item. An unknown form is `OPAQUE`, never an error."""
        return self.read_view(read_object(item.raw) or {})

    def canonical(self, item: Item) -> bytes:
        """Return the form that two spellings of the same item share; for hashing only."""
        return encode_canonical(item.raw, self.normalise)

    def split(self, body: bytes) -> Request | None:
        """Take a request apart, or return None where its history is not in it or cannot be read."""
        fields = split_object(body)
        if fields is None or any(fields.get(name, b"null") != b"null" for name in self.held_elsewhere):
            return None
        items = self.read_history(fields[self.history_field]) if self.history_field in fields else None
        if items is None:
            return None
        head = 0
        while head < len(items) and self.view(items[head]).role is Role.SYSTEM:
            head += 1
        return Request(fields=fields, head=tuple(items[:head]), items=tuple(items[head:]))

    def join(self, request: Request, items: Sequence[Item]) -> bytes:
        """Return `request` as a body whose history is its head followed by `items`."""
        return join_object({**request.fields, self.history_field: join_list(item.raw for item in (*request.head, *items))})

    def keep_host_parts(self, item: Item) -> Item | None:
        """Return a user message without the parts that hold a person's words; None where nothing is left."""
        parts, alone = self._list_parts(item), self.split_parts(item)
        kept = [part for part, each in zip(parts, alone, strict=True) if not self.view(each).by_person]
        fields = split_object(item.raw) or {}
        return Item(join_object({**fields, self.parts_field: join_list(kept)})) if kept else None

    def split_parts(self, item: Item) -> list[Item]:
        """Return a message as several, each with one of its parts; none where it has no list of parts."""
        fields = split_object(item.raw) or {}
        return [Item(join_object({**fields, self.parts_field: join_list([part])})) for part in self._list_parts(item)]

    def _list_parts(self, item: Item) -> list[bytes]:
        return split_list((split_object(item.raw) or {}).get(self.parts_field, b"null")) or []

    def split_compaction(self, item: Item) -> SplitItem:
        """Split an item into the compaction that its provider wrote in an answer by itself, and the rest."""
        compaction = self.api.compaction
        return SplitItem(written=None, rest=item) if compaction is None else compaction.split(item)

    def has_sealed(self, item: Item) -> bool:
        """Whether an item holds what only the account it was issued to may send back."""
        return any(mark in item.raw for mark in self.sealed_marks) and self.remove_sealed(item) is not item


def compose_request(fields: Mapping[str, object], *, head: Sequence[Item] = ()) -> Request:
    """Return a request without a history; a field that says nothing is left out."""
    said = {name: msgspec.json.encode(value) for name, value in fields.items() if value}
    return Request(fields=said, head=tuple(head), items=())
