"""The viewer as a web application: checks who asks, finds the page, and makes the changes that forms ask for.

It is served on its own (`threadkeep view`), or below `/ui` of a gateway (`threadkeep serve`).
"""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

from threadkeep import __version__
from threadkeep.client import Thread, Threadkeep
from threadkeep.dialects import DEFAULT
from threadkeep.errors import InvalidArgument, ThreadkeepError
from threadkeep.gateway.app import MakePages, PageContext
from threadkeep.gateway.control.events import ALIVE, OPENING, NotifyingStore, Silence, follow, wait_for_change
from threadkeep.gateway.error_statuses import find_status
from threadkeep.gateway.http.exchange import Call, Caller, Receive, Scope, Send
from threadkeep.gateway.http.guards import find_refusal
from threadkeep.gateway.http.headers import first
from threadkeep.gateway.http.keys import digest_key
from threadkeep.store import ThreadStore
from threadkeep.viewer.login import Guest, Tickets, find_ticket, name_cookie, render_cookie
from threadkeep.viewer.page_handlers import (
    Request,
    Values,
    read_number,
    send_raw_record,
    send_size_history,
    show_compaction,
    show_hits,
    show_memory,
    show_overview,
    show_record,
    show_state,
    show_threads,
    show_timeline,
    show_window,
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
            if guest is not None and path == "/ui":
                # Links carry neither the key in the URL nor that in a header, so the visitor continues with a ticket.
                return self._give_ticket(name_cookie(first(call.headers, b"host")), guest)
            if call.method == "POST" and not self._allow_changes:
                message = "the viewer is read-only; start it with --allow-changes to make changes"
                return self._fail("read_only", message, status=403)
            return await self._route(path, call, caller, visitor)
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

    async def _route(self, path: str, call: Call, caller: Caller, guest: Guest) -> Response | None:
        for method, pattern, handler in ROUTES:
            if method == call.method and (found := pattern.fullmatch(path)):
                request = Request(
                    call=call,
                    caller=caller,
                    tk=await self._stores(guest.tenant),
                    query=parse_query(call),
                    names=found.groupdict(),
                    common=self._common_values(guest),
                    is_admitted=lambda: self._admits(guest),
                    stopping=self._stopping,
                )
                return await handler(request)
        return self._fail("unknown_path", "there is no such page", status=404)

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


async def _follow_threads(request: Request) -> None:
    """Stream an event whenever any thread was written."""
    events = follow_threads(request.tk.backend.store, stopping=request.stopping)
    await send_events(request.caller, events, is_admitted=request.is_admitted)


async def _follow_thread(request: Request) -> None:
    """Stream an event for each new record of a thread."""
    thread = await request.find_thread()
    last = first(request.call.headers, b"last-event-id")
    is_number = last.isascii() and last.isdecimal() and len(last) < 16
    after = int(last) if is_number else read_number(request.query, "after")
    events = follow(request.tk.backend.store, thread.id, after=after, stopping=request.stopping)
    await send_events(request.caller, events, is_admitted=request.is_admitted)


async def _change(request: Request) -> Response:
    """Make the change that a form asks for."""
    thread = await request.find_thread()
    return redirect(await change_thread(request.names["change"], thread, await _read_form(request.caller)))


# The routes of admitted visitors.
ROUTES: tuple[tuple[str, re.Pattern[str], Callable[[Request], Awaitable[Response | None]]], ...] = (
    ("GET", _compile(r"/ui"), show_threads),
    ("GET", _compile(r"/ui/memory"), show_memory),
    ("GET", _compile(r"/ui/events"), _follow_threads),
    ("GET", _compile(r"THREAD"), show_overview),
    ("GET", _compile(r"THREAD/timeline"), show_timeline),
    ("GET", _compile(r"THREAD/state"), show_state),
    ("GET", _compile(r"THREAD/window"), show_window),
    ("GET", _compile(r"THREAD/find"), show_hits),
    ("GET", _compile(r"THREAD/series\.json"), send_size_history),
    ("GET", _compile(r"THREAD/events"), _follow_thread),
    ("GET", _compile(r"THREAD/r/AT"), show_record),
    ("GET", _compile(r"THREAD/r/AT/raw"), send_raw_record),
    ("GET", _compile(r"THREAD/c/AT"), show_compaction),
    ("POST", _compile(r"THREAD/(?P<change>[a-z]+)"), _change),
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
        raise InvalidArgument("form", f"the form is longer than {FORM_LIMIT} bytes; shorten the text")
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
            raise InvalidArgument("change", f"there is no change called {change!r}; use the forms of the pages")


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


class StandaloneViewer:
    """An ASGI application for one store. `passes` open it: the store's control token, and one made for this run."""

    def __init__(
        self, tk: Threadkeep, *, passes: Collection[str], allow_changes: bool, now: Callable[[], float] = time.time
    ) -> None:
        self._tk = tk
        self._passes = tuple(passes)
        self._stopping = asyncio.Event()
        self._viewer = Viewer(
            self._open_store,
            unlock=self._unlock,
            admits=lambda _: True,
            secret="\n".join(passes),
            stopping=self._stopping,
            allow_changes=allow_changes,
            now=now,
        )

    def stop(self) -> None:
        """End the streams of events, which do not end by themselves."""
        self._stopping.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the viewer speaks HTTP, not {scope['type']}")
        call = Call.of(scope)
        caller = Caller(receive, send, has_body=call.has_body)
        refusal = find_refusal(drop_own_origin(call), hosts=frozenset())
        if refusal is not None:
            body = DEFAULT.wire.render_error(refusal.status, refusal.code, refusal.message)
            await Response(status=refusal.status, body=body, content_type=b"application/json").send(caller)
        elif call.path == b"/ui" or call.path.startswith(b"/ui/"):
            await self._viewer.answer(call, caller)
        else:
            await redirect("/ui/").send(caller)

    async def _open_store(self, _: str | None) -> Threadkeep:
        return self._tk

    def _unlock(self, credential: str) -> Guest | None:
        matches = [hmac.compare_digest(credential.encode(), each.encode()) for each in self._passes]
        return Guest(tenant=None) if any(matches) else None


def mount_viewer(*, allow_changes: bool = False) -> MakePages:
    """Return a factory of the pages that a gateway serves below `/ui`."""

    def make(ground: PageContext) -> MountedViewer:
        return MountedViewer(ground, allow_changes=allow_changes)

    return make


class MountedViewer:
    """The viewer in a gateway, with the gateway's keys and tenants. A request that carries a key needs no ticket.

    A key that was removed opens nothing from the next request on, and ends every visit that rests on it.
    """

    def __init__(self, ground: PageContext, *, allow_changes: bool) -> None:
        self._ground = ground
        self._viewer = Viewer(
            ground.stores,
            unlock=self._unlock,
            admits=self._admits,
            secret=ground.token,
            stopping=ground.stopping,
            allow_changes=allow_changes,
        )

    def forgives(self, call: Call) -> Call:
        return drop_own_origin(call)

    async def serve(self, call: Call, caller: Caller, *, tenant: str | None, known: bool) -> None:
        # The gateway does not say which of the tenant's keys was used, so the ticket rests on all of them.
        guest = Guest(tenant=tenant, keys=self._list_keys(tenant)) if known else None
        await self._viewer.answer(call, caller, guest=guest)

    def _unlock(self, credential: str) -> Guest | None:
        opened = self._ground.opens(credential)
        if opened is None:
            return None
        digest = digest_key(credential)
        return Guest(tenant=opened[0], keys=frozenset(key for key in self._list_keys(opened[0]) if digest.startswith(key)))

    def _admits(self, guest: Guest) -> bool:
        """Whether every key the ticket rests on is still valid; one given for the control token rests on its signature."""
        return guest.tenant is None or (bool(guest.keys) and guest.keys <= self._list_keys(guest.tenant))

    def _list_keys(self, tenant: str | None) -> frozenset[str]:
        keys = self._ground.keys
        if keys is None or tenant is None:
            return frozenset()
        # Any question makes a file of keys reload itself if it changed.
        keys.tenant_of("")
        return frozenset(shown.rstrip("…") for shown in keys.list_digests(tenant))
