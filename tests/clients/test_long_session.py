"""A working day with each client: its default model, started by `threadkeep run`, many compactions, a crash, a resume.

The provider looks at every request it receives and refuses, as the real one, what a real one would; beside that it refuses what
lost a tool or a word of the user's rules. The window is small, so that a short session compacts often.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout
from tests.clients.conftest import Installed
from tests.clients.test_own_compaction import ASKING
from tests.clients.test_run import (
    CLAUDE,
    CODEX,
    DRAFT,
    DRAFTED,
    OPENCODE_SUBJECT,
    OURS,
    TURN_SECONDS,
    Stage,
    Subject,
    run_shell,
)
from tests.doubles.prefix_growth import prefix_faults
from tests.doubles.provider import ScriptedProvider
from tests.doubles.provider_rules import Fault
from tests.doubles.script import JsonObject, Received, Reply, call, message, reasoning, say
from tests.doubles.wires import wire_of
from tests.drivers.codex_app_server import AppServer
from tests.drivers.npm import NODE_22, PI_1_5
from tests.drivers.opencode import Opencode, listening
from tests.drivers.pi import Pi
from tests.drivers.process import Ended, piped_process

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.clients,
    pytest.mark.moves_prefix(reason="the client begins its history anew with a summary"),
]

RULES = (
    "Never touch vendor/ — not even `just once`.\nAlways write commit messages in the imperative.",
    "From now on, never push to main; open a pull request instead.",
)
FACT = "The staging database is called heron-42 and listens on 7443."
SUMMARY = "## Goal\nRead the lists.\n\n## Next\nGo on where we were."
# How much a command tells, and a file.
NUMBERS, LINES = 1_400, 300
TITLE = b"You are a title generator"
OVERFLOWS = {
    "responses": ("Your input exceeds the context window of this model.", "context_length_exceeded"),
    "chat": ("This model's maximum context length is {window} tokens.", "context_length_exceeded"),
    "messages": ("prompt is too long: {size} tokens > {window} maximum", None),
}


def say_what_is_read(body: Any) -> Iterator[str]:
    """Yield every text in a request, as the model gets it."""
    if isinstance(body, str):
        yield body
    elif isinstance(body, dict | list):
        for each in body.values() if isinstance(body, dict) else body:
            yield from say_what_is_read(each)


@dataclass(slots=True, kw_only=True)
class Standing:
    """What must stand in every request of the session: its rules so far, and all tools of its first request."""

    window_tokens: int
    rules: list[str] = field(default_factory=list)
    tools: list[str] | None = None

    def __call__(self, received: Received) -> Fault | None:
        size = len(received.raw) // 4
        if size > self.window_tokens:
            text, code = OVERFLOWS[str(wire_of(received))]
            return Fault(text.format(size=size, window=self.window_tokens), "input", code)
        # A title needs no rules, and a draft of the state is ours.
        if TITLE in received.raw or DRAFT in received.raw:
            return None
        # Retelling the conversation for a summary, a client leaves out what it keeps.
        if any(words in received.raw for words in RETELLING):
            return None
        texts = list(say_what_is_read(received.body))
        lost = [rule for rule in self.rules if not any(rule in text for text in texts)]
        if lost:
            return Fault(f"lost what the user demanded: {lost}", "input")
        tools = [json.dumps(tool, sort_keys=True) for tool in tools_of(received)]
        self.tools = self.tools or tools
        if not tools or tools != self.tools:
            return Fault(f"tools changed: {len(self.tools)} at first, {len(tools)} now", "tools")
        return None


RETELLING = ASKING[:2]


def tools_of(received: Received) -> list[JsonObject]:
    """Return the tools of a request, wherever its API has them."""
    added = [tool for item in received.history[:1] if item.get("type") == "additional_tools" for tool in item["tools"]]
    return [*received.body.get("tools", []), *added]


def is_compaction(received: Received) -> bool:
    """Whether a client asks for a summary of its own."""
    metadata = json.loads(received.headers.get("x-codex-turn-metadata", "{}"))
    return metadata.get("request_kind") == "compaction" or any(words in received.raw for words in ASKING)


def beside(received: Received) -> Reply | None:
    """Answer what is asked beside the conversation: a title, the client's own summary, our draft of a state."""
    if TITLE in received.raw:
        return say("A title")
    if DRAFT in received.raw:
        return say(DRAFTED)
    return say(f"<summary>{SUMMARY}</summary>") if is_compaction(received) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client in this test: what its model's tools are called, and how it compacts by itself.

    Attributes:
        act: The call of a tool that runs a command, writes a file or reads one, by a running number.
        compact: Has the client compact the session, in its own process.
    """

    subject: Subject
    window_tokens: int
    act: Callable[[int], JsonObject]
    compact: Callable[[Stage, str, dict[str, str], Received], Awaitable[None]]


def list_numbers(number: int) -> str:
    return f"seq {number * 10_000} {number * 10_000 + NUMBERS}"


def use(name: str, **arguments: str) -> JsonObject:
    return dict(call(name, arguments).items[0])


def act_in_claude(number: int) -> JsonObject:
    file, text = name_file(number), list_lines(number)
    shell = use("Bash", command=list_numbers(number), description="look")
    return (shell, use("Write", file_path=file, content=text), use("Read", file_path=file))[number % 3]


def act_in_codex(number: int) -> JsonObject:
    """Return what Codex' default models write: a script that calls the tools."""
    file, shell = name_file(number), list_numbers(number)
    command = json.dumps((shell, f"{shell} > {file}", f"cat {file}")[number % 3])
    script = f"const done = await tools.exec_command({{cmd: {command}}}); text(done.output);"
    return {"type": "custom_tool_call", "name": "exec", "input": script}


