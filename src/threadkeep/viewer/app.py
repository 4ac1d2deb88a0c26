"""The viewer: checks who asks, finds the page, and carries out the changes that forms ask for."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, unquote, urlsplit

from threadkeep import __version__
from threadkeep.client import Thread, Threadkeep
from threadkeep.errors import BadInput, ThreadkeepError
from threadkeep.gateway.control.events import ALIVE, OPENING, NotifyingStore, Silence, follow, wait_for_change
from threadkeep.gateway.http.asgi import Call, Caller
from threadkeep.gateway.http.headers import first
from threadkeep.gateway.status import find_status
from threadkeep.store import ThreadStore
from threadkeep.viewer.login import Guest, Tickets, find_ticket, name_cookie, render_cookie
from threadkeep.viewer.page_handlers import (
    RECORD_PAGES,
    THREAD_PAGES,
    Values,
    read_number,
    send_raw_record,
    show_memory,
    show_threads,
)
from threadkeep.viewer.renderer import link_thread, render
from threadkeep.viewer.responses import Response, find_asset, hash_assets, redirect, send_events

FORM_LIMIT = 64 * 1024
# The list of threads need not move as fast as the work it lists.
LIST_REFRESH_SECONDS = 1.0

_asset_path = re.compile(r"/ui/assets/([A-Za-z0-9._-]+)")

# Given a credential, returns the visitor it admits, or None.
Unlock = Callable[[str], Guest | None]
# Whether the keys that a visitor's ticket rests on are still valid.
Admits = Callable[[Guest], bool]
StoreOf = Callable[[str | None], Awaitable[Threadkeep]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A request of an admitted visitor; `names` are the parts of its path, `has_key` says that it carries a key itself."""

    call: Call
    caller: Caller
    guest: Guest
    has_key: bool
    tk: Threadkeep
    names: Mapping[str, str]

    @property
    def query(self) -> dict[str, str]:
        return parse_query(self.call)

    async def find_thread(self) -> Thread:
        """Return the thread the path names.

        Raises:
            ThreadNotFound: There is none.
        """
        return await self.tk.find(unquote(self.names["thread"]))


