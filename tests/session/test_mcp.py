"""Tools of MCP servers are tools like any other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mcp.server import MCPServer
from tests.session.answers import calling, outputs_of
from tests.session.mcp_program import SERVER

from threadkeep import Session, Threadkeep
from threadkeep.errors import BadInput
from threadkeep.session.mcp_tools import mcp_tools
from threadkeep.testing.scripted_model import ScriptedModel

pytestmark = pytest.mark.anyio


def tides() -> MCPServer:
    server = MCPServer("tides")

    @server.tool()
    def tide(place: str) -> str:
        """Say how high the water stands."""
        if place == "moon":
            raise ValueError("there is no water")
        return f"{place}: 3 m"

    return server


async def test_what_a_server_offers_the_model_can_call(tk: Threadkeep) -> None:
    """Its name, description and schema go out; what it returns, and what goes wrong in it, comes back."""
    asks = calling("responses", ("c1", "tide", {"place": "Brest"}), ("c2", "tide", {"place": "moon"}))
    model = ScriptedModel([asks, "3 m."])
    async with mcp_tools(tides()) as tools:
        session = await Session.open(tk, "t", model=model, tools=tools, recall=False)
        assert (await session.ask("How high?")).text == "3 m."
    (offered,) = model.bodies[0]["tools"]
    assert (offered["name"], offered["description"]) == ("tide", "Say how high the water stands.")
    assert offered["parameters"]["required"] == ["place"]
    outputs = outputs_of("responses", list(await session.window()))
    assert outputs["c1"] == "Brest: 3 m"
    assert outputs["c2"].startswith("error: RuntimeError: ")


@pytest.mark.slow
async def test_a_server_can_be_started_by_its_command_line(tmp_path: Path) -> None:
    """A process of its own, spoken to through its pipes, gone when the context is left."""
    program = tmp_path / "tides server.py"
    program.write_text(SERVER, encoding="utf-8")
    async with mcp_tools(f"{sys.executable} '{program}'") as (tool,):
        assert await tool.run({"place": "Brest"}) == "Brest: 3 m"


async def test_a_server_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    """The message names what was asked for."""
    with pytest.raises(BadInput, match="no-such-program"):
        async with mcp_tools("no-such-program --port 1"):
            pass
