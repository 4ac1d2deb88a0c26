"""Threads can be looked at, compacted and watched from outside the conversation, by whoever may."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from threadkeep.client import Config, Threadkeep
from threadkeep.errors import StoreFull, ThreadkeepError
from threadkeep.gateway.control.tenants import Tenants
from threadkeep.gateway.error_statuses import STATUSES, find_status
from threadkeep.gateway.http.keys import Keys, digest_key
from threadkeep.gateway.http.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import ClientResponse
    from tests.gateway.conftest import Proxy, ProxyWith

    from threadkeep.dialects import Dialect
    from threadkeep.gateway.control.tenants import OpenConversations

TOKEN = "token-of-the-control-api"
AUTHORISED = {"Authorization": f"Bearer {TOKEN}"}
KEY = "tkk_other"


@pytest.fixture
async def tk(anyio_backend: str) -> AsyncIterator[Threadkeep]:
    """A store with one thread of some length."""
    async with Threadkeep(Config(store="memory:", model_context_window=20_000)) as opened:
        thread = await opened.thread("ship-it")
        for number in range(12):
            await thread.record([{"role": "user", "content": f"Rule {number}: never touch file_{number}.py. " + "word " * 300}])
            await thread.record([{"role": "assistant", "content": [{"type": "output_text", "text": "Noted. " + "fine " * 300}]}])
        yield opened


def nobody(store: Threadkeep, dialect: Dialect) -> OpenConversations:
    raise AssertionError


@pytest.fixture
async def steered(tk: Threadkeep, proxy_with: ProxyWith) -> AsyncIterator[Proxy]:
    """A gateway with a control API and one key besides its token."""
    metrics = Metrics()
    tenants = Tenants(tk, conversing=nobody, metrics=metrics)
    keys = Keys({digest_key(KEY): "other"})
    settings: dict[str, Any] = {
        "stores": tenants.store,
        "control_token": TOKEN,
        "metrics": metrics,
        "ready": tenants.check_writable,
    }
    async with proxy_with(keys=keys, **settings) as proxy:
        yield proxy


async def call(proxy: Proxy, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body)
    sent = AUTHORISED | headers
    async with proxy.client.request(method, f"{proxy.url}/threadkeep/v1/{path}", data=data, headers=sent) as answer:
        return answer.status, await answer.json()


@pytest.mark.anyio
async def test_threads_are_listed(steered: Proxy) -> None:
    """The list has the keys of `threadkeep threads --json`."""
    status, told = await call(steered, "GET", "threads?limit=5")
    [thread] = told["threads"]
    assert (status, thread["id"], thread["dialect"], thread["turns"], thread["checkpoints"]) == (
        200,
        "ship-it",
        "responses",
        12,
        0,
    )
    assert {"title", "records", "tokens", "updated_at_ms", "parent"} <= set(thread)


@pytest.mark.anyio
async def test_a_thread_is_compacted_looked_at_and_restored(steered: Proxy) -> None:
    """Compact shrinks the window and writes the state; undo brings the window back."""
    _, before = await call(steered, "GET", "threads/ship-it/window")
    status, report = await call(
        steered, "POST", "threads/ship/compact", {"target": "30%", "focus": "files", "strategy": "extractive"}
    )
    assert (status, report["thread"], report["strategy"]) == (200, "ship-it", "extractive")
    assert report["tokens_after"] < report["tokens_before"]
    assert set(report["audit"]) == {"required", "kept", "repaired", "invented"}
    _, after = await call(steered, "GET", "threads/ship-it/window")
    assert (after["checkpoint"], after["dialect"], after["tokens"] < before["tokens"]) == (
        report["checkpoint"],
        "responses",
        True,
    )
    _, state = await call(steered, "GET", "threads/ship-it/state")
    assert (state["thread"], state["checkpoint"]) == ("ship-it", report["checkpoint"])
    assert set(state["sections"]) == {"objective", "active", "inactive", "handoff", "evidence"}
    assert "file_0.py" in json.dumps(state["sections"])
    assert await call(steered, "POST", "threads/ship-it/undo") == (200, {"thread": "ship-it", "checkpoint": report["checkpoint"]})
    assert await call(steered, "GET", "threads/ship-it/window") == (200, before)


@pytest.mark.anyio
async def test_compactions_are_counted(steered: Proxy) -> None:
    """The metrics know of a compaction that was committed, and not of one that was only tried out."""
    await call(steered, "POST", "threads/ship-it/compact", {"dry_run": True})
    assert 'threadkeep_compactions_total{trigger="manual"}' not in steered.app.metrics.render().decode()
    await call(steered, "POST", "threads/ship-it/compact")
    assert 'threadkeep_compactions_total{trigger="manual"} 1\n' in steered.app.metrics.render().decode()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "threads/none/window", None, 404, "thread_not_found"),
        ("POST", "threads/ship-it/undo", None, 422, "nothing_to_undo"),
        ("POST", "threads/ship-it/compact", {"strategy": "magic"}, 400, "unknown_strategy"),
        ("POST", "threads/ship-it/compact", {"model": "magic"}, 400, "unknown_model"),
        ("POST", "threads/ship-it/compact", {"colour": "red"}, 400, "invalid_argument"),
        ("POST", "threads/ship-it/compact", [1], 400, "invalid_argument"),
        ("POST", "threads/ship-it/compact", {"focus": "x" * 70_000}, 400, "invalid_argument"),
        ("GET", "threads?limit=x", None, 400, "invalid_argument"),
        ("GET", "threads?limit=0", None, 400, "invalid_argument"),
        ("GET", "threads/ship-it/events?after=x", None, 400, "invalid_argument"),
        ("GET", "threads/ship-it/compact", None, 405, "method_not_allowed"),
        ("POST", "threads", None, 405, "method_not_allowed"),
        ("GET", "threads/ship-it/nonsense", None, 404, "unknown_path"),
        ("GET", "threads/ship-it", None, 404, "unknown_path"),
        ("GET", "", None, 404, "unknown_path"),
    ],
)
async def test_a_mistake_is_named(steered: Proxy, method: str, path: str, body: object, status: int, code: str) -> None:
    """Every failure has its status and its code."""
    answered, told = await call(steered, method, path, body)
    assert (answered, told["error"]["code"]) == (status, code)


@pytest.mark.anyio
@pytest.mark.parametrize("headers", [{"Authorization": ""}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}])
async def test_without_the_token_nothing_is_said(steered: Proxy, headers: dict[str, str]) -> None:
    """Not even whether a thread exists."""
    for path in ("threads", "threads/ship-it/window", "threads/none/window", "nonsense"):
        status, told = await call(steered, "GET", path, **headers)
        assert (status, told["error"]["code"]) == (401, "control_token_required")


@pytest.mark.anyio
async def test_a_key_opens_its_own_tenant_alone(steered: Proxy) -> None:
    """With a key instead of the token one sees one's own threads, and another tenant's are not there."""
    with_key = {"Authorization": "", "X-Threadkeep-Key": KEY}
    assert await call(steered, "GET", "threads", **with_key) == (200, {"threads": []})
    status, told = await call(steered, "GET", "threads/ship-it/window", **with_key)
    assert (status, told["error"]["code"]) == (404, "thread_not_found")


@pytest.mark.anyio
async def test_a_tenant_cannot_have_a_model_asked(steered: Proxy, tk: Threadkeep) -> None:
    """A model is asked with the keys and from the network of whoever runs the gateway, so that a tenant's key names none."""
    await (await tk.for_tenant("other")).thread("mine")
    with_key = {"Authorization": "", "X-Threadkeep-Key": KEY}
    status, told = await call(steered, "POST", "threads/mine/compact", {"model": "m@http://127.0.0.1:1/v1"}, **with_key)
    assert (status, told["error"]["code"], "control token" in told["error"]["message"]) == (400, "invalid_argument", True)