class Viewer:
    """Answers every request below `/ui`.

    A visitor is known by a ticket, or by the server that hands the request on (`guest`). `unlock` issues tickets for credentials,
    `admits` is asked about each request, and `secret` signs tickets. Threads change only if `allow_changes`, and only through
    forms of pages served here. `stopping` ends streams of events, which do not end by themselves.
    """

    def __init__(
        self,
        stores: StoreOf,
        *,
        unlock: Unlock,
        admits: Admits,
        secret: str,
        stopping: asyncio.Event,
        allow_changes: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._stores = stores
        self._unlock = unlock
        self._admits = admits
        self._tickets = Tickets(secret)
        self._stopping = stopping
        self._allow_changes = allow_changes
        self._now = now

    async def answer(self, call: Call, caller: Caller, *, guest: Guest | None = None) -> None:
        """Answer a request; `guest` is the visitor if the server has identified one already."""
        try:
            response = await self._respond(call, caller, guest=guest)
            if response is not None:
                await response.send(caller)
        except ConnectionResetError:
            return

    async def _respond(self, call: Call, caller: Caller, *, guest: Guest | None) -> Response | None:
        path = call.path.decode("latin-1").rstrip("/")
        if found := _asset_path.fullmatch(path):
            return find_asset(found[1]) or self._fail("not_found", "there is no such file", status=404)
        try:
            if call.method not in ("GET", "POST"):
                return self._fail("method_not_allowed", "pages are read with GET and changed with POST", status=405)
            if call.method == "POST" and not has_own_origin(call):
                return self._fail("origin_not_allowed", "the form was not sent by a page of this viewer", status=403)
            if path in ("/ui/enter", "/ui/leave"):
                return await self._log_in_or_out(call, caller, leave=path == "/ui/leave")
            visitor = guest or self._find_guest(call)
            if visitor is None:
                return redirect("/ui/enter") if call.method == "GET" else self._fail("no_ticket", "log in first", status=401)
            return await self._route(path, call, caller, visitor, has_key=guest is not None)
        except ThreadkeepError as error:
            return self._fail(error.code, str(error), status=find_status(error))

    async def _log_in_or_out(self, call: Call, caller: Caller, *, leave: bool) -> Response:
        name = name_cookie(first(call.headers, b"host"))
        if leave:
            return redirect("/ui/enter", (b"set-cookie", render_cookie(name, "").encode()))
        form = parse_query(call) if call.method == "GET" else await _read_form(caller)
        credential = form.get("pass", "").strip()
        guest = self._unlock(credential) if credential else None
        if guest is None:
            page = render("enter.html", {**self._common_values(), "refused": bool(credential)})
            return Response(status=401 if credential else 200, body=page)
        return self._give_ticket(name, guest)

    def _give_ticket(self, name: str, guest: Guest) -> Response:
        ticket = self._tickets.issue(guest, now=self._now())
        return redirect("/ui/", (b"set-cookie", render_cookie(name, ticket).encode()))

    def _find_guest(self, call: Call) -> Guest | None:
        name = name_cookie(first(call.headers, b"host"))
        ticket = find_ticket(first(call.headers, b"cookie"), name=name)
        guest = self._tickets.read(ticket, now=self._now()) if ticket else None
        return guest if guest is not None and self._admits(guest) else None

    async def _route(self, path: str, call: Call, caller: Caller, guest: Guest, *, has_key: bool) -> Response | None:
        for method, pattern, handler in ROUTES:
            if method == call.method and (found := pattern.fullmatch(path)):
                tk = await self._stores(guest.tenant)
                request = _Request(call=call, caller=caller, guest=guest, has_key=has_key, tk=tk, names=found.groupdict())
                return await handler(self, request)
        return self._fail("unknown_path", "there is no such page", status=404)

    async def _show_threads(self, request: _Request) -> Response:
        if request.has_key:
            # Links carry neither the key in the URL nor that in a header, so the visitor continues with a ticket.
            return self._give_ticket(name_cookie(first(request.call.headers, b"host")), request.guest)
        return await show_threads(request.tk, request.query, self._common_values(request.guest))

    async def _show_memory(self, request: _Request) -> Response:
        return await show_memory(request.tk, request.query, self._common_values(request.guest))

    async def _show_thread(self, request: _Request) -> Response:
        show = THREAD_PAGES[request.names["page"] or ""]
        return await show(request.tk, await request.find_thread(), request.query, self._common_values(request.guest))

    async def _show_record(self, request: _Request) -> Response:
        show = RECORD_PAGES[request.names["page"]]
        thread, ordinal = await request.find_thread(), int(request.names["at"])
        return await show(request.tk, thread, ordinal, request.query, self._common_values(request.guest))

    async def _send_raw_record(self, request: _Request) -> Response:
        return await send_raw_record(request.tk, await request.find_thread(), int(request.names["at"]))

    async def _follow_threads(self, request: _Request) -> None:
        await self._send_events(request, follow_threads(request.tk.backend.store, stopping=self._stopping))

    async def _follow_thread(self, request: _Request) -> None:
        thread = await request.find_thread()
        last = first(request.call.headers, b"last-event-id")
        is_number = last.isascii() and last.isdecimal() and len(last) < 16
        after = int(last) if is_number else read_number(request.query, "after")
        events = follow(request.tk.backend.store, thread.id, after=after, stopping=self._stopping)
        await self._send_events(request, events)

    async def _send_events(self, request: _Request, events: AsyncIterator[bytes]) -> None:
        await send_events(request.caller, events, is_admitted=lambda: self._admits(request.guest))

    async def _change(self, request: _Request) -> Response:
        thread = await request.find_thread()
        if not self._allow_changes:
            return self._fail("read_only", "the viewer is read-only; start it with --allow-changes to make changes", status=403)
        return redirect(await change_thread(request.names["change"], thread, await _read_form(request.caller)))

    def _common_values(self, guest: Guest | None = None) -> Values:
        """Return what every template needs."""
        return {
            "guest": guest,
            "allow_changes": self._allow_changes,
            "assets": f"/ui/assets/{{}}?v={hash_assets()}".format,
            "now_ms": int(self._now() * 1000),
            "version": __version__,
        }

    def _fail(self, code: str, message: str, *, status: int) -> Response:
        values: Values = {**self._common_values(), "code": code, "message": message, "status": status}
        return Response(status=status, body=render("failure.html", values))


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("THREAD", r"/ui/t/(?P<thread>[^/]+)").replace("AT", r"(?P<at>\d{1,15})"))


