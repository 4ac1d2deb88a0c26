"""The server over streamable HTTP: the same tools, behind a door."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from tests.mcp.sessions import ERAS, NEEDLE, Mode, Person, opened, over_http, refused, told

from threadkeep import Threadkeep
from threadkeep.gateway.http.keys import Keys, digest_key
from threadkeep.gateway.http.server import run_server
from threadkeep.mcp.http import Admitted, http_app

pytestmark = pytest.mark.anyio

TOKEN, ALICE, BOB = "the-token-of-this-store", "tkk_alice", "tkk_bob"
OWN = {"Authorization": f"Bearer {TOKEN}"}
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
PARAMS = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bare", "version": "1"}}
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@asynccontextmanager
async def served(store: Path) -> AsyncIterator[str]:
    """Serve a store on loopback, with a token of its own and keys of two tenants."""
    keys = Keys({digest_key(ALICE): "alice", digest_key(BOB): "bob"})

    def unlock(credential: str) -> Admitted | None:
        tenant = keys.tenant_of(credential)
        return Admitted(tenant=tenant) if tenant else Admitted(tenant=None) if credential == TOKEN else None

    async with opened(store) as tk:

        async def store_of(tenant: str | None) -> Threadkeep:
            return tk if tenant is None else await tk.for_tenant(tenant)

        async with http_app(store_of, unlock=unlock) as app, run_server(app) as url:
            yield url


@pytest.mark.parametrize("mode", ERAS)
async def test_every_tool_works_over_http(store: Path, mode: Mode) -> None:
    """Listed, called, asked about, and a needle from before the first of three compactions found."""
    person = Person(answers="accept")
    async with served(store) as url, over_http(f"{url}/mcp", OWN, mode=mode, person=person) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["recall", "threads", "state", "note", "pin"]
        assert "ship-it" in await told(client, "threads")
        assert NEEDLE in await told(client, "recall", thread="ship-it", query="staging database port")
        assert "Move the service" in await told(client, "state", thread="ship-it")
        assert "the user's words" in await told(client, "note", thread="ship-it", text="Ask Ruth first.", from_user=True)
        assert "is pinned." in await told(client, "pin", thread="ship-it", entry="1")
        assert "unknown field `id`" in await refused(client, "pin", {"id": "1"})
    assert len(person.asked) == 2


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/mcp", {"Authorization": f"Bearer {ALICE}"}),
        ("/mcp", {"X-Threadkeep-Key": ALICE}),
        (f"/k/{ALICE}/mcp", {}),
    ],
    ids=["bearer", "header", "url"],
)
async def test_a_key_opens_its_tenant_s_threads_and_no_other_s(store: Path, path: str, headers: dict[str, str]) -> None:
    """Alice sees her own thread; what is the operator's and Bob's is not there for her."""
    async with opened(store) as tk:
        await (await (await tk.for_tenant("alice")).thread("hers")).note("Only for Alice.")
        await (await (await tk.for_tenant("bob")).thread("his")).note("Only for Bob.")
    async with served(store) as url, over_http(f"{url}{path}", headers) as client:
        listed = await told(client, "threads")
        assert ("hers" in listed, "his" in listed, "ship-it" in listed) == (True, False, False)
        assert "Only for Alice." in await told(client, "state", thread="hers")
        for thread in ("his", "ship-it"):
            assert "no thread" in await refused(client, "recall", {"thread": thread, "query": "port"})
        assert "'ship-it' has no record #5" in await refused(client, "recall", {"thread": "hers", "query": "ship-it#5"})


async def test_nobody_enters_without_a_credential(store: Path) -> None:
    """No token, a wrong one, two of them: 401, and the answer says what is needed. Elsewhere there is nothing."""
    async with served(store) as url, httpx2.AsyncClient() as http:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}, {"X-Threadkeep-Key": "no"}):
            answer = await http.post(f"{url}/mcp", json={**HELLO, "params": PARAMS}, headers={**ACCEPT, **headers})
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "token_required")
        wrong = await http.post(f"{url}/k/wrong/mcp", json={**HELLO, "params": PARAMS}, headers=ACCEPT)
        assert wrong.status_code == 401
        assert (await http.get(f"{url}/elsewhere", headers=OWN)).status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "evil.example"}, 421), ({"Host": "127.0.0.1.evil.example"}, 421), ({"Origin": "https://evil.example"}, 403)],
)
async def test_a_page_from_elsewhere_is_turned_away(store: Path, headers: dict[str, str], status: int) -> None:
    """Even with the token: a browser sends the page's own name as Host, or its origin."""
    async with served(store) as url, httpx2.AsyncClient() as http:
        answer = await http.post(f"{url}/mcp", json={**HELLO, "params": PARAMS}, headers={**ACCEPT, **OWN, **headers})
        assert answer.status_code == status


async def test_a_session_belongs_to_who_opened_it(store: Path) -> None:
    """Its id in another tenant's hands is as good as none."""
    async with served(store) as url, httpx2.AsyncClient(headers=ACCEPT) as http:
        opening = await http.post(f"{url}/mcp", json={**HELLO, "params": PARAMS}, headers={"X-Threadkeep-Key": ALICE})
        session = {"Mcp-Session-Id": opening.headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-06-18"}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        for key, status in ((ALICE, 202), (BOB, 404)):
            answer = await http.post(f"{url}/mcp", json=ready, headers={**session, "X-Threadkeep-Key": key})
            assert answer.status_code == status
        for key, status in ((ALICE, 200), (BOB, 404)):
            answer = await http.post(f"{url}/mcp", json=listing, headers={**session, "X-Threadkeep-Key": key})
            assert answer.status_code == status


@pytest.mark.slow
async def test_the_command_serves_until_a_signal(store: Path) -> None:
    """It says where it listens and where its token is, which opens it; SIGINT ends it."""
    words = ("-m", "threadkeep.cli", "mcp", "--http", "--port", "0", "--store", str(store), "--thread", "ship-it", "--json")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("THREADKEEP_")}
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE, env=environ)
    assert process.stdout is not None
    try:
        said = json.loads(await process.stdout.readline())
        assert said["url"].startswith("http://127.0.0.1:")
        token = Path(said["token_file"]).read_text().strip()
        async with over_http(said["url"], {"Authorization": f"Bearer {token}"}) as client:
            assert NEEDLE in await told(client, "recall", query="staging database port")
        # A stream that a client holds open does not hold the process up.
        async with httpx2.AsyncClient(headers={**ACCEPT, "Authorization": f"Bearer {token}"}) as http:
            opening = await http.post(said["url"], json={**HELLO, "params": PARAMS})
            session = {"Mcp-Session-Id": opening.headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-06-18"}
            async with http.stream("GET", said["url"], headers=session) as held:
                assert held.status_code == 200
                process.send_signal(signal.SIGINT)
                assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