@pytest.mark.anyio
async def test_a_gateway_without_a_token_has_no_control_api(proxy: Proxy) -> None:
    """Where nobody may, there is nothing."""
    status, told = await call(proxy, "GET", "threads")
    assert (status, told["error"]["code"]) == (404, "unknown_path")


async def events(answer: ClientResponse, *, count: int) -> list[dict[str, Any]]:
    """Return the next `count` events of a stream."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        line = (await answer.content.readline()).decode()
        assert line, "the stream ended"
        if line.startswith("data: "):
            found.append(json.loads(line.removeprefix("data: ")))
    return found


@pytest.mark.anyio
async def test_new_records_are_told_as_they_are_appended(steered: Proxy, tk: Threadkeep) -> None:
    """From now on, with kinds, ordinals and figures; not a word of what was said."""
    url = f"{steered.url}/threadkeep/v1/threads/ship-it/events"
    async with steered.client.get(url, headers=AUTHORISED) as answer:
        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
        assert await answer.content.readline() == b"retry: 1000\n"
        thread = await tk.find("ship-it")
        await thread.record([{"role": "user", "content": "the secret of the vault"}])
        await thread.record_usage(input_tokens=70, output_tokens=7)
        await thread.compact()
        told = await events(answer, count=4)
    assert [event["kind"] for event in told] == ["turn", "item", "reply", "checkpoint"]
    ordinals = [event["ordinal"] for event in told]
    assert ordinals == list(range(ordinals[0], ordinals[0] + 4))
    assert told[2]["figures"] == {"outcome": "completed", "input_tokens": 70, "output_tokens": 7}
    assert (told[3]["figures"]["strategy"], told[3]["figures"]["trigger"]) == ("extractive", "manual")
    assert "vault" not in json.dumps(told)


@pytest.mark.anyio
@pytest.mark.parametrize("said_in", ["header", "query"])
async def test_a_stream_of_events_is_resumed(steered: Proxy, said_in: str) -> None:
    """`Last-Event-ID` goes on after the record that was seen last."""
    url = f"{steered.url}/threadkeep/v1/threads/ship-it/events"
    headers = AUTHORISED | ({"Last-Event-ID": "20"} if said_in == "header" else {})
    async with steered.client.get(url if said_in == "header" else f"{url}?after=20", headers=headers) as answer:
        told = await events(answer, count=5)
    assert [event["ordinal"] for event in told] == [21, 22, 23, 24, 25]


@pytest.mark.anyio
async def test_a_stream_of_events_does_not_hold_up_a_stop(steered: Proxy) -> None:
    """When the gateway stops, streams that would never end by themselves end as whole."""
    url = f"{steered.url}/threadkeep/v1/threads/ship-it/events"
    async with steered.client.get(url, headers=AUTHORISED) as answer:
        assert await answer.content.readline() == b"retry: 1000\n"
        steered.app.stop()
        assert await answer.content.read() == b"\n"


@pytest.mark.anyio
async def test_readiness_is_whether_the_store_can_be_written(steered: Proxy, proxy_with: ProxyWith) -> None:
    """A gateway that could record nothing says so, and which way."""

    async def full() -> None:
        raise StoreFull("here")

    async with steered.client.get(f"{steered.url}/readyz") as answer:
        assert (answer.status, await answer.json()) == (200, {"ok": True})
    async with proxy_with(ready=full) as proxy, proxy.client.get(f"{proxy.url}/readyz") as answer:
        assert (answer.status, await answer.json()) == (503, {"ok": False, "reason": "store_full"})


def errors_below(kind: type[ThreadkeepError]) -> set[type[ThreadkeepError]]:
    """Return every kind of error that the tree has below `kind`."""
    own = {below for below in kind.__subclasses__() if below.__module__.startswith("threadkeep.errors")}
    return own.union(*map(errors_below, own))


def test_every_error_has_a_status() -> None:
    """The table knows each error, or the branch it hangs on, and names none that is not there."""
    kinds = errors_below(ThreadkeepError)
    branches = [
        {each.code for each in kind.__mro__ if issubclass(each, ThreadkeepError)} - {ThreadkeepError.code} for kind in kinds
    ]
    strangers = [codes for codes in branches if not codes & set(STATUSES)]
    assert (strangers, set(STATUSES) - {kind.code for kind in kinds} - {ThreadkeepError.code}) == ([], set())


def test_an_error_without_a_status_has_that_of_its_kind() -> None:
    """A more special error is answered like what it is."""

    class Fuller(StoreFull):
        """A disk that is fuller than full."""

    assert find_status(Fuller("here")) == 507
