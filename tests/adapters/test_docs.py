"""The pages about these hosts tell the truth: every program on them runs as it stands, against a provider on this machine."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.docs.pages import ELSEWHERE, ROOT, read_examples
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply, say
from tests.drivers.claude_code import SWITCHES

SECONDS = 120
# LangChain's package for OpenAI is not among what tests install; the model of these tests speaks the same language.
CHAT_OPENAI = """
import os
from tests.adapters.wired_model import WiredChatModel

def ChatOpenAI(model):
    return WiredChatModel(url=os.environ["OPENAI_BASE_URL"], key=os.environ["OPENAI_API_KEY"], model_name=model)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a page's programs are answered, and how each ends what it prints."""

    script: tuple[Reply, ...]
    prints: tuple[str, ...]


PAGES = {
    "docs/hosts/openai-agents.md": Page(script=(say("Shipped."),), prints=("Shipped.\n", "4 4\n")),
    "docs/hosts/langchain.md": Page(script=(say("Shipped."),), prints=("Shipped.\n", "")),
    "docs/hosts/pydantic-ai.md": Page(script=(say("Shipped."), say("vendor/")), prints=("vendor/\n", "")),
    "docs/hosts/claude-agent-sdk.md": Page(script=(say("Hello."),), prints=("Hello.\n", "Never touch vendor/. Say hello.']\n")),
}


def test_every_page_that_is_to_be_tried_here_is() -> None:
    """What the tests of the documentation leave to this folder is what this file runs."""
    assert set(PAGES) == {page for page, where in ELSEWHERE.items() if where == "tests/adapters"}


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("page", PAGES)
async def test_every_program_of_a_page_runs(page: str, tmp_path: Path) -> None:
    """One after another, in one folder, with a home of its own."""
    (tmp_path / "langchain_openai.py").write_text(CHAT_OPENAI)
    programs = [shown.text for shown in read_examples(page) if shown.language == "python"]
    async with ScriptedProvider(PAGES[page].script) as provider:
        printed = [await ran(program, provider, folder=tmp_path) for program in programs]
    assert len(printed) == len(PAGES[page].prints)
    assert [text for text, end in zip(printed, PAGES[page].prints, strict=True) if not text.endswith(end)] == []


async def ran(program: str, provider: ScriptedProvider, *, folder: Path) -> str:
    """Run a program and return what it printed."""
    environ = {
        **SWITCHES,
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(folder))),
        "NO_PROXY": "127.0.0.1",
        "OPENAI_API_KEY": "sk-none",
        "OPENAI_BASE_URL": provider.url,
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "ANTHROPIC_API_KEY": "sk-none",
        "ANTHROPIC_BASE_URL": provider.url.removesuffix("/v1"),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        cwd=folder,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(SECONDS):
        printed, complained = await process.communicate()
    assert process.returncode == 0, complained.decode()
    return printed.decode()
