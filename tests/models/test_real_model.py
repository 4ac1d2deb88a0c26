"""A real model, small and often wrong, at work on a real session: what holds must hold whatever it says."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Holdfast
from holdfast.dialects import Request, dialect_named
from holdfast.errors import ModelOverflow
from holdfast.llm import open_model
from holdfast.runtime.reports import CompactionReport
from holdfast.store import RecordKind
from holdfast.testing.local_model import LocalModel

pytestmark = [pytest.mark.models, pytest.mark.anyio]

CORPUS = Path(os.environ.get("HOLDFAST_CORPUS") or Path(__file__).resolve().parents[3] / "shared" / "corpus")
SESSIONS = CORPUS / "taubench" / "gpt-4o-airline.runs1-20.json"
# Thirty messages of a real conversation with tools: a hop's share of it is read in about a minute.
SESSION = 15
HOPS = 5

CHAT = dialect_named("chat")
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
        first = await model.ask(asking([rule, {"role": "user", "content": "holdfast"}], max_tokens=8))
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


@pytest.mark.skipif(not SESSIONS.exists(), reason="no sessions: set HOLDFAST_CORPUS to a folder that has taubench/")
@pytest.mark.parametrize("strategy", ["session", "handoff"])
async def test_a_real_session_survives_five_compactions(served: LocalModel, strategy: str, tmp_path: Path) -> None:
    """Each hop shrinks the window, loses no record and no demand; the model goes on from what is left."""
    # The host's own instructions are no part of a history: they go in front of every window anew.
    session = json.loads(SESSIONS.read_text(encoding="utf-8"))[SESSION]["traj"]
    messages = [message for message in session if message["role"] != "system"]
    store = str(tmp_path / "threads.db")
    # On a machine that does other things too, a model this slow needs longer than a person would wait.
    config = Config(store=store, model_context_window=served.context_tokens, compact_timeout_s=3_600)
    reports: list[CompactionReport] = []
    async with Holdfast(config) as hf:
        thread = await hf.thread("airline", dialect="chat")
        for share in shares(messages, HOPS):
            await thread.record(share)
            began = time.monotonic()
            reports.append(await thread.compact(strategy=strategy, model=served.name, target="50%"))
            tell(reports[-1], seconds=time.monotonic() - began)
            verdict = await hf.verify(thread)
            assert verdict.problems == ()
        window = await thread.window()
        originals = [json.loads(record.body) for record in await thread.records() if record.kind is RecordKind.ITEM]
    assert [report.tokens_after < report.tokens_before for report in reports] == [True] * HOPS
    audits = [report.audit.counts() for report in reports]
    assert [audit["kept"] + audit["repaired"] for audit in audits] == [audit["required"] for audit in audits]
    assert [any(tried.calls for tried in report.attempts) for report in reports] == [True] * HOPS
    assert strategy in {report.strategy for report in reports}
    assert originals == messages
    assert (await answered(served, window)).strip()


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


def tell(report: CompactionReport, *, seconds: float) -> None:
    """Put the figures of a hop into the log."""
    attempts = [
        f"{tried.strategy}: {tried.outcome}, {tried.calls} calls, {tried.input_tokens} in ({tried.cached_tokens} cached), "
        f"{tried.output_tokens} out, {tried.took_ms} ms"
        for tried in report.attempts
    ]
    window = f"{report.tokens_before} to {report.tokens_after} tokens"
    log.info("%s: %s in %.0f s, %s; %s", report.strategy, window, seconds, report.audit.counts(), attempts)


async def answered(served: LocalModel, window: list[dict[str, Any]]) -> str:
    """Return what the model says to a window and one more question."""
    question = {"role": "user", "content": "In one sentence: what did I ask you to do?"}
    async with open_model(served.name, environ={}) as model:
        reply = await model.ask(asking([*window, question], max_tokens=60))
    log.info("asked what it was asked to do, it says: %s", reply.text)
    return reply.text
