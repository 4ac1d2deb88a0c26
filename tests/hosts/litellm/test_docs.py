"""The page about LiteLLM: what it tells people to do works as it stands there."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from tests.docs.pages import read_examples
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import say
from tests.hosts.litellm.test_proxy import CONFIG

pytestmark = [pytest.mark.hosts, pytest.mark.anyio]

PAGE = "docs/hosts/litellm.md"
STORE = "/srv/threadkeep.db"


def test_the_config_of_the_page_is_the_one_the_proxy_is_tested_with() -> None:
    """Word for word."""
    (shown,) = [shown.text for shown in read_examples(PAGE) if shown.language == "text"]
    assert shown in CONFIG


async def test_the_program_and_the_commands_of_the_page_run(tmp_path: Path) -> None:
    """The program asks the model it names, at another address; then the store is there, and sound."""
    (program,) = [shown.text for shown in read_examples(PAGE) if shown.language == "python"]
    async with ScriptedProvider([say("Shipped.")]) as model:
        environ = {
            **{name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ},
            "HOME": str(tmp_path),
            "OPENAI_API_KEY": "sk-scripted",
            "OPENAI_BASE_URL": model.url,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "NO_PROXY": "127.0.0.1",
        }
        out = await _ran([sys.executable, "-c", program], environ, cwd=tmp_path)
    assert out.splitlines()[0] == "Shipped."
    assert "Never touch vendor/. Ship it." in out
    lines = [line for shown in read_examples(PAGE) if shown.language == "sh" for line in shown.text.splitlines()]
    ours = [line.replace(STORE, str(tmp_path / "agent.db")) for line in lines if line.startswith("threadkeep ")]
    said = [await _ran([sys.executable, "-m", "threadkeep.cli", *line.split()[1:]], environ, cwd=tmp_path) for line in ours]
    assert "ship-it" in said[0]
    assert said[1].startswith("ok")


async def _ran(command: list[str], environ: dict[str, str], *, cwd: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environ, cwd=cwd
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()
