"""The requests of each client in its pinned version still look as they did when its pin was chosen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.clients.conftest import NEWEST, Installed, pin_newest
from tests.clients.programs import CLIENTS, Installation
from tests.clients.shapes import SHAPES, compare_shapes, load_shape, read_shape, write_shape
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, Reply, say
from tests.drivers.npm import NODE_22

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

WRITE = "THREADKEEP_WRITE_SHAPES"


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.timeout(300)
async def test_a_client_s_requests_have_the_stored_shape(name: str, installed: Installed, tmp_path: Path) -> None:
    """One turn with one command, without us; with the newest version the shape is written and not compared."""
    program = CLIENTS[name]
    command, node = await installed(program.package), await installed(NODE_22)
    replies = iter([program.look("echo hello")] if program.look is not None else [])

    def answer(received: Received) -> Reply:
        return say(program.aside) if program.is_side(received) else next(replies, say("done"))

    async with ScriptedProvider([], beside=answer) as provider:
        client = Installation(program, command, node=node, home=tmp_path / "home", root=provider.url.removesuffix("/v1"))
        ended = await client.say("Hello there, run a command.", folder=tmp_path / "work", new=True)
    assert ended.exit_code == 0, ended
    shape = read_shape((*provider.side_requests, *provider.requests), is_side=program.is_side)
    package = pin_newest(program.package)
    title = f"{package.package} {package.version}"
    if NEWEST is not None:
        write_shape(NEWEST.parent / "shapes" / f"{name}.txt", title, shape)
    elif os.environ.get(WRITE):
        write_shape(SHAPES / f"{name}.txt", title, shape)
    else:
        stored = load_shape(SHAPES / f"{name}.txt")
        if not any(line.startswith("side ") for line in shape):
            # A title is asked for while the client works; one that is done first never asks.
            stored = [line for line in stored if not line.startswith("side ")]
        assert compare_shapes(stored, shape) == []
