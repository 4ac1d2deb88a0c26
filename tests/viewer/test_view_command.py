"""`threadkeep view` as a process of its own."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import msgspec
import pytest
from aiohttp import ClientSession, CookieJar
from tests.cli.stories import command, surroundings
from tests.conftest import ManualClock
from tests.viewer.stories import billing

from threadkeep import Config, Threadkeep
from threadkeep.gateway.control.identity import load_token


@pytest.mark.anyio
async def test_it_prints_an_address_serves_it_and_stops_when_told(store_file: Path, clock: ManualClock) -> None:
    """The address opens the list; the control token of the store does too; SIGTERM ends it with 0."""
    async with Threadkeep(Config(store=str(store_file)), clock=clock) as tk:
        await billing(tk, clock, compact_after=())
    words = command("view", "--port", "0", "--json", "--store", str(store_file))
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, env=surroundings())
    try:
        assert process.stdout is not None
        said = msgspec.json.decode(await process.stdout.readline())
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session, session.get(said["enter"]) as answer:
            assert (answer.status, str(answer.url)) == (200, said["url"])
            assert "Move the billing service" in await answer.text()
        async with (
            ClientSession(cookie_jar=CookieJar(unsafe=True)) as session,
            session.get(f"{said['url']}enter?pass={load_token(store_file)}") as answer,
        ):
            assert str(answer.url) == said["url"]
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.anyio
async def test_the_address_for_people_is_in_one_piece(store_file: Path, clock: ManualClock) -> None:
    """However narrow the terminal: half an address leads nowhere."""
    async with Threadkeep(Config(store=str(store_file)), clock=clock) as tk:
        await billing(tk, clock, compact_after=())
    words = command("view", "--port", "0", "--store", str(store_file))
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, env={**surroundings(), "COLUMNS": "40"}
    )
    try:
        assert process.stdout is not None
        said = b""
        while b"Ctrl-C" not in said:
            said += await process.stdout.readline()
        (address,) = [line.split()[1] for line in said.decode().splitlines() if line.strip().startswith("open http")]
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session, session.get(address) as answer:
            assert (answer.status, answer.url.path) == (200, "/ui/")
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
