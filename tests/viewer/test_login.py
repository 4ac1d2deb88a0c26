"""Who may look, and what a page may do in a browser."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import ClientSession
from tests.conftest import ManualClock
from tests.histories import said
from tests.viewer.conftest import PASS, Opened, Serve, looking
from tests.viewer.stories import billing

from threadkeep import Config, Threadkeep
from threadkeep.gateway.http.keys import Keys, KeysFile, digest_key
from threadkeep.gateway.http.server import run_server
from threadkeep.gateway.serve import Serving, open_gateway
from threadkeep.viewer.app import mount_viewer
from threadkeep.viewer.login import LIFE_SECONDS, Guest, Tickets, name_cookie

PAGES = (
    "/ui/",
    "/ui/memory",
    "/ui/t/billing",
    "/ui/t/billing/timeline",
    "/ui/t/billing/state",
    "/ui/t/billing/window",
    "/ui/t/billing/r/2",
)


@pytest.mark.anyio
async def test_without_a_ticket_no_page_is_shown(served: Serve) -> None:
    """Every page sends to the door, and neither figures nor events are told."""
    async with served() as url, looking(url) as looker:
        for path in (*PAGES, "/ui/t/billing/series.json", "/ui/events", "/ui/t/billing/events", "/ui/t/billing/r/2/raw"):
            seen = await looker.get(path)
            assert (seen.status, seen.headers.get("location"), seen.text) == (303, "/ui/enter", "")


@pytest.mark.anyio
async def test_the_printed_address_lets_in_and_a_wrong_pass_does_not(served: Serve) -> None:
    """The pass is taken once and is in no later address; a wrong one gets a plain refusal."""
    async with served() as url, looking(url) as looker:
        refused = await looker.get("/ui/enter?pass=guessed")
        assert (refused.status, "This token or key is not valid here." in refused.text) == (401, True)
        entered = await looker.get(f"/ui/enter?pass={PASS}")
        assert (entered.status, entered.headers["location"]) == (303, "/ui/")
        cookie = entered.headers["set-cookie"]
        assert PASS not in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        assert (await looker.get("/ui/")).status == 200


@pytest.mark.anyio
async def test_leaving_takes_the_ticket_away(opened: Opened) -> None:
    """After it the same browser is outside again."""
    async with opened() as looker:
        assert (await looker.post("/ui/leave", {})).status == 303
        assert (await looker.get("/ui/")).status == 303


def test_a_ticket_is_good_for_its_signer_and_its_time() -> None:
    """Another secret, a changed claim or a later hour open nothing."""
    tickets = Tickets("secret")
    ticket = tickets.issue(Guest(tenant="alice"), now=1_000)
    assert tickets.read(ticket, now=1_000) == Guest(tenant="alice")
    assert tickets.read(ticket, now=1_000 + LIFE_SECONDS) is None
    assert Tickets("other").read(ticket, now=1_000) is None
    claim, _, signature = Tickets("secret").issue(Guest(tenant=None), now=1_000).partition(".")
    assert tickets.read(f"{claim}.{ticket.partition('.')[2]}", now=1_000) is None
    assert tickets.read(f"{claim}.{signature}", now=1_000) == Guest(tenant=None)
    assert tickets.read("é.é", now=1_000) is None
    resting = Guest(tenant="alice", keys=frozenset({"sha256:0123456789ab", "sha256:ba9876543210"}))
    assert tickets.read(tickets.issue(resting, now=1_000), now=1_000) == resting


def test_viewers_on_two_ports_keep_their_tickets_apart() -> None:
    """Cookies know no ports, so their names do."""
    assert name_cookie("127.0.0.1:4621") != name_cookie("127.0.0.1:4622")
    assert name_cookie("gateway.example") == "threadkeep_ui"


@pytest.mark.anyio
async def test_no_page_holds_a_script_or_style_of_its_own(opened: Opened) -> None:
    """Under a policy that lets only our files run; a page that needed more would not work."""
    async with opened(allow_changes=True) as looker:
        for path in PAGES:
            seen = await looker.get(path)
            policy = seen.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|javascript:|https?://", seen.text) == []


@pytest.mark.anyio
async def test_a_name_that_points_here_is_not_served(served: Serve) -> None:
    """A page elsewhere that resolves its own name to this machine is told nothing, whatever its port."""
    async with served() as url, ClientSession() as session:
        async with session.get(f"{url}/ui/", headers={"host": "evil.example"}) as answer:
            assert answer.status == 403
        async with session.get(f"{url}/ui/", headers={"origin": "https://evil.example"}) as answer:
            assert answer.status == 403


@pytest.mark.anyio
async def test_forms_of_other_pages_change_nothing(opened: Opened, work: Threadkeep) -> None:
    """Another server on this machine shares our cookies; its forms are refused all the same, and so is one without an origin."""
    before = await work.backend.store.get("billing")
    async with opened(allow_changes=True) as looker:
        for origin in ("http://127.0.0.1:1", "http://localhost", "null", ""):
            seen = await looker.post("/ui/t/billing/undo", {}, origin=origin)
            assert seen.status == 403
    assert await work.backend.store.get("billing") == before


@pytest.mark.anyio
async def test_read_only_is_the_default(opened: Opened, work: Threadkeep) -> None:
    """No form is shown, and none is obeyed."""
    before = await work.backend.store.get("billing")
    async with opened() as looker:
        page = await looker.get("/ui/t/billing")
        assert "Compact now" not in page.text
        for what in ("note", "compact", "undo", "fork", "rollback"):
            assert (await looker.post(f"/ui/t/billing/{what}", {"text": "x", "turns": "1"})).status == 403
    assert await work.backend.store.get("billing") == before


@pytest.mark.anyio
async def test_a_gateway_shows_each_tenant_its_own_threads(store_file: Path, clock: ManualClock) -> None:
    """A key opens its tenant's threads, by form or by header, the control token the gateway's own; none sees another's."""
    keys = Keys({digest_key("tkk_alice"): "alice", digest_key("tkk_bob"): "bob"})
    serving = Serving(upstream="http://127.0.0.1:9", keys=keys, control_token="the-control-token", pages=mount_viewer())
    async with Threadkeep(Config(store=str(store_file)), clock=clock) as tk:
        await billing(await tk.for_tenant("alice"), clock, name="alices", compact_after=())
        await billing(await tk.for_tenant("bob"), clock, name="bobs", compact_after=())
        async with open_gateway(tk, serving) as gateway, run_server(gateway, on_stop=gateway.stop) as url:
            for credential, sees in (("tkk_alice", ["alices"]), ("tkk_bob", ["bobs"]), ("the-control-token", [])):
                async with looking(url) as looker:
                    assert (await looker.get("/ui/")).status == 303
                    assert (await looker.enter(credential)).status == 303
                    listed = await looker.get("/ui/")
                    assert re.findall(r'href="/ui/t/(\w+)"', listed.text) == sees
                    theirs = [(await looker.get(f"/ui/t/{name}")).status for name in ("alices", "bobs")]
                    assert theirs == [200 if name in sees else 404 for name in ("alices", "bobs")]
            async with looking(url) as looker:
                assert (await looker.get("/ui/t/alices", **{"x-threadkeep-key": "tkk_alice"})).status == 200
                assert (await looker.get("/ui/t/alices", **{"x-threadkeep-key": "tkk_bob"})).status == 404
                entered = await looker.get("/k/tkk_bob/ui/")
                assert (entered.status, entered.headers["location"]) == (303, "/ui/")
                assert (await looker.get("/ui/t/bobs")).status == 200
                assert (await looker.enter("tkk_nobody")).status == 401
                for origin, status in (("http://gateway.example", 303), ("http://evil.example", 403)):
                    headers = {"host": "gateway.example", "origin": origin}
                    form = {"pass": "tkk_bob"}
                    async with looker.session.post(
                        f"{url}/ui/enter", data=form, headers=headers, allow_redirects=False
                    ) as answer:
                        assert answer.status == status


