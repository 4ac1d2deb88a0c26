"""docs/mcp.md: every snippet is what its client reads, and every command one that threadkeep knows."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from threadkeep.cli.parser import parse
from threadkeep.mcp.http import PATH
from threadkeep.mcp.tools import TOOLS

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")


def snippets(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_snippet_of_a_process_starts_the_server() -> None:
    """Codex's table, Claude Code's and opencode's objects each name the same command line, which parses."""
    codex = tomllib.loads(snippets("toml")[0])["mcp_servers"]["threadkeep"]
    claude, opencode = (json.loads(snippet) for snippet in snippets("json")[:2])
    lines = [
        [codex["command"], *codex["args"]],
        [claude["mcpServers"]["threadkeep"]["command"], *claude["mcpServers"]["threadkeep"]["args"]],
        opencode["mcp"]["threadkeep"]["command"],
    ]
    assert lines == [["threadkeep", "mcp"]] * 3
    assert (opencode["mcp"]["threadkeep"]["type"], opencode["mcp"]["threadkeep"]["enabled"]) == ("local", True)
    for more in ([], ["--store", "agent.db", "--thread", "ship-it"]):
        assert parse([*lines[0][1:], *more]).command == "mcp"


def test_every_snippet_of_a_url_leads_to_the_server() -> None:
    """The port and path are those `--http` listens on, the token the one it is opened with."""
    (codex,) = (tomllib.loads(snippet)["mcp_servers"]["threadkeep"] for snippet in snippets("toml")[1:])
    (claude,) = (json.loads(snippet)["mcpServers"]["threadkeep"] for snippet in snippets("json")[2:])
    url = f"http://127.0.0.1:{parse(['mcp', '--http']).port}{PATH}"
    assert codex == {"url": url, "bearer_token_env_var": "THREADKEEP_CONTROL_TOKEN"}
    headers = {"Authorization": "Bearer ${THREADKEEP_CONTROL_TOKEN}"}
    assert claude == {"type": "http", "url": url, "headers": headers}


@pytest.mark.parametrize(
    "line", [line for snippet in snippets("sh") for line in snippet.splitlines() if line.startswith("threadkeep")]
)
def test_every_command_parses(line: str) -> None:
    """What the page tells people to type is understood."""
    assert parse(line.split()[1:]).command == "mcp"


def test_the_page_names_every_tool_and_argument() -> None:
    """The table is the schemas'."""
    rows: dict[str, Any] = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE))
    assert list(rows) == list(TOOLS)
    for name, kind in TOOLS.items():
        assert all(f"`{argument}`" in rows[name] for argument in kind.schema["properties"]), name
