"""`threadkeep run` with the real clients of the day, with the models they choose themselves."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.clients.conftest import Installed
from tests.clients.play import titles
from tests.clients.programs import run_in_codex
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, Reply, call, say
from tests.drivers.npm import CLAUDE_CODE_2_1_328, CLINE, CODEX_0_169, NODE_22, OPENCODE, PI_1_5, QWEN, NpmClient
from tests.drivers.process import Ended, client_environment, run_to_end

from threadkeep import Config, Threadkeep

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

TURN_SECONDS = 180.0
STATE = b"session_compact_state"
# A tool's output that no client shortens; two of them and a client's own prompt are more than the limit.
NOTES = "".join(f"{number:04d} the build log says nothing of interest here\n" for number in range(450))
READ = "cat notes.txt"
DRAFT = b"Answer with exactly one block, from <session_compact_state>"
DRAFTED = "<session_compact_state>\nCurrent Handoff:\n- Next: read it once more.\n</session_compact_state>"
TURNS = ("Never touch vendor/. Read notes.txt.", "Read it again.", "And once more.")
OURS = ".local/share/threadkeep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A client as this test runs it.

    Attributes:
        look: How its model asks for a command to be run.
        first: Its arguments in the first turn; `then` those of a later one. `{}` is what is said.
        files: The user's own settings, by their path below the home.
        limit_tokens: Where its window is full: its own prompt and one reading of the notes fit, three do not.
        bare: What it needs to ask the provider without us.
    """

    name: str
    npm: NpmClient
    look: Callable[[str], Reply]
    first: Sequence[str]
    then: Sequence[str]
    files: Mapping[str, str]
    limit_tokens: int
    environment: Mapping[str, str] = field(default_factory=dict)
    bare: Mapping[str, str] = field(default_factory=dict)
    bare_flags: Sequence[str] = ()


def run_shell(name: str, **more: str) -> Callable[[str], Reply]:
    return lambda command: call(name, {"command": command, **more})


