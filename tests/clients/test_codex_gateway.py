"""The real Codex CLI through `threadkeep serve`: what the provider received, asserted whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, Reply, call, message, reasoning, say
from tests.drivers.codex import CodexCli, CodexRun
from tests.drivers.gateway_process import gateway_process

from threadkeep import Config, Threadkeep

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

CodexAt = Callable[[str], CodexCli]
HEAD_ITEMS = {"0.150.1": 1, "0.166.0": 2}

DEMANDS = "Never touch vendor/. Staging listens on 7443. Begin with the readme."
LONG_ASK = "Run the check. " + "The build log follows for reference. " * 400

# In the state it has its beginning and its end, and how much stood between.
GOAL = f"{LONG_ASK[:798]} [… 13,617 characters …] {LONG_ASK.strip()[-399:]}"

STATE = f"""\
The earlier part of this session was compacted. This is its record, not a new request: the user's own words in order, the later \
one decides; `agent:` marks what you found out. #N names a record. The user's messages behind it were said before, too; only the \
last one waits for an answer.

<session_compact_state>
Objective:
- {DEMANDS} (#4)
- {GOAL} (#8)

Active Memory:
- none

Inactive Changes:
- none

Current Handoff:
- the user asked to keep in focus: mind the port

Evidence Pointers:
- none
</session_compact_state>"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A conversation of seven turns and a command through a gateway that was killed in the middle, and what came of it."""

    runs: tuple[CodexRun, ...]
    requests: tuple[Received, ...]
    store: Path


def script() -> list[Reply]:
    shell = {"cmd": "echo anchored"}
    return [
        say("one done"),
        Reply(
            items=(
                reasoning("SEALED", summary="a thought"),
                message("Running it.", phase="commentary"),
                *call("exec_command", shell, call_id="call_1").items,
            )
        ),
        say("two done"),
        say("three done"),
        say("four done"),
        call("exec_command", {"cmd": "echo still anchored"}, call_id="call_2"),
        say("five done"),
        say("six done"),
        say("seven done"),
    ]


@pytest.fixture
async def played(codex_at: CodexAt, tmp_path: Path) -> Played:
    """Three turns, one with a command that really runs; `/compact`; three more; kill -9, restart; resume for the seventh."""
    store = tmp_path / "threadkeep.db"
    runs: list[CodexRun] = []
    async with ScriptedProvider(script(), enforcing=True) as provider:
        async with gateway_process(store, upstream=provider.url) as gateway:
            codex = codex_at(gateway.base_url)
            runs.append(await codex.exec(DEMANDS))
            runs.extend(
                [await codex.resume(text) for text in (LONG_ASK, "THREE", "/compact mind the port", "FOUR", "FIVE", "SIX")]
            )
            await gateway.kill()
        async with gateway_process(store, upstream=provider.url) as gateway:
            runs.append(await codex_at(gateway.base_url).resume("SEVEN", thread_id=runs[0].thread_id))
    return Played(runs=tuple(runs), requests=tuple(provider.requests), store=store)


def bare(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item without what Codex generates or adds at will: ids, status, empty annotations, null content."""
    kept = {key: value for key, value in item.items() if key not in ("id", "status") and (key, value) != ("content", None)}
    if isinstance(kept.get("content"), list):
        parts = [
            {key: value for key, value in part.items() if key not in ("annotations", "logprobs")} for part in kept["content"]
        ]
        kept["content"] = parts
    if kept.get("type") == "function_call_output":
        kept["output"] = kept["output"].split("Output:\n")[-1]
    return kept


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def assistant(text: str, **fields: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **fields}


def ran(command: str, printed: str, *, call_id: str) -> list[dict[str, Any]]:
    arguments = f'{{"cmd": "{command}"}}'
    return [
        {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": call_id},
        {"type": "function_call_output", "call_id": call_id, "output": printed},
    ]


async def test_every_turn_is_answered_and_compact_by_the_gateway(played: Played) -> None:
    """Codex notices nothing: each run ends well, `/compact` is answered without the provider, the kill costs no turn."""
    assert [run.exit_code for run in played.runs] == [0] * 8
    answers = [run.last_message for run in played.runs]
    assert [*answers[:3], *answers[4:]] == [
        "one done",
        "two done",
        "three done",
        "four done",
        "five done",
        "six done",
        "seven done",
    ]
    told = (answers[3] or "").splitlines()
    assert re.fullmatch(r"Compacted: 4,\d{3} → (?:1,)?\d{3} tokens \(\d\d % smaller\), 0 model calls\.", told[0])
    assert told[1] == "4 things had to survive; all of them did."


async def test_what_the_provider_received(played: Played, codex_version: str) -> None:
    """Whole histories, request by request: the client's own until `/compact`, then head, state and everything after it."""
    head = HEAD_ITEMS[codex_version]
    received = [[bare(item) for item in request.input] for request in played.requests]
    opening = received[0][: head + 1]
    assert [item["role"] for item in opening] == ["developer"] * head + ["user"]
    assert opening[head]["content"][0]["text"].startswith("<environment_context>")
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a thought"}], "encrypted_content": "SEALED"}
    before = [*opening, user(DEMANDS)]
    second = [*before, assistant("one done"), user(LONG_ASK)]
    tool = [thought, assistant("Running it.", phase="commentary"), *ran("echo anchored", "anchored\n", call_id="call_1")]
    third = [*second, *tool, assistant("two done"), user("THREE")]
    kept = [*tool, assistant("two done"), user("THREE")]
    compacted = [*opening, user(STATE), *kept, assistant("three done"), user("FOUR")]
    fifth = [*compacted, assistant("four done"), user("FIVE")]
    after_tool = [*fifth, *ran("echo still anchored", "still anchored\n", call_id="call_2")]
    sixth = [*after_tool, assistant("five done"), user("SIX")]
    seventh = [*sixth, assistant("six done"), user("SEVEN")]
    assert received == [before, second, [*second, *tool], third, compacted, fifth, after_tool, sixth, seventh]


async def test_nothing_but_the_history_is_touched(played: Played) -> None:
    """Model, tools, instructions, cache key and credentials go out as the client sent them, before and after."""
    keys = ("model", "tools", "instructions", "prompt_cache_key", "store", "include", "reasoning", "tool_choice")
    first = {key: played.requests[0].body.get(key) for key in keys}
    assert [{key: request.body.get(key) for key in keys} for request in played.requests] == [first] * len(played.requests)
    assert first["prompt_cache_key"] == played.runs[0].thread_id
    assert all(request.authorised for request in played.requests)


async def test_the_command_and_its_answer_never_reach_the_model(played: Played) -> None:
    """Neither `/compact` nor what the gateway said about it stands in any request."""
    assert [
        request.path for request in played.requests if b"/compact" in request.raw or b"things had to survive" in request.raw
    ] == []


async def test_everything_is_on_record_after_the_kill(played: Played) -> None:
    """One thread holds the whole conversation, proves itself, and gives the oldest words back."""
    async with Threadkeep(Config(store=str(played.store))) as tk:
        summaries = await tk.threads()
        verdict = await tk.verify()
        thread = await tk.find(summaries[0].id)
        recalled = await thread.recall("#4")
    assert [(summary.turns, summary.checkpoints, summary.title) for summary in summaries] == [(7, 1, DEMANDS)]
    assert verdict.ok
    assert [hit.text for hit in recalled] == [DEMANDS]
