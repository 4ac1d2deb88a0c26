"""The viewer: checks who asks, finds the page, and carries out changes."""

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
from threadkeep.gateway.control.events import ALIVE, OPENING, Silence, Telling, follow, woken
from threadkeep.gateway.http.asgi import Call, Caller
from threadkeep.gateway.http.headers import first
from threadkeep.gateway.status import status_of
from threadkeep.store import ThreadStore
from threadkeep.viewer.login import Guest, Tickets, cookie_name, set_cookie, ticket_in
from threadkeep.viewer.pages import RECORD_PAGES, THREAD_PAGES, Sight, Values, memory_page, number_in, raw_record, threads_page
from threadkeep.viewer.renderer import render, thread_url
from threadkeep.viewer.responses import GUARDS, Answer, asset, assets_version, redirect
from threadkeep.viewer.size_history import Lives
from threadkeep.viewer.window_sizes import Sizes

FORM_LIMIT = 64 * 1024

_asset_path = re.compile(r"/ui/assets/([A-Za-z0-9._-]+)")

# Given a credential, returns whose threads it opens, or None.
Unlock = Callable[[str], Guest | None]
# Given who holds a ticket, whether what it rests on still opens.
Admits = Callable[[Guest], bool]
StoreOf = Callable[[str | None], Awaitable[Threadkeep]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A request of someone who may look; `names` are what stands in its path, `ticketless` that it came with a key."""

    call: Call
    caller: Caller
    guest: Guest
    ticketless: bool
    tk: Threadkeep
    names: Mapping[str, str]

    @property
    def query(self) -> dict[str, str]:
        return query_of(self.call)

    async def thread(self) -> Thread:
        """Return the thread the path names.

        Raises:
            ThreadNotFound: There is none.
        """
        return await self.tk.find(unquote(self.names["thread"]))


class Viewer:
    """Answers everything below `/ui`.

    Who asks is known by a ticket, which `unlock` decides about once and `admits` at every request, or by whoever serves the
    viewer (`guest`). Nothing is changed unless `allow_changes`, and then only by forms of pages that were served here. `secret`
    signs tickets. `stopping` ends streams of events, which would never end by themselves.
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
        self._sizes = Sizes()
        self._lives = Lives()

    async def answer(self, call: Call, caller: Caller, *, guest: Guest | None = None) -> None:
        """Answer a request; `guest` is who asks, where whoever serves knows already."""
        try:
            answer = await self._answer(call, caller, guest=guest)
            if answer is not None:
                await answer.write(caller)
        except ConnectionResetError:
            return

    async def _answer(self, call: Call, caller: Caller, *, guest: Guest | None) -> Answer | None:
        path = call.path.decode("latin-1").rstrip("/")
        if found := _asset_path.fullmatch(path):
            return asset(found[1]) or self._failure("not_found", "there is no such file", status=404)
        try:
            if call.method not in ("GET", "POST"):
                return self._failure("method_not_allowed", "pages are read with GET and changed with POST", status=405)
            if call.method == "POST" and not is_own_origin(call):
                return self._failure("origin_not_allowed", "the form was not sent by a page of this viewer", status=403)
            if path in ("/ui/enter", "/ui/leave"):
                return await self._door(call, caller, leaving=path == "/ui/leave")
            known = guest or self._known(call)
            if known is None:
                return redirect("/ui/enter") if call.method == "GET" else self._failure("no_ticket", "log in first", status=401)
            return await self._inside(path, call, caller, known, ticketless=guest is not None)
        except ThreadkeepError as error:
            return self._failure(error.code, str(error), status=status_of(error))

    async def _door(self, call: Call, caller: Caller, *, leaving: bool) -> Answer:
        name = cookie_name(first(call.headers, b"host"))
        if leaving:
            return redirect("/ui/enter", (b"set-cookie", set_cookie(name, "").encode()))
        said = query_of(call) if call.method == "GET" else await _form(caller)
        credential = said.get("pass", "").strip()
        guest = self._unlock(credential) if credential else None
        if guest is None:
            page = render("enter.html", {**self._common(), "refused": bool(credential)})
            return Answer(status=401 if credential else 200, body=page)
        return self._welcomed(name, guest)

    def _welcomed(self, name: str, guest: Guest) -> Answer:
        ticket = self._tickets.issue(guest, now=self._now())
        return redirect("/ui/", (b"set-cookie", set_cookie(name, ticket).encode()))

    def _known(self, call: Call) -> Guest | None:
        name = cookie_name(first(call.headers, b"host"))
        ticket = ticket_in(first(call.headers, b"cookie"), name=name)
        guest = self._tickets.read(ticket, now=self._now()) if ticket else None
        return guest if guest is not None and self._admits(guest) else None

    async def _inside(self, path: str, call: Call, caller: Caller, guest: Guest, *, ticketless: bool) -> Answer | None:
        for method, pattern, answered in ROUTES:
            if method == call.method and (found := pattern.fullmatch(path)):
                tk = await self._stores(guest.tenant)
                asked = _Asked(call=call, caller=caller, guest=guest, ticketless=ticketless, tk=tk, names=found.groupdict())
                return await answered(self, asked)
        return self._failure("unknown_path", "there is no such page", status=404)

    async def _threads(self, asked: _Asked) -> Answer:
        if asked.ticketless:
            # Whoever came with a key in the URL or a header goes on with a ticket: links carry neither.
            return self._welcomed(cookie_name(first(asked.call.headers, b"host")), asked.guest)
        return await threads_page(asked.tk, asked.query, self._sight(asked.guest))

    async def _memory(self, asked: _Asked) -> Answer:
        return await memory_page(asked.tk, asked.query, self._sight(asked.guest))

    async def _news(self, asked: _Asked) -> None:
        await self._stream(asked, follow_threads(asked.tk.backend.store, stopping=self._stopping))

    async def _side(self, asked: _Asked) -> Answer:
        page = THREAD_PAGES[asked.names["what"] or ""]
        return await page(asked.tk, await asked.thread(), asked.query, self._sight(asked.guest))

    async def _one(self, asked: _Asked) -> Answer:
        page = RECORD_PAGES[asked.names["what"]]
        return await page(asked.tk, await asked.thread(), int(asked.names["at"]), asked.query, self._sight(asked.guest))

    async def _raw(self, asked: _Asked) -> Answer:
        return await raw_record(asked.tk, await asked.thread(), int(asked.names["at"]))

    async def _follow(self, asked: _Asked) -> None:
        thread = await asked.thread()
        after = number_in(asked.query, "after")
        last = first(asked.call.headers, b"last-event-id")
        resumed = int(last) if last.isascii() and last.isdecimal() and len(last) < 16 else after
        await self._stream(asked, follow(asked.tk.backend.store, thread.id, after=resumed, stopping=self._stopping))

    async def _change(self, asked: _Asked) -> Answer:
        thread = await asked.thread()
        if not self._allow_changes:
            return self._failure("read_only", "this viewer only looks; --allow-changes lets it change threads", status=403)
        return _after(await act(asked.names["what"], thread, await _form(asked.caller)))

    async def _stream(self, asked: _Asked, events: AsyncIterator[bytes]) -> None:
        await stream(asked.caller, events, admitted=lambda: self._admits(asked.guest))

    def _sight(self, guest: Guest) -> Sight:
        return Sight(common=self._common(guest), sizes=self._sizes, lives=self._lives)

    def _common(self, guest: Guest | None = None) -> Values:
        """Return what every template needs."""
        return {
            "guest": guest,
            "allow_changes": self._allow_changes,
            "assets": f"/ui/assets/{{}}?v={assets_version()}".format,
            "now_ms": int(self._now() * 1000),
            "version": __version__,
        }

    def _failure(self, code: str, message: str, *, status: int) -> Answer:
        values: Values = {**self._common(), "code": code, "message": message, "status": status}
        return Answer(status=status, body=render("failure.html", values))


def _path(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("THREAD", r"/ui/t/(?P<thread>[^/]+)").replace("AT", r"(?P<at>\d{1,15})"))


# Which request is answered by what, where whoever asks is known.
ROUTES: tuple[tuple[str, re.Pattern[str], Callable[[Viewer, _Asked], Awaitable[Answer | None]]], ...] = (
    ("GET", _path(r"/ui"), Viewer._threads),
    ("GET", _path(r"/ui/memory"), Viewer._memory),
    ("GET", _path(r"/ui/events"), Viewer._news),
    ("GET", _path(rf"THREAD(?:/(?P<what>{'|'.join(map(re.escape, filter(None, THREAD_PAGES)))}))?"), Viewer._side),
    ("GET", _path(rf"THREAD/(?P<what>{'|'.join(RECORD_PAGES)})/AT"), Viewer._one),
    ("GET", _path(r"THREAD/r/AT/raw"), Viewer._raw),
    ("GET", _path(r"THREAD/events"), Viewer._follow),
    ("POST", _path(r"THREAD/(?P<what>[a-z]+)"), Viewer._change),
)


def query_of(call: Call) -> dict[str, str]:
    """Return the query of an address; of a name that stands there twice, the last counts."""
    return dict(parse_qsl(call.query.decode("latin-1"), keep_blank_values=True))


def is_own_origin(call: Call) -> bool:
    """Whether a request says that it comes from a page of the very host and port it goes to."""
    origin, host = first(call.headers, b"origin"), first(call.headers, b"host")
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return bool(host) and parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def without_own_origin(call: Call) -> Call:
    """Return a request without the Origin that a page of its own host gives it; any other origin is left to be judged."""
    if not is_own_origin(call):
        return call
    return replace(call, headers=[(name, value) for name, value in call.headers if name.lower() != b"origin"])


async def _form(caller: Caller) -> dict[str, str]:
    body = await caller.read(limit=FORM_LIMIT)
    if body is None:
        raise BadInput(f"a form is shorter than {FORM_LIMIT} bytes")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _after(done: Done) -> Answer:
    """Send the browser to what the change made; pressing reload there changes nothing again."""
    at = f"&at={done.at}" if done.at is not None else ""
    entry = f"&entry={done.entry}#entry-{done.entry}" if done.entry else ""
    page = thread_url(done.thread, done.page) if done.page else thread_url(done.thread)
    return redirect(f"{page}?done={done.what}{at}{entry}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was done, in a word for the address of the next page.

    `thread` is where to go on, `at` the record it made, `entry` the one of the session state it is about, shown on `page`.
    """

    what: str
    thread: str
    at: int | None = None
    page: str = ""
    entry: str = ""


async def act(what: str, thread: Thread, form: Mapping[str, str]) -> Done:
    """Do what a form asks for.

    Raises:
        BadInput: The form does not say what it must, or there is no such change.
        ThreadkeepError: What the library says to the same.
    """
    match what:
        case "note":
            noted = await thread.note(form.get("text", ""), pinned=bool(form.get("pinned")))
            return Done(what=what, thread=thread.id, at=noted.record)
        case "pin" | "unpin":
            remarked = await (thread.pin if what == "pin" else thread.unpin)(form.get("entry", ""))
            return Done(what=what, thread=thread.id, page="state", entry=remarked.entries[0].id)
        case "compact":
            report = await thread.compact(strategy=form.get("strategy") or None, focus=form.get("focus", "").strip() or None)
            return Done(what=what, thread=thread.id, at=report.checkpoint)
        case "undo":
            return Done(what=what, thread=thread.id, at=await thread.undo())
        case "fork":
            child = await thread.fork(at=_number(form, "at"), new_id=form.get("name", "").strip() or None)
            return Done(what=what, thread=child.id)
        case "rollback":
            went = await thread.rollback(turns=_number(form, "turns") or 1)
            return Done(what=what, thread=thread.id, at=went.at)
        case _:
            raise BadInput(f"there is no change called {what!r}")


def _number(form: Mapping[str, str], name: str) -> int | None:
    said = form.get(name, "").strip().removeprefix("#")
    if not said:
        return None
    if not (said.isascii() and said.isdecimal()) or len(said) > 15:
        raise BadInput(f"{name} must be a number, not {said!r}")
    return int(said)


# A list need not move as fast as the work it lists.
LOOK_SECONDS = 1.0


async def follow_threads(store: Telling, *, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield an event whenever any thread was written, until `stopping` is set."""
    seen = await _newest(store)
    yield OPENING
    silence = Silence()
    async with store.watch() as watch:
        while not stopping.is_set():
            newest = await _newest(store)
            if newest != seen:
                seen = newest
                silence.broken()
                yield b"event: written\ndata: {}\n\n"
            await woken(watch, stopping, within_s=LOOK_SECONDS)
            if silence.is_long():
                yield ALIVE


async def _newest(store: ThreadStore) -> tuple[str, int] | None:
    for row in await store.threads(limit=1):
        return row.id, row.next
    return None


async def stream(caller: Caller, events: AsyncIterator[bytes], *, admitted: Callable[[], bool]) -> None:
    """Write events until they end, the page is closed, or who looks is no longer admitted."""

    async def write() -> None:
        await caller.start(
            200, [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"), *GUARDS]
        )
        async for chunk in events:
            if not admitted():
                break
            await caller.write(chunk)
        await caller.end()

    await caller.stay_for(write())