@pytest.mark.anyio
async def test_a_key_that_was_removed_opens_nothing_any_more(store_file: Path, clock: ManualClock, tmp_path: Path) -> None:
    """Its ticket ends with it, by form and by address, and so does the stream of a page it had opened; another key's stays."""
    held = {"tkk_old": "alice", "tkk_new": "alice", "tkk_bob": "bob"}
    path = tmp_path / "keys.toml"

    def write(*keys: str) -> None:
        path.write_text("[keys]\n" + "".join(f'"{digest_key(key)}" = "{held[key]}"\n' for key in keys))

    write(*held)
    serving = Serving(upstream="http://127.0.0.1:9", keys=KeysFile(path), control_token="the-control-token", pages=mount_viewer())
    async with AsyncExitStack() as stack:
        tk = await stack.enter_async_context(Threadkeep(Config(store=str(store_file)), clock=clock))
        thread = await billing(await tk.for_tenant("alice"), clock, name="alices", compact_after=())
        gateway = await stack.enter_async_context(open_gateway(tk, serving))
        url = await stack.enter_async_context(run_server(gateway, on_stop=gateway.stop))
        old, new, by_address, control = [await stack.enter_async_context(looking(url)) for _ in range(4)]
        await old.enter("tkk_old")
        await new.enter("tkk_new")
        await by_address.get("/k/tkk_old/ui/")
        await control.enter("the-control-token")
        assert [(await looker.get("/ui/")).status for looker in (old, new, by_address, control)] == [200] * 4
        events = await stack.enter_async_context(old.session.get(f"{url}/ui/t/alices/events?after=0"))
        assert (await events.content.readuntil(b"event: item")).count(b"event: turn") == 1
        write("tkk_new", "tkk_bob")
        assert [(await looker.get("/ui/")).status for looker in (old, new, by_address, control)] == [303, 200, 303, 200]
        await thread.record([said("Nobody with the old key hears of this.")])
        await events.content.read()
        assert events.content.at_eof()
