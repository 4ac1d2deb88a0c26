"""The control API: compact, undo, pin, note and look at threads from outside the conversation.

    GET  /threadkeep/v1/threads[?limit=N]
    POST /threadkeep/v1/threads/ID/compact    {"strategy", "model", "target", "focus", "dry_run"}, each optional
    POST /threadkeep/v1/threads/ID/undo
    POST /threadkeep/v1/threads/ID/pin        {"entry"}
    POST /threadkeep/v1/threads/ID/unpin      {"entry"}
    POST /threadkeep/v1/threads/ID/note       {"text", "pinned"}, the latter optional
    GET  /threadkeep/v1/threads/ID/window
    GET  /threadkeep/v1/threads/ID/state
    GET  /threadkeep/v1/threads/ID/events     Server-Sent Events; `Last-Event-ID` resumes
    GET  /threadkeep/v1/runs/ID               what one `threadkeep run` sent; the token alone opens it
    POST /threadkeep/v1/histories             a host's own history, laid out; see `threadkeep.gateway.control.api`

`ID` may be shortened to any unambiguous beginning. A failure is `{"error": {"code", "message"}}`.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from threadkeep.client import Thread, Threadkeep
from threadkeep.client.json_output import encode_compaction, encode_remark, encode_state, encode_window
from threadkeep.dialects import Dialect, find_dialect
from threadkeep.dialects.raw_json import encode_value, join_list, join_object
from threadkeep.errors import InvalidArgument, ThreadkeepError
from threadkeep.gateway.control.events import follow
from threadkeep.gateway.conversation.hints import SESSION_HEADERS
from threadkeep.gateway.conversation.proxy_interface import HostConversations, HostWindow, HostWish, Incoming, Refused
from threadkeep.gateway.error_statuses import find_status
from threadkeep.gateway.http.exchange import Call, Caller
from threadkeep.gateway.http.headers import first
from threadkeep.gateway.http.metrics import Runs

PREFIX = b"/threadkeep/v1/"
BODY_LIMIT = 64 * 1024
MOST_THREADS = 1000

_thread_path = re.compile(rb"/threadkeep/v1/threads/([^/]+)/([a-z]+)")
_run_path = re.compile(rb"/threadkeep/v1/runs/([0-9a-z]{8,32})")
_ordinal = re.compile(r"\d{1,15}")

POSTED = frozenset({"compact", "undo", "pin", "unpin", "note"})
METHODS = {**dict.fromkeys(POSTED, "POST"), "window": "GET", "state": "GET", "events": "GET"}


class _Compact(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request to compact."""

    strategy: str | None = None
    model: str | None = None
    target: str | int | None = None
    focus: str | None = None
    dry_run: bool = False


class _Pin(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request to pin or unpin."""

    entry: str


class _Note(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request to note something."""

    text: str
    pinned: bool = False


HISTORIES = b"/threadkeep/v1/histories"
HISTORY_LIMIT = 64 * 1024 * 1024
SESSION_HEADER = SESSION_HEADERS[2]

# Given a tenant and a dialect's name, returns its conversations.
FindHostConversations = Callable[[str | None, str], Awaitable[HostConversations]]

A = TypeVar("A", bound=msgspec.Struct)


class Control:
    """Answers the control API for one gateway.

    `stores` gives the open store of a tenant (None: the one without keys). `token` opens that one; the caller checks keys.
    `stopping` ends streams of events, which would never end by themselves.
    """

    def __init__(
        self,
        stores: Callable[[str | None], Awaitable[Threadkeep]],
        *,
        token: str,
        stopping: asyncio.Event,
        histories: FindHostConversations | None = None,
        runs: Runs | None = None,
    ) -> None:
        self._stores = stores
        self._runs = runs or Runs()
        self._histories = histories
        self._token = token.encode()
        self._stopping = stopping

    def has_token(self, call: Call) -> bool:
        """Whether a request carries the token, as `Authorization: Bearer TOKEN`."""
        scheme, _, token = first(call.headers, b"authorization").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token)

    async def answer(self, call: Call, caller: Caller, *, tenant: str | None) -> None:
        """Answer a request of someone who may act for `tenant`."""
        try:
            await self._answer(call, caller, tenant=tenant)
        except ThreadkeepError as error:
            await refuse(caller, Refused(status=find_status(error), code=error.code, message=str(error)))
        except ConnectionResetError:
            return

    async def _answer(self, call: Call, caller: Caller, *, tenant: str | None) -> None:
        path = call.path.rstrip(b"/")
        match = _thread_path.fullmatch(path)
        what = match[2].decode("ascii") if match else "threads"
        if path == HISTORIES and self._histories is not None and call.method == "POST":
            await answer_history(caller, self._histories, tenant=tenant)
            return
        if run := _run_path.fullmatch(path) if tenant is None and call.method == "GET" else None:
            await caller.answer(200, msgspec.json.encode(self._runs.find(run[1].decode("ascii"))))
            return
        if path != PREFIX + b"threads" and (match is None or what not in METHODS):
            await refuse(caller, Refused(status=404, code="unknown_path", message="the control API has nothing at this path"))
        elif call.method != METHODS.get(what, "GET"):
            message = f"ask for this with {METHODS.get(what, 'GET')}"
            await refuse(caller, Refused(status=405, code="method_not_allowed", message=message))
        else:
            tk = await self._stores(tenant)
            thread = await tk.find(unquote(match[1].decode("ascii"))) if match else None
            await self._do(what, tk, thread, call=call, caller=caller, is_operator=tenant is None)

    async def _do(
        self, what: str, tk: Threadkeep, thread: Thread | None, *, call: Call, caller: Caller, is_operator: bool
    ) -> None:
        answer: object
        if thread is None:
            answer = {"threads": await tk.threads(limit=_limit(call))}
        elif what == "events":
            await self._stream(tk, thread, call=call, caller=caller)
            return
        elif what in POSTED:
            answer = await _posted(what, thread, await caller.read(limit=BODY_LIMIT), is_operator=is_operator)
        else:
            answer = await (encode_window if what == "window" else encode_state)(thread)
        await caller.answer(200, msgspec.json.encode(answer))

    async def _stream(self, tk: Threadkeep, thread: Thread, *, call: Call, caller: Caller) -> None:
        after = _resumed_after(call)

        async def stream() -> None:
            headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
            await caller.start(200, headers)
            async for chunk in follow(tk.backend.store, thread.id, after=after, stopping=self._stopping):
                await caller.write(chunk)
            await caller.end()

        await caller.run_while_connected(stream())


