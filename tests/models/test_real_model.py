"""A real model, small and often wrong, at work on a real session: what holds must hold whatever it says."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from tests.models.local_model import LocalModel

from threadkeep import Config, Thread, Threadkeep
from threadkeep.compaction.fallback import TAKEN
from threadkeep.compaction.report import CompactionReport
from threadkeep.dialects import Request, find_dialect
from threadkeep.errors import ModelOverflow
from threadkeep.llm import open_model
from threadkeep.store import RecordKind

pytestmark = [pytest.mark.models, pytest.mark.anyio]

CORPUS = Path(os.environ.get("THREADKEEP_CORPUS") or Path(__file__).resolve().parents[3] / "shared" / "corpus")
SESSIONS = CORPUS / "taubench" / "gpt-4o-airline.runs1-20.json"
# Thirty messages of a real conversation with tools: a hop's share of it is read in about a minute.
SESSION = 15
HOPS = 5
# What is to be expected of a model this small, whose answers are not the same twice: one hop in five may go wrong.
MADE_BY_MODEL = {"session": 4, "handoff": 4}
# What a request may hold where the session takes two or three of them.
NARROW_TOKENS = 2_850

on_a_session = pytest.mark.skipif(
    not SESSIONS.exists(), reason="no sessions: set THREADKEEP_CORPUS to a folder that has taubench/"
)
CHAT = find_dialect("chat")
log = logging.getLogger(__name__)


def asking(messages: list[dict[str, Any]], **fields: Any) -> Request:
    """Return a request of these messages; temperature 0, so that a second run says the same."""
    request = CHAT.split(CHAT.parse({"messages": messages, "temperature": 0, **fields}).raw)
    assert request is not None
    return request


async def test_a_real_server_is_asked_and_its_cache_counted(served: LocalModel) -> None:
    """An answer comes back over the wire with its counts, and a prefix sent before is not read again."""
    rule = {"role": "system", "content": "You repeat the last word you are given, and say nothing else. " * 8}
    async with open_model(served.name, environ={}) as model:
        first = await model.ask(asking([rule, {"role": "user", "content": "threadkeep"}], max_tokens=8))
        second = await model.ask(asking([rule, {"role": "user", "content": "kelp"}], max_tokens=8))
    assert first.text
    assert first.input_tokens
    assert second.cached_tokens is not None
    assert second.cached_tokens > first.input_tokens // 2


async def test_a_request_that_does_not_fit_is_told_apart_with_the_limit(served: LocalModel) -> None:
    """The server's own words for an overflow are understood."""
    async with open_model(served.name, environ={}) as model:
        with pytest.raises(ModelOverflow) as caught:
            await model.ask(asking([{"role": "user", "content": "kelp " * 2 * served.context_tokens}]))
    assert caught.value.limit_tokens == served.context_tokens


@on_a_session
@pytest.mark.parametrize("strategy", ["session", "handoff"])
async def test_a_real_session_survives_five_compactions(served: LocalModel, strategy: str, tmp_path: Path) -> None:
    """Each hop shrinks the window, loses no record and no demand; most are the model's own; it goes on from what is left."""
    config = patient(tmp_path, window_tokens=served.context_tokens)
    async with Threadkeep(config) as tk:
        thread = await tk.thread("airline", dialect="chat")
        reports = [await hop(tk, thread, share, strategy=strategy, model=served) for share in shares(conversation(), HOPS)]
        window = await thread.window()
        assert await originals(thread) == conversation()
    by_model = [report for report in reports if report.strategy == strategy]
    assert len(by_model) >= MADE_BY_MODEL[strategy], "\n".join(map(figures, reports))
    assert (await answered(served, window)).strip()


