"""The page about Hermes: what it tells people to do works as it stands there."""

from __future__ import annotations

import asyncio
import os
import sys
import tomllib
from pathlib import Path

import pytest
from tests.docs.pages import read_examples
from tests.doubles.script import say
from tests.hosts.hermes.play import REPOSITORY, HermesModel, Host

from threadkeep.client import build_config, resolve

pytestmark = [pytest.mark.hosts, pytest.mark.anyio]

PAGE = "docs/hosts/hermes.md"


async def ran(host: Host, line: str, home: Path) -> tuple[int, str]:
    """Run a line of the page as a person would: with the commands of this environment on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_shell(
        line,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**host.environ, "PATH": path, "HERMES_HOME": str(home)},
        cwd=REPOSITORY,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def test_every_command_of_the_page_works(host: Host) -> None:
    """The folder is copied, the config is the page's, a session is held: doctor, threads and verify are content."""
    home = host.folder / ".hermes"
    home.mkdir()
    (config,) = [shown.text for shown in read_examples(PAGE) if shown.language == "text"]
    (home / "config.yaml").write_text(f"{config}model:\n  context_length: 64000\n", encoding="utf-8")
    host.home.joinpath("config.yaml").write_text((home / "config.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    async with HermesModel([say("Hello.")]) as model:
        held = await host.run(model, ["Hi."])
    assert held.report["engine"] == "threadkeep"
    lines = [line for shown in read_examples(PAGE) if shown.language == "sh" for line in shown.text.splitlines()]
    done = {line: await ran(host, line, home) for line in lines if not line.startswith("pip ")}
    assert [(line, out) for line, (status, out) in done.items() if status != 0] == []
    assert (home / "plugins" / "threadkeep" / "plugin.yaml").exists()
    assert "threadkeep is the context engine in use" in " ".join(done["threadkeep doctor --hermes"][1].split())


def test_the_settings_of_the_page_are_settings(tmp_path: Path) -> None:
    """What it shows as `threadkeep.toml` is understood, whole."""
    (shown,) = [shown.text for shown in read_examples(PAGE) if shown.language == "toml"]
    (tmp_path / "threadkeep.toml").write_text(shown, encoding="utf-8")
    settings = resolve(flags={}, environ={}, project=None, host=tmp_path, user=tmp_path / "none.toml")
    config = build_config(settings)
    assert {name: getattr(config, name) for name in tomllib.loads(shown)} == tomllib.loads(shown)