# The routes of admitted visitors.
ROUTES: tuple[tuple[str, re.Pattern[str], Callable[[Viewer, _Request], Awaitable[Response | None]]], ...] = (
    ("GET", _compile(r"/ui"), Viewer._show_threads),
    ("GET", _compile(r"/ui/memory"), Viewer._show_memory),
    ("GET", _compile(r"/ui/events"), Viewer._follow_threads),
    ("GET", _compile(rf"THREAD(?:/(?P<page>{'|'.join(map(re.escape, filter(None, THREAD_PAGES)))}))?"), Viewer._show_thread),
    ("GET", _compile(rf"THREAD/(?P<page>{'|'.join(RECORD_PAGES)})/AT"), Viewer._show_record),
    ("GET", _compile(r"THREAD/r/AT/raw"), Viewer._send_raw_record),
    ("GET", _compile(r"THREAD/events"), Viewer._follow_thread),
    ("POST", _compile(r"THREAD/(?P<change>[a-z]+)"), Viewer._change),
)


def parse_query(call: Call) -> dict[str, str]:
    """Return the query of an address; if a name is repeated, its last value counts."""
    return dict(parse_qsl(call.query.decode("latin-1"), keep_blank_values=True))


def has_own_origin(call: Call) -> bool:
    """Whether the Origin of a request is the very host and port it goes to."""
    origin, host = first(call.headers, b"origin"), first(call.headers, b"host")
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return bool(host) and parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def drop_own_origin(call: Call) -> Call:
    """Return a request without the Origin of its own host, which needs no further check; any other Origin stays."""
    if not has_own_origin(call):
        return call
    return replace(call, headers=[(name, value) for name, value in call.headers if name.lower() != b"origin"])


async def _read_form(caller: Caller) -> dict[str, str]:
    body = await caller.read(limit=FORM_LIMIT)
    if body is None:
        raise BadInput(f"the form is longer than {FORM_LIMIT} bytes; shorten the text")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


async def change_thread(change: str, thread: Thread, form: Mapping[str, str]) -> str:
    """Make the change that a form asks for and return the address of the page to show; reloading it changes nothing again.

    Raises:
        BadInput: The form lacks a value, or there is no such change.
        ThreadkeepError: The library refuses the change.
    """
    match change:
        case "note":
            noted = await thread.note(form.get("text", ""), pinned=bool(form.get("pinned")))
            return _link_change(change, thread.id, at=noted.record)
        case "pin" | "unpin":
            remarked = await (thread.pin if change == "pin" else thread.unpin)(form.get("entry", ""))
            entry = remarked.entries[0].id
            return f"{link_thread(thread.id, 'state')}?done={change}&entry={entry}#entry-{entry}"
        case "compact":
            report = await thread.compact(strategy=form.get("strategy") or None, focus=form.get("focus", "").strip() or None)
            return _link_change(change, thread.id, at=report.checkpoint)
        case "undo":
            return _link_change(change, thread.id, at=await thread.undo())
        case "fork":
            child = await thread.fork(at=read_number(form, "at"), new_id=form.get("name", "").strip() or None)
            return _link_change(change, child.id)
        case "rollback":
            rolled_back = await thread.rollback(turns=read_number(form, "turns") or 1)
            return _link_change(change, thread.id, at=rolled_back.at)
        case _:
            raise BadInput(f"there is no change called {change!r}")


def _link_change(change: str, thread_id: str, *, at: int | None = None) -> str:
    return f"{link_thread(thread_id)}?done={change}{f'&at={at}' if at is not None else ''}"


async def follow_threads(store: NotifyingStore, *, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield an event whenever any thread was written, until `stopping` is set."""
    seen = await _find_newest(store)
    yield OPENING
    silence = Silence()
    async with store.watch() as watch:
        while not stopping.is_set():
            newest = await _find_newest(store)
            if newest != seen:
                seen = newest
                silence.broken()
                yield b"event: written\ndata: {}\n\n"
            await wait_for_change(watch, stopping, within_s=LIST_REFRESH_SECONDS)
            if silence.is_long():
                yield ALIVE


async def _find_newest(store: ThreadStore) -> tuple[str, int] | None:
    for row in await store.threads(limit=1):
        return row.id, row.next
    return None
