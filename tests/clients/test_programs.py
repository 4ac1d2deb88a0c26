"""Clients that have no page of their own, unmodified: two sessions with equal beginnings, tools, and many compactions by us."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.clients.conftest import Installed
from tests.clients.programs import PROGRAMS, Installation, Program
from tests.clients.shapes import read_tools
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, Reply, say
from tests.drivers.gateway_process import gateway_process
from tests.drivers.npm import NODE_22
from tests.drivers.process import run_to_end

from threadkeep import Config, Threadkeep

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

STATE = b"session_compact_state"
HELLO = "Hello there, please help me in this folder."
RULES = {"alpha": "Never touch the files of customer ALPHA-111.", "beta": "Always greet customer BETA-222 by name."}
NAMES = {"alpha": b"ALPHA-111", "beta": b"BETA-222"}
# A file no client shortens. Three of them are more than the room a session has.
NOTES = "".join(f"{number:04d} the build log says nothing of interest here\n" for number in range(300))
READS = 8


@dataclass(slots=True)
class Stage:
    """A client with a session in each of two folders."""

    clients: dict[str, Installation]
    provider: ScriptedProvider
    folder: Path

    async def say(self, text: str, *, session: str, new: bool = False) -> list[Received]:
        """Say `text` and return the requests of the conversation that this run made."""
        before = len(self.provider.requests)
        ended = await self.clients[session].say(text, folder=self.folder / session, new=new)
        assert ended.exit_code == 0, ended
        return self.provider.requests[before:]


def script_turn(program: Program, text: str) -> Iterator[Reply]:
    """Yield what a model answers in a turn in which it reads the notes several times."""
    if program.look is not None:
        reads = READS // 2 if program.then else READS
        yield from (program.look(f"cat notes.txt # {number}") for number in range(reads))
    yield say(text)


def ask(program: Program, text: str) -> str:
    """Return what a person says; where a client has no tools, the notes are part of it."""
    return text if program.look is not None else f"{text}\n{NOTES}"


def list_programs() -> list[Any]:
    marks = {name: [pytest.mark.moves_prefix(reason=each.moves)] if each.moves else [] for name, each in PROGRAMS.items()}
    return [pytest.param(name, marks=marks[name], id=name) for name in PROGRAMS]


@pytest.mark.parametrize("name", list_programs())
@pytest.mark.timeout(900)
async def test_two_sessions_through_many_compactions(name: str, installed: Installed, tmp_path: Path) -> None:
    """Tools, rule and pairs are in each request, nothing is over the limit, and no word of one session is in the other."""
    program = PROGRAMS[name]
    command, node = await installed(program.package), await installed(NODE_22)
    for session in ("bare", *RULES):
        await run_to_end(("git", "init", "--quiet", session), cwd=tmp_path, environment=None, seconds=60.0)
        (tmp_path / session / "notes.txt").write_text(NOTES)

    def install(root: str) -> dict[str, Installation]:
        root, homes = root.removesuffix("/v1"), {each: tmp_path / f"{each}-home" for each in ("bare", *RULES)}
        return {each: Installation(program, command, node=node, home=home, root=root) for each, home in homes.items()}

    def beside(received: Received) -> Reply | None:
        return say(program.aside) if program.is_side(received) else None

    async with ScriptedProvider([say("hello")], beside=beside) as provider:
        await Stage(install(provider.url), provider, tmp_path).say(HELLO, session="bare", new=True)
    first = provider.requests[0]
    limit = len(first.raw) // 4 + program.room_tokens
    (tmp_path / "threadkeep.toml").write_text(f"model_auto_compact_token_limit = {limit}\nmodel_context_window = {2 * limit}\n")
    turns = 2 if program.then else 1
    script = [say("hello")] * 2 if program.then else []
    script += [reply for turn in range(turns) for _ in RULES for reply in script_turn(program, f"turn {turn} done")]
    async with (
        ScriptedProvider(script, enforcing=True, counting=True, beside=beside) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url, flags=("--auto-compact", "on")) as gateway,
    ):
        stage = Stage(install(gateway.base_url), provider, tmp_path)
        if program.then:
            for session in RULES:
                await stage.say(ask(program, HELLO), session=session, new=True)
        runs = [
            (session, await stage.say(ask(program, f"{text} Read notes.txt."), session=session, new=not program.then))
            for turn in range(turns)
            for session, text in (RULES.items() if turn == 0 else dict.fromkeys(RULES, "And again.").items())
        ]
    assert provider.refusals == []
    for session, requests in runs:
        other = NAMES["beta" if session == "alpha" else "alpha"]
        assert [set(read_tools(first)) - {*read_tools(each), *program.optional_tools} for each in requests] == [set()] * len(
            requests
        )
        assert [number for number, each in enumerate(requests) if RULES[session] not in json.dumps(each.body)] == []
        assert [number for number, each in enumerate(requests) if other in each.raw] == []
        assert [len(each.raw) // 4 for each in requests if len(each.raw) // 4 > limit] == []
    async with Threadkeep(Config(store=str(tmp_path / "threadkeep.db"))) as tk:
        threads = await tk.threads()
        verdict = await tk.verify()
    assert verdict.problems == ()
    # A client that sends no name for a session and words its history anew when resumed has several threads for one session.
    assert sum(thread.checkpoints for thread in threads) >= 2 * turns