def act_in_opencode(number: int) -> JsonObject:
    file, shell = name_file(number), use("bash", command=list_numbers(number), description="look")
    added = "\n".join(f"+{line}" for line in list_lines(number).splitlines())
    patch = f"*** Begin Patch\n*** Add File: {file}\n{added}\n*** End Patch"
    return (shell, use("apply_patch", patchText=patch), use("read", filePath=file))[number % 3]


def act_in_pi(number: int) -> JsonObject:
    file, shell = name_file(number), use("bash", command=list_numbers(number))
    return (shell, use("write", path=file, content=list_lines(number)), use("read", path=file))[number % 3]


def name_file(number: int) -> str:
    return f"list-{number // 3}.txt"


def list_lines(number: int) -> str:
    return "\n".join(f"{number} line {line}" for line in range(LINES))


async def compact_claude(stage: Stage, root: str, settings: dict[str, str], first: Received) -> None:
    ended = await stage.run(1, "/compact", root, **settings)
    assert ended.exit_code == 0, ended


async def compact_codex(stage: Stage, root: str, settings: dict[str, str], first: Received) -> None:
    words, environment = stage.through_us(("app-server",), root, **settings)
    thread_id = first.headers["thread-id"]
    async with piped_process(words, cwd=stage.work, environment=environment, log=stage.home / "app-server.log") as process:
        server = AppServer(process)
        await server.initialize()
        await server.resume(thread_id)
        assert (await server.compact(thread_id)).status == "completed"
        await server.close()


async def compact_opencode(stage: Stage, root: str, settings: dict[str, str], first: Received) -> None:
    words, environment = stage.through_us(("serve", "--port", "0", "--hostname", "127.0.0.1"), root, **settings)
    model = {"providerID": "openai", "modelID": first.body["model"]}
    async with (
        piped_process(words, cwd=stage.work, environment=environment, log=stage.home / "opencode.log") as process,
        ClientSession(timeout=ClientTimeout(total=TURN_SECONDS)) as session,
    ):
        server = Opencode(session, url=await listening(process), model=model)
        await server.summarize(first.headers["x-session-id"])


async def compact_pi(stage: Stage, root: str, settings: dict[str, str], first: Received) -> None:
    words, environment = stage.through_us(("-c", "--mode", "rpc"), root, **settings)
    async with piped_process(words, cwd=stage.work, environment=environment, log=stage.home / "pi.log") as process:
        await Pi(process).compact()


