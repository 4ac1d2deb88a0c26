"""Compactions nobody asked for: before a window is full, and after a provider said that it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.clients.play import DEMANDS, LONG_ASK
from tests.clients.spelling import BETWEEN, steady
from tests.clients.subjects import SUBJECTS, Installed, opening_of
from tests.clients.test_own_compaction import SUMMARY, beside
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, Reply, http_error, say
from tests.drivers.gateway_process import gateway_process

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

STATE = b"session_compact_state"
# What each client sends beside a conversation, in tokens, give or take a few hundred.
BASES = {
    "codex 0.166.0": 9_900,
    "opencode responses": 7_300,
    "claude code, newest model": 11_700,
    "pi messages": 1_450,
    "openai sdk chat": 100,
    "anthropic sdk": 100,
}
# More than one long message, less than two.
ROOM = 7_000
OVERFLOWS = {
    "responses": ("Your input exceeds the context window of this model.", "context_length_exceeded"),
    "chat": ("This model's maximum context length is 1000 tokens.", "context_length_exceeded"),
    "messages": ("prompt is too long: 210000 tokens > 200000 maximum", None),
}


def overflow(wire: str) -> Reply:
    text, code = OVERFLOWS[wire]
    return http_error(400, text, code=code)


def newest(wire: str, request: Received) -> str:
    """Return the last words of a request that are a person's."""
    said = [item for item in request.history if item.get("role") == "user"][-1]
    words: str = [part["text"] for part in steady("chat" if wire == "chat" else "messages", said)["content"]][-1]
    # Where a client writes strings, the state, what was said before and what is said now are one, with a line between them.
    return words.split(BETWEEN)[-1]


def allowed(folder: Path, *, window: int | None = None) -> tuple[str, str]:
    """Return the flags of a gateway that compacts by itself, Claude Code's conversations too, which need a word of their own."""
    windows = "" if window is None else f"model_context_window = {window}\n"
    (folder / "threadkeep.toml").write_text(f'{windows}[auto_compact_for]\nclaude-code = "on"\n')
    return "--auto-compact", "on"


@pytest.mark.parametrize("name", BASES)
async def test_a_full_window_is_compacted_before_the_turn_goes_out(name: str, installed: Installed, tmp_path: Path) -> None:
    """The turn that would not fit is sent with a compacted window and answered in the same request; the next extends it."""
    subject = SUBJECTS[name]
    opening = await opening_of(subject, installed)
    script = [say("one done"), say("two done"), say("three done"), say("four done")]
    strict = subject.wire != "responses"
    flags = allowed(tmp_path, window=(BASES[name] + ROOM) * 10 // 9)
    async with (
        ScriptedProvider(script, enforcing=True, alternating=strict, counting=True, beside=beside) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url, flags=flags) as gateway,
        opening(tmp_path, gateway.base_url) as talk,
    ):
        answers = [await talk.say(text) for text in (DEMANDS, LONG_ASK, f"THREE {LONG_ASK}", "FOUR")]
    assert answers == ["one done", "two done", "three done", "four done"]
    assert provider.refusals == []
    assert [STATE in request.raw for request in provider.requests] == [False, False, True, True]
    assert [newest(subject.wire, request) for request in provider.requests[2:]] == [f"THREE {LONG_ASK}", "FOUR"]


@pytest.mark.parametrize("name", [name for name in BASES if not name.startswith("opencode")])
async def test_a_provider_s_overflow_is_answered_with_a_compacted_window(name: str, installed: Installed, tmp_path: Path) -> None:
    """The client sees nothing of the refusal: the request goes out again, smaller, and its answer is relayed."""
    subject = SUBJECTS[name]
    opening = await opening_of(subject, installed)
    script = [say("one done"), say("two done"), say("three done"), overflow(subject.wire), say("four done")]
    async with (
        ScriptedProvider(script, enforcing=True, alternating=subject.wire != "responses", beside=beside) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url, flags=allowed(tmp_path)) as gateway,
        opening(tmp_path, gateway.base_url) as talk,
    ):
        answers = [await talk.say(text) for text in (DEMANDS, LONG_ASK, "THREE", "FOUR")]
    assert answers == ["one done", "two done", "three done", "four done"]
    assert provider.refusals == []
    assert [STATE in request.raw for request in provider.requests] == [False, False, False, False, True]
    assert [newest(subject.wire, request) for request in provider.requests[3:]] == ["FOUR", "FOUR"]


@pytest.mark.moves_prefix(reason="the client begins its history anew with a summary")
@pytest.mark.parametrize("name", ["opencode responses", "claude code, newest model"])
async def test_a_client_helps_itself_where_the_gateway_may_not(name: str, installed: Installed, tmp_path: Path) -> None:
    """Without leave to compact, the provider's own words reach the client, which compacts by itself and goes on.

    For Claude Code it takes more than the switch for all clients.
    """
    subject = SUBJECTS[name]
    opening = await opening_of(subject, installed)
    flags = ("--auto-compact", "on" if name.startswith("claude") else "off")
    script = [say("one done"), say("two done"), overflow(subject.wire), say("three done"), say("four done")]
    async with (
        ScriptedProvider(script, beside=beside) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url, flags=flags) as gateway,
        opening(tmp_path, gateway.base_url) as talk,
    ):
        answers = [await talk.say(text) for text in (DEMANDS, LONG_ASK, "THREE", "FOUR")]
    assert answers == ["one done", "two done", "three done", "four done"]
    assert [STATE in request.raw for request in provider.requests] == [False] * 5
    assert [SUMMARY.encode() in request.raw for request in provider.requests[3:]] == [True, True]