CLAUDE = Subject(
    name="claude",
    npm=CLAUDE_CODE_2_1_328,
    look=run_shell("Bash", description="look"),
    first=("--dangerously-skip-permissions", "-p", "{}"),
    then=("--dangerously-skip-permissions", "--continue", "-p", "{}"),
    files={
        ".claude/settings.json": '{"env": {"USERS_OWN": "1"}, "includeCoAuthoredBy": false}',
        ".claude/CLAUDE.md": "Be brief.\n",
    },
    limit_tokens=26_000,
    environment={"ANTHROPIC_API_KEY": "sk-ant-mock", "IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    bare={"ANTHROPIC_BASE_URL": "{root}"},
)
CODEX = Subject(
    name="codex",
    npm=CODEX_0_169,
    look=run_in_codex,
    first=("exec", "--skip-git-repo-check", "{}"),
    then=("exec", "resume", "--last", "--skip-git-repo-check", "{}"),
    files={
        ".codex/config.toml": 'approval_policy = "never"\nsandbox_mode = "danger-full-access"\n[analytics]\nenabled = false\n',
        ".codex/AGENTS.md": "Be brief.\n",
    },
    limit_tokens=29_000,
    environment={"OPENAI_API_KEY": "sk-mock"},
    bare_flags=(
        *("-c", 'model_provider="direct"'),
        *("-c", 'model_providers.direct={{name="d",base_url="{root}/v1",env_key="OPENAI_API_KEY",supports_websockets=false}}'),
    ),
)
OPENCODE_SUBJECT = Subject(
    name="opencode",
    npm=OPENCODE,
    look=run_shell("bash", description="look"),
    first=("run", "{}"),
    then=("run", "--continue", "{}"),
    # opencode adds the schema itself where a file has none.
    files={".config/opencode/opencode.json": '{"$schema": "https://opencode.ai/config.json", "permission": "allow"}'},
    limit_tokens=22_000,
    environment={"OPENAI_API_KEY": "sk-mock", "npm_config_offline": "true"},
    bare={"OPENCODE_CONFIG_CONTENT": '{{"provider": {{"openai": {{"options": {{"baseURL": "{root}/v1"}}}}}}}}'},
)


def titles_and_drafts(received: Received) -> Reply | None:
    """Answer what is asked beside the conversation: a client's title, and our draft of its state."""
    return say(DRAFTED) if DRAFT in received.raw else titles(received)


def digests(home: Path) -> dict[str, str]:
    """Return every file below a folder with a digest of what is in it."""
    found = {}
    for folder, _, names in os.walk(home):
        for path in (Path(folder, name) for name in names):
            if path.is_file() and not path.is_symlink():
                found[str(path.relative_to(home))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    """Return the places in which a file came, went or changed. What lies beside a database belongs to it."""
    files = {
        re.sub(r"-(wal|shm|journal)\Z", "", name) for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    }
    return {"/".join(Path(name).parts[: 3 if name.startswith(".local/") else 2]) for name in files}


class Stage:
    """A home with the user's settings, a folder to work in, and the client on the path."""

    def __init__(self, folder: Path, subject: Subject, command: Path, node: Path | None = None) -> None:
        self.home, self.work, self._subject = folder / "home", folder / "work", subject
        self._places = [str(each.parent) for each in (node, command) if each is not None]
        self._command = command
        self.work.mkdir(parents=True)
        (self.work / "notes.txt").write_text(NOTES)
        for name, text in {**subject.files, ".netrc": "machine example.org\n"}.items():
            file = self.home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def environment(self, **more: str) -> dict[str, str]:
        bare = client_environment(self.home, **self._subject.environment, **more)
        return {**bare, "PATH": os.pathsep.join([*self._places, bare["PATH"]])}

    def words(self, turn: int, text: str) -> list[str]:
        chosen = self._subject.first if turn == 0 else self._subject.then
        return [word.format(text) for word in chosen]

    async def bare(self, root: str) -> Ended:
        """Run the client without us, once."""
        environment = self.environment(**{name: value.format(root=root) for name, value in self._subject.bare.items()})
        flags = [word.format(root=root) for word in self._subject.bare_flags]
        words = (str(self._command), *flags, *self.words(0, "Hello there."))
        return await run_to_end(words, cwd=self.work, environment=environment, seconds=TURN_SECONDS)

    async def run(self, turn: int, text: str, root: str, **more: str) -> Ended:
        """Run the client through `threadkeep run`."""
        words, environment = self.through_us(self.words(turn, text), root, **more)
        return await run_to_end(words, cwd=self.work, environment=environment, seconds=TURN_SECONDS)

    def through_us(self, words: Sequence[str], root: str, **more: str) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return the command that runs the client with these arguments through `threadkeep run`, and its environment."""
        environment = self.environment(THREADKEEP_OPENAI_UPSTREAM=f"{root}/v1", THREADKEEP_ANTHROPIC_UPSTREAM=root, **more)
        return (sys.executable, "-m", "threadkeep.cli", "run", self._subject.name, "--", *words), environment


@pytest.mark.parametrize("subject", [CLAUDE, CODEX, OPENCODE_SUBJECT], ids=lambda subject: subject.name)
@pytest.mark.timeout(600)
async def test_three_turns_with_one_command_each(subject: Subject, installed: Installed, tmp_path: Path) -> None:
    """Each turn runs a tool, a compaction happens, the client ends well, the summary says so; no file of the user's changes."""
    stage = Stage(tmp_path, subject, await installed(subject.npm))
    script = [say("bare done"), *(reply for number in range(3) for reply in (subject.look(READ), say(f"turn {number} done")))]
    limit = str(subject.limit_tokens)
    async with ScriptedProvider(script, enforcing=True, counting=True, beside=titles_and_drafts) as provider:
        root = provider.url.removesuffix("/v1")
        untouched = digests(stage.home)
        alone = await stage.bare(root)
        assert (alone.exit_code, b"bare done" in alone.stdout) == (0, True), alone
        own = changed(untouched, digests(stage.home))
        before, asked_before = digests(stage.home), len(provider.requests) + len(provider.side_requests)
        ended = [
            await stage.run(turn, text, root, THREADKEEP_MODEL_AUTO_COMPACT_TOKEN_LIMIT=limit) for turn, text in enumerate(TURNS)
        ]
    assert [(end.exit_code, f"turn {number} done" in end.stdout.decode()) for number, end in enumerate(ended)] == [
        (0, True)
    ] * 3, ended
    assert provider.refusals == []
    conversation = [request.raw for request in provider.requests[1:]]
    assert STATE in conversation[-1]
    assert all(NOTES[-40:].strip().encode() in raw for raw in conversation[1::2])
    summaries = [end.stderr.decode() for end in ended]
    counted = [re.search(r"threadkeep: (\d+) requests?, (\d+) compactions?\n", text) for text in summaries]
    figures = [(int(found[1]), int(found[2])) for found in counted if found]
    assert len(figures) == 3, summaries
    drafts = sum(DRAFT in request.raw for request in provider.side_requests)
    asked = len(provider.requests) + len(provider.side_requests) - asked_before
    assert sum(requests for requests, _ in figures) == asked - drafts
    assert sum(compactions for _, compactions in figures) >= 1
    threads = {name for text in summaries for name in re.findall(r"threadkeep show (\S+)", text)}
    async with Threadkeep(Config(store=str(stage.home / OURS / "threadkeep.db"))) as tk:
        assert threads <= {thread.id for thread in await tk.threads()}
        assert (await tk.verify()).problems == ()
    after = digests(stage.home)
    assert changed(before, after) - own == {OURS}
    mine = [*subject.files, ".netrc"]
    assert {name: after[name] for name in mine} == {name: untouched[name] for name in mine}


def talker(name: str, npm: NpmClient, *words: str, files: Mapping[str, str] | None = None, **environment: str) -> Subject:
    """Return a client that only says something, once."""
    return Subject(
        name=name,
        npm=npm,
        look=say,
        first=words,
        then=words,
        files=files or {},
        limit_tokens=0,
        environment=environment,
    )


# As `cline auth anthropic` writes it.
CLINE_KEY = {
    "version": 1,
    "lastUsedProvider": "anthropic",
    "modes": {},
    "providers": {
        "anthropic": {
            "settings": {"provider": "anthropic", "apiKey": "sk-ant-mock", "model": "claude-sonnet-4-5"},
            "updatedAt": "2026-11-18T15:17:41.407Z",
            "tokenSource": "manual",
        }
    },
}
TALKERS = [
    talker("qwen", QWEN, "--auth-type", "openai", "{}", OPENAI_API_KEY="sk-mock", OPENAI_MODEL="qwen3-coder-plus"),
    talker("cline", CLINE, "{}", files={".cline/data/settings/providers.json": json.dumps(CLINE_KEY)}),
    talker("pi", PI_1_5, "-p", "{}", ANTHROPIC_API_KEY="sk-ant-mock", PI_OFFLINE="1"),
]


@pytest.mark.parametrize("subject", TALKERS, ids=lambda subject: subject.name)
@pytest.mark.timeout(600)
async def test_one_turn(subject: Subject, installed: Installed, tmp_path: Path) -> None:
    """The answer comes through, with the user's key; their settings stay as they are, and the summary names the thread."""
    node = await installed(NODE_22) if subject.npm.newer_node else None
    stage = Stage(tmp_path, subject, await installed(subject.npm), node)
    mine = {name: digests(stage.home)[name] for name in (*subject.files, ".netrc")}

    def answer(received: Received) -> Reply:
        return say("hello from afar")

    async with ScriptedProvider([], beside=answer) as provider:
        ended = await stage.run(0, "Say hello please.", provider.url.removesuffix("/v1"))
    assert (ended.exit_code, b"hello from afar" in ended.stdout) == (0, True), ended
    assert all(request.authorised for request in provider.side_requests)
    count = len(provider.side_requests)
    assert f"threadkeep: {count} request{'' if count == 1 else 's'}, 0 compactions\n" in ended.stderr.decode()
    assert {name: digests(stage.home)[name] for name in mine} == mine