CLIENTS = [
    Client(
        subject=CLAUDE,
        window_tokens=26_000,
        act=act_in_claude,
        compact=compact_claude,
    ),
    Client(subject=CODEX, window_tokens=30_000, act=act_in_codex, compact=compact_codex),
    Client(
        subject=OPENCODE_SUBJECT,
        window_tokens=24_000,
        act=act_in_opencode,
        compact=compact_opencode,
    ),
    Client(
        subject=Subject(
            name="pi",
            npm=PI_1_5,
            look=run_shell("bash"),
            first=("-p", "{}"),
            then=("-p", "-c", "{}"),
            files={},
            limit_tokens=0,
            environment={"ANTHROPIC_API_KEY": "sk-ant-mock", "PI_OFFLINE": "1"},
        ),
        window_tokens=16_000,
        act=act_in_pi,
        compact=compact_pi,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a person says in a process of its own, how many tools the model uses, and what it answers; None is cut off."""

    text: str
    acts: int
    answer: str | None


TURNS = (
    Turn(text=f"{RULES[0]}\n{FACT} Read the lists.", acts=15, answer="one done"),
    Turn(text=f"{RULES[1]} Go on.", acts=15, answer="two done"),
    Turn(text="Go on with the rest.", acts=12, answer="three done"),
    Turn(text="And the last ones.", acts=4, answer=None),
    Turn(text="You were cut off. Go on.", acts=12, answer="five done"),
)
COMPACTED_BEFORE = 2
AUTOMATIC = 10


def write_script(client: Client, hold: asyncio.Event) -> list[Reply]:
    """Return what the model says in all turns, thinking each time."""
    acts = iter(range(sum(turn.acts for turn in TURNS)))
    script = []
    for turn in TURNS:
        script += [
            Reply(items=(reasoning(f"sealed {number}", summary=f"look at {number}"), client.act(number)))
            for number in (next(acts) for _ in range(turn.acts))
        ]
        thought, said = reasoning(f"sealed: {turn.answer}", summary="so it is"), message(turn.answer or "I was about to")
        # A client whose gateway dies behind a thought sends the thought alone, which a provider refuses, with us or without.
        script.append(Reply(items=(thought, said)) if turn.answer else Reply(items=(said,), hold=hold))
    return script


def kill_gateway(store: Path) -> None:
    """Kill the gateway of a run as a power cut would."""
    found = subprocess.run(("pgrep", "-f", f"serve .*--store {store}"), stdout=subprocess.PIPE, check=True)
    for pid in found.stdout.split():
        os.kill(int(pid), signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """What came of a session: how its turns ended, what the provider received, and how many requests were the client's own."""

    ended: Sequence[Ended]
    provider: ScriptedProvider
    before_summary: int


async def live_through(client: Client, stage: Stage, store: Path) -> Day:
    """Let a person say all turns, each in its own process; the client compacts in between, and one turn loses its gateway."""
    standing, hold = Standing(window_tokens=client.window_tokens), asyncio.Event()
    settings = {"THREADKEEP_MODEL_CONTEXT_WINDOW": str(client.window_tokens), "THREADKEEP_STORE": str(store)}
    script = write_script(client, hold)
    ended: list[Ended] = []
    before_summary = 0
    async with ScriptedProvider(script, enforcing=True, counting=True, beside=beside, refusing=standing) as provider:
        root = provider.url.removesuffix("/v1")
        for number, turn in enumerate(TURNS):
            if number == COMPACTED_BEFORE:
                before_summary = len(provider.requests)
                await client.compact(stage, root, settings, provider.requests[0])
            standing.rules += [line for rule in RULES if rule in turn.text for line in rule.splitlines()]
            running = asyncio.ensure_future(stage.run(number, turn.text, root, **settings))
            if turn.answer is None:
                await provider.arrived(len(provider.requests) + turn.acts + 1)
                kill_gateway(store)
                # It asks again for a moment, in vain; then the person gives up.
                await asyncio.wait([running], timeout=1)
                running.cancel()
                await asyncio.wait([running])
            else:
                ended.append(await running)
                assert provider.refusals == [], ended[-1]
    return Day(ended=ended, provider=provider, before_summary=before_summary)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.subject.name)
@pytest.mark.timeout(600)
async def test_a_long_session(client: Client, installed: Installed, tmp_path: Path) -> None:
    """Tools, rules and pairs stand in every request, and all fit, through ten compactions, the client's own, and a crash."""
    node = await installed(NODE_22) if client.subject.npm.newer_node else None
    stage = Stage(tmp_path, client.subject, await installed(client.subject.npm), node)
    store = stage.home / OURS / "threadkeep.db"
    day = await live_through(client, stage, store)
    answers = [turn.answer for turn in TURNS if turn.answer]
    ends = [(end.exit_code, answer in end.stdout.decode()) for end, answer in zip(day.ended, answers, strict=True)]
    assert ends == [(0, True)] * len(answers), day.ended
    provider, requests = day.provider, day.provider.requests
    assert provider.refusals == []
    assert any(is_compaction(request) for request in provider.side_requests)
    before, after = requests[: day.before_summary], requests[day.before_summary :]
    assert [any(SUMMARY in text for text in say_what_is_read(part)) for part in (before[-1].body, after[0].body)] == [False, True]
    assert [prefix_faults(part) for part in (before, after)] == [[], []]
    assert any(b'"signature"' in request.raw or b'"encrypted_content":"sealed' in request.raw for request in requests)

    def ask(*words: str) -> Any:
        command = (sys.executable, "-m", "threadkeep.cli", "--store", str(store), "--json", *words)
        return json.loads(subprocess.run(command, env=stage.environment(), stdout=subprocess.PIPE, check=True).stdout)

    assert ask("verify")["problems"] == []
    threads = ask("threads")["threads"]
    assert [thread["parent"] for thread in threads].count(None) == 1
    assert sum(thread["checkpoints"] for thread in threads) > AUTOMATIC
    assert FACT in json.dumps(ask("recall", threads[0]["id"], "staging database"))
