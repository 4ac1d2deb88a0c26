"""Histories that a host hands over by itself, for hosts that speak to their providers without the gateway.

    POST /threadkeep/v1/histories
        {"dialect", "items", "session", "model", "compact", "focus", "limit_tokens"}, all but the first two optional

The whole history is found by content, recorded and laid out as a request through the gateway would be, and comes back as the
window to send instead. Nothing is sent anywhere. If its newest message is a command (`threadkeep.gateway.commands`), that is
obeyed, and the answer comes with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Protocol

import msgspec

from threadkeep.compaction.report import CompactionReport
from threadkeep.dialects import Dialect, find_dialect
from threadkeep.dialects.raw_json import encode_value, join_list, join_object
from threadkeep.errors import BadInput
from threadkeep.gateway.caller import Caller
from threadkeep.gateway.control_views import compaction_view
from threadkeep.gateway.exchange import Incoming
from threadkeep.gateway.hints import SESSION_HEADERS

PATH = b"/threadkeep/v1/histories"
BODY_LIMIT = 64 * 1024 * 1024
SESSION_HEADER = SESSION_HEADERS[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be done to a history: compact it now, or once it holds that many tokens."""

    compact: bool = False
    focus: str | None = None
    limit_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOut:
    """A history as it is to be sent: `body` holds its window.

    Attributes:
        checkpoint: The compaction it rests on, if it rests on one.
        state: The session state, of that compaction or of the history that this one continues; None where there is none.
        report: The compaction that was made just now, if one was.
        trouble: Why one that was due was not made.
        answer: What the user is told who typed a command; the window holds nothing of it.
    """

    thread_id: str
    checkpoint: int | None
    tokens: int
    body: bytes
    state: str | None
    report: CompactionReport | None = None
    trouble: str | None = None
    answer: str | None = None


class LaysOut(Protocol):
    """Who keeps the conversations of one tenant in one dialect."""

    async def laid_out(self, incoming: Incoming, wish: Wish) -> LaidOut:
        """Record a history and return its window. Durable when it returns.

        Raises:
            BadInput: There is no history in it.
            CompactionError, Conflict: It was to be compacted now, and that did not happen; it is recorded all the same.
            CompactionStopped: A hook wants the turn to end, be it around a compaction or as the session starts anew after one.
        """
        ...


LaysOutFor = Callable[[str | None, str], Awaitable[LaysOut]]


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request."""

    dialect: str
    items: list[msgspec.Raw]
    session: str = ""
    model: str = ""
    compact: bool = False
    focus: str | None = None
    limit_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None


async def answer_history(caller: Caller, lays_out_for: LaysOutFor, *, tenant: str | None) -> None:
    """Answer a request of someone who may act for `tenant`.

    Raises:
        BadInput: It cannot be understood.
        CompactionError, Conflict: See `LaysOut`.
    """
    body = await caller.read(limit=BODY_LIMIT)
    if body is None:
        raise BadInput(f"a history is shorter than {BODY_LIMIT} bytes")
    try:
        asked = msgspec.json.decode(body, type=_Asked)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"this is no history: {error}") from None
    dialect = find_dialect(asked.dialect)
    fields = {"model": encode_value(asked.model), dialect.history_field: join_list(bytes(item) for item in asked.items)}
    headers = {SESSION_HEADER: asked.session} if asked.session else {}
    incoming = Incoming(path=dialect.api.endpoints.turn, headers=headers, body=join_object(fields))
    wish = Wish(compact=asked.compact, focus=asked.focus, limit_tokens=asked.limit_tokens)
    laid_out = await (await lays_out_for(tenant, asked.dialect)).laid_out(incoming, wish)
    await caller.answer(200, msgspec.json.encode(_view(laid_out, dialect)))


def _view(laid_out: LaidOut, dialect: Dialect) -> dict[str, object]:
    request = dialect.split(laid_out.body)
    items = [*request.head, *request.items] if request is not None else []
    return {
        "thread": laid_out.thread_id,
        "checkpoint": laid_out.checkpoint,
        "tokens": laid_out.tokens,
        "items": [msgspec.Raw(item.raw) for item in items],
        "state": laid_out.state,
        "compacted": compaction_view(laid_out.report) if laid_out.report is not None else None,
        "trouble": laid_out.trouble,
        "answer": laid_out.answer,
    }