async def _posted(what: str, thread: Thread, body: bytes | None, *, is_operator: bool) -> object:
    """Change something about a thread, and say what that made."""
    match what:
        case "compact":
            return await _compact(thread, _asked(body, _Compact, to="compact"), is_operator=is_operator)
        case "undo":
            return {"thread": thread.id, "checkpoint": await thread.undo()}
        case "note":
            noted = _asked(body, _Note, to="note")
            return encode_remark(await thread.note(noted.text, pinned=noted.pinned))
        case _:
            entry = _asked(body, _Pin, to=what).entry
            return encode_remark(await (thread.pin if what == "pin" else thread.unpin)(entry))


async def _compact(thread: Thread, asked: _Compact, *, is_operator: bool) -> object:
    """Compact a thread. A model is asked with the keys and from the network of whoever runs the gateway: only they name one."""
    if asked.model is not None and not is_operator:
        raise InvalidArgument("model", "a model can be named by the holder of the control token alone")
    target = str(asked.target) if asked.target is not None else None
    report = await thread.compact(
        strategy=asked.strategy, model=asked.model, target=target, focus=asked.focus, dry_run=asked.dry_run
    )
    return encode_compaction(report)


async def refuse(caller: Caller, refused: Refused) -> None:
    """Answer with an error of the gateway's own."""
    body = msgspec.json.encode({"error": {"code": refused.code, "message": refused.message}})
    await caller.answer(refused.status, body)


def _asked(body: bytes | None, form: type[A], *, to: str) -> A:
    if body is None:
        raise InvalidArgument("body", f"a request to {to} is shorter than {BODY_LIMIT} bytes; shorten this one")
    try:
        return msgspec.json.decode(body if body.strip() else b"{}", type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument("body", f"this is no request to {to}: {error}") from None


def _limit(call: Call) -> int:
    asked = dict(parse_qsl(call.query.decode("ascii"))).get("limit", "50")
    if _ordinal.fullmatch(asked) is None or not 0 < int(asked) <= MOST_THREADS:
        raise InvalidArgument("limit", f"limit must be between 1 and {MOST_THREADS}, not {asked!r}")
    return int(asked)


def _resumed_after(call: Call) -> int | None:
    """Return the ordinal a client saw last. It may also say so in the query: a browser sets no header of its own."""
    said = first(call.headers, b"last-event-id") or dict(parse_qsl(call.query.decode("ascii"))).get("after", "")
    if not said:
        return None
    if _ordinal.fullmatch(said) is None:
        raise InvalidArgument("Last-Event-ID", f"Last-Event-ID must be a record's ordinal, not {said!r}")
    return int(said)


class _History(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request."""

    dialect: str
    items: list[msgspec.Raw]
    session: str = ""
    model: str = ""
    compact: bool = False
    focus: str | None = None
    limit_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None


async def answer_history(caller: Caller, lays_out_for: FindHostConversations, *, tenant: str | None) -> None:
    """Answer a request of someone who may act for `tenant`.

    Raises:
        InvalidArgument: It cannot be understood.
        CompactionError, Conflict: See `HostConversations`.
    """
    body = await caller.read(limit=HISTORY_LIMIT)
    if body is None:
        raise InvalidArgument("body", f"a history is shorter than {HISTORY_LIMIT} bytes; send less of it")
    try:
        asked = msgspec.json.decode(body, type=_History)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument("body", f"this is no history: {error}") from None
    dialect = find_dialect(asked.dialect)
    fields = {"model": encode_value(asked.model), dialect.history_field: join_list(bytes(item) for item in asked.items)}
    headers = {SESSION_HEADER: asked.session} if asked.session else {}
    incoming = Incoming(path=dialect.api.endpoints.turn, headers=headers, body=join_object(fields))
    wish = HostWish(compact=asked.compact, focus=asked.focus, limit_tokens=asked.limit_tokens)
    lay_out = await (await lays_out_for(tenant, asked.dialect)).lay_out(incoming, wish)
    await caller.answer(200, msgspec.json.encode(_show_history(lay_out, dialect)))


def _show_history(lay_out: HostWindow, dialect: Dialect) -> dict[str, object]:
    request = dialect.split(lay_out.body)
    items = [*request.head, *request.items] if request is not None else []
    return {
        "thread": lay_out.thread_id,
        "checkpoint": lay_out.checkpoint,
        "tokens": lay_out.tokens,
        "items": [msgspec.Raw(item.raw) for item in items],
        "state": lay_out.state,
        "compacted": encode_compaction(lay_out.report) if lay_out.report is not None else None,
        "trouble": lay_out.trouble,
        "answer": lay_out.answer,
    }