@on_a_session
@pytest.mark.parametrize("strategy", ["session", "handoff"])
async def test_a_span_larger_than_the_model_takes_is_drafted_in_stages(served: LocalModel, strategy: str, tmp_path: Path) -> None:
    """With a window smaller than the session the model is asked part by part; each part fits, and the promises hold.

    Whether so small a model finds an end to every part is its own affair: where it does not, that is on record.
    """
    config = patient(tmp_path, window_tokens=NARROW_TOKENS)
    async with Threadkeep(config) as tk:
        thread = await tk.thread("airline", dialect="chat")
        report = await hop(tk, thread, conversation(), strategy=strategy, model=served)
        assert await originals(thread) == conversation()
    first, told = report.attempts[0], figures(report)
    assert (first.outcome, report.strategy) in ((TAKEN, strategy), ("looping", "extractive")), told
    assert 2 <= first.calls <= 3 or first.outcome != TAKEN, told
    # Each request and its answer fit, so together they do; a server that counts nothing would prove nothing.
    assert 0 < (first.input_tokens or 0) + (first.output_tokens or 0) <= first.calls * NARROW_TOKENS, told


def patient(folder: Path, *, window_tokens: int) -> Config:
    """Return how to compact with a model that is small and slow: on a machine that does other things too, slower still."""
    return Config(store=str(folder / "threads.db"), model_context_window=window_tokens, compact_timeout_s=3_600)


def conversation() -> list[dict[str, Any]]:
    """Return the session. The host's own instructions are no part of it: they go in front of every window anew."""
    session = json.loads(SESSIONS.read_text(encoding="utf-8"))[SESSION]["traj"]
    return [message for message in session if message["role"] != "system"]


async def hop(
    tk: Threadkeep, thread: Thread, messages: list[dict[str, Any]], *, strategy: str, model: LocalModel
) -> CompactionReport:
    """Record a share of the session and compact; return the report, having checked what must hold whatever the model says."""
    await thread.record(messages)
    report = await thread.compact(strategy=strategy, model=model.name, target="50%")
    audit, last = report.audit.counts(), report.attempts[-1]
    told = figures(report)
    log.info("%s", told)
    assert report.tokens_after < report.tokens_before, told
    assert audit["kept"] + audit["repaired"] == audit["required"], told
    assert (await tk.verify(thread)).problems == ()
    # Who made it is told as it was: the first attempt is the strategy's, which asked the model unless all there was to tell is
    # pending, and only the last was taken.
    first = report.attempts[0]
    assert (first.strategy, first.calls > 0) == (strategy, first.outcome != "nothing_to_tell"), told
    assert [tried.outcome == "taken" for tried in report.attempts] == [tried is last for tried in report.attempts], told
    assert (last.strategy, report.fell_back_from) == (report.strategy, None if last.strategy == strategy else strategy), told
    return report


async def originals(thread: Thread) -> list[dict[str, Any]]:
    """Return what was recorded, as the records have it."""
    return [json.loads(record.body) for record in await thread.records() if record.kind is RecordKind.ITEM]


def shares(messages: list[dict[str, Any]], count: int) -> list[list[dict[str, Any]]]:
    """Return the messages in that many runs of about one size, each beginning with a person's message but for the first."""
    sizes = [len(json.dumps(message)) for message in messages]
    cuts: list[int] = []
    passed = 0
    for index, message in enumerate(messages):
        if message["role"] == "user" and passed >= sum(sizes) * (len(cuts) + 1) / count:
            cuts.append(index)
        passed += sizes[index]
    assert len(cuts) == count - 1
    return [messages[start:end] for start, end in zip([0, *cuts], [*cuts, len(messages)], strict=True)]


def figures(report: CompactionReport) -> str:
    """Return a compaction on one line: who made it, what it did, every attempt with its cost and why it was not taken."""
    attempts = "; ".join(
        f"{tried.strategy} {tried.outcome}: {tried.calls} calls, {tried.input_tokens} in ({tried.cached_tokens} cached), "
        f"{tried.output_tokens} out, {tried.took_ms} ms"
        for tried in report.attempts
    )
    window = f"{report.tokens_before} to {report.tokens_after} tokens"
    return f"made by {report.strategy}, {window}, {report.audit.counts()}; {attempts}"


async def answered(served: LocalModel, window: list[dict[str, Any]]) -> str:
    """Return what the model says to a window and one more question."""
    question = {"role": "user", "content": "In one sentence: what did I ask you to do?"}
    async with open_model(served.name, environ={}) as model:
        reply = await model.ask(asking([*window, question], max_tokens=60))
    log.info("asked what it was asked to do, it says: %s", reply.text)
    return reply.text
