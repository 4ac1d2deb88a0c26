"""The real Claude Code with threadkeep's hooks: what its model receives after each of its own compactions."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.clients.conftest import Installed
from tests.clients.hook_talks import NEEDLE, RULES, SAID, spaced, state_told, threadkeep
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, say
from tests.drivers.claude_code import ClaudeCode
from tests.drivers.npm import CLAUDE_CODE

from threadkeep.adapters.client_settings.clients import find_own_program

pytestmark = [pytest.mark.anyio, pytest.mark.clients, pytest.mark.moves_prefix(reason="Claude Code compacts its own history")]

OPENING = "SessionStart hook additional context: "
PART = re.compile(r"\[session state, part (\d of \d); they may arrive in any order\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """A session that was compacted three times; `told` is the state as the store had it after each."""

    session_id: str
    requests: tuple[Received, ...]
    told: tuple[str, ...]
    store: Path
    claude: ClaudeCode


@pytest.fixture
async def compacted(installed: Installed, tmp_path: Path) -> Compacted:
    store = tmp_path / "threadkeep.db"
    script = [
        say("one"),
        say("one more"),
        *(say(text) for n in (1, 2, 3) for text in (f"<summary>SUMMARY {n}</summary>", f"done {n}")),
    ]
    async with ScriptedProvider(script) as provider:
        claude = await opened(installed, tmp_path, provider)
        await threadkeep("setup", "claude", "--hooks", "--yes", store=store, cwd=claude.cwd, environment=claude.environment())
        recall = shlex.join((*find_own_program(), "--store", str(store), "recall"))
        session_id = await say_to(claude, SAID[0])
        await say_to(claude, SAID[1], session_id)
        told: list[str] = []
        for text in ("Never touch vendor/.", "Look again.", "Go on."):
            await say_to(claude, "/compact", session_id)
            await say_to(claude, text, session_id)
            told.append(await state_told(store, session_id, recall=recall))
    return Compacted(session_id=session_id, requests=tuple(provider.requests), told=tuple(told), store=store, claude=claude)


async def opened(installed: Installed, folder: Path, provider: ScriptedProvider) -> ClaudeCode:
    binary = await installed(CLAUDE_CODE)
    return ClaudeCode(binary, home=folder / "home", cwd=folder / "work", base_url=provider.url.removesuffix("/v1"))


async def say_to(claude: ClaudeCode, text: str, session_id: str | None = None) -> str:
    run = await claude.turn(text, resume=session_id)
    assert (run.exit_code, run.session_id is not None) == (0, True), run.stderr
    return str(run.session_id)


def texts_of(request: Received) -> str:
    contents = [message["content"] for message in request.history]
    return "\n".join(
        content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content) for content in contents
    )


async def test_the_model_receives_the_state_whole_after_each_compaction(compacted: Compacted) -> None:
    """The first request after a compaction has the session state as the store has it, in as many parts as it needs."""
    after = [texts_of(compacted.requests[index]) for index in (3, 5, 7)]
    assert [spaced(text) in spaced(parted(request)) for request, text in zip(after, compacted.told, strict=True)] == [True] * 3
    assert [[rule for rule in RULES if rule not in text] for text in compacted.told] == [[], [], []]


def parted(request: str) -> str:
    """Return the parts of the state one behind another: Claude Code has them in the order in which their hooks ended."""
    _, *rest = PART.split(request.partition(OPENING)[2])
    parts = dict(zip(rest[::2], rest[1::2], strict=True))
    assert len(parts) > 1
    assert sorted(parts) == [f"{number} of {len(parts)}" for number in range(1, len(parts) + 1)]
    # Behind the last that arrived stands what Claude Code says next; it must not come between two parts.
    *_, last = parts
    parts[last] = parts[last].partition("\n\nWhile bypass permissions")[0]
    return " ".join(parts[name] for name in sorted(parts))


async def test_what_was_said_before_the_first_compaction_is_recalled(compacted: Compacted) -> None:
    """`threadkeep recall` finds the original, and the store holds together."""
    claude, store = compacted.claude, compacted.store
    environment = claude.environment()
    found = await threadkeep(
        "recall", compacted.session_id, "--json", "staging", "port", store=store, cwd=claude.cwd, environment=environment
    )
    assert NEEDLE in json.loads(found.stdout)["hits"][0]["text"]
    verified = await threadkeep("verify", "--json", store=store, cwd=claude.cwd, environment=environment)
    assert json.loads(verified.stdout)["problems"] == []
