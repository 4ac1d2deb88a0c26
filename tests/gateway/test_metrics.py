"""The gateway counts what it does, and writes a line about each request: numbers and fixed words, nothing that was said."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from threadkeep.errors import StoreBusy
from threadkeep.gateway.conversation.proxy_interface import Forward, Incoming
from threadkeep.gateway.http.access_log import AccessLog
from threadkeep.gateway.http.keys import Keys, digest_key
from threadkeep.gateway.http.metrics import BOUNDS, Metrics

if TYPE_CHECKING:
    from tests.gateway.conftest import Proxy, ProxyWith

SECRET = "the-secret-of-the-vault"
SAMPLE = re.compile(r'[a-z_]+(\{[a-z]+="[A-Za-z0-9_.+]+"(,[a-z]+="[A-Za-z0-9_.+]+")*\})? [0-9.]+')


def samples(metrics: Metrics) -> dict[str, float]:
    """Return every sample of the metrics by its name and labels."""
    lines = metrics.render().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))}


def test_the_text_is_what_prometheus_reads() -> None:
    """Each family has its help and type before its samples, and each sample the one form there is."""
    metrics = Metrics()
    metrics.count_failure("open.store_busy")
    metrics.count_overflow()
    metrics.count_request(route="responses", status=200)
    metrics.count_tokens(client_bytes=4000, provider_bytes=400)
    metrics.count_compaction(tokens_before=900, tokens_after=90, trigger="auto")
    lines = metrics.render().decode().splitlines()
    assert [line for line in lines if not line.startswith("# ") and SAMPLE.fullmatch(line) is None] == []
    for name in {line.split()[2] for line in lines if line.startswith("# ")}:
        kinds = [line.split()[1] for line in lines if line.startswith("# ") and line.split()[2] == name]
        assert kinds == ["HELP", "TYPE"]


def test_a_duration_falls_into_every_bucket_above_it() -> None:
    """Buckets are cumulative, the last holds all, and sum and count agree with what was observed."""
    metrics = Metrics()
    for seconds in (0.0001, 0.004, 0.005, 0.2, 100.0):
        metrics.observe_added(seconds)
    found = samples(metrics)
    name = "threadkeep_added_seconds"
    counted = [found[f'{name}_bucket{{le="{bound}"}}'] for bound in (*BOUNDS, "+Inf")]
    assert counted == [1, 1, 1, 3, 3, 3, 3, 3, 4, 4, 4, 4, 5]
    assert (found[f"{name}_count"], round(found[f"{name}_sum"], 4)) == (5, 100.2091)


@pytest.mark.anyio
async def test_requests_and_tokens_are_counted(proxy: Proxy) -> None:
    """A smaller request than the client's shows as the difference between the two sides."""
    proxy.script.decide = lambda incoming: Forward(body=b"x" * 100, finished=proxy.script.finished)
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=b"x" * 10_000) as answer:
        assert answer.status == 200
    async with proxy.client.get(f"{proxy.url}/v1/models") as answer:
        assert answer.status == 200
    async with proxy.client.get(f"{proxy.url}/nowhere") as answer:
        assert answer.status == 404
    async with proxy.client.get(f"{proxy.url}/metrics") as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = samples(proxy.app.metrics)
    counted = {name: value for name, value in found.items() if name.startswith("threadkeep_requests_total")}
    assert counted == {
        'threadkeep_requests_total{route="responses",status="200"}': 1,
        'threadkeep_requests_total{route="openai.other",status="200"}': 1,
        'threadkeep_requests_total{route="unknown",status="404"}': 1,
        'threadkeep_requests_total{route="own",status="200"}': 1,
    }
    client, sent = (found[f'threadkeep_request_tokens_total{{side="{side}"}}'] for side in ("client", "provider"))
    assert client == 100 * sent > 0
    assert (found["threadkeep_added_seconds_count"], found["threadkeep_streams_open"]) == (1, 0)


@pytest.mark.anyio
async def test_open_streams_are_counted_while_they_are(proxy: Proxy) -> None:
    """Each exchange under way counts once, until it is over."""
    release = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"begun")
        await release.wait()
        return answer

    proxy.provider.handler = handler
    async with proxy.client.get(f"{proxy.url}/v1/a") as one, proxy.client.get(f"{proxy.url}/v1/b") as two:
        assert (await one.content.readany(), await two.content.readany()) == (b"begun", b"begun")
        assert samples(proxy.app.metrics)["threadkeep_streams_open"] == 2
        release.set()
        await one.read()
        await two.read()


@pytest.mark.anyio
async def test_failures_are_counted_by_code(proxy: Proxy) -> None:
    """What went wrong beside the relay is seen by its code."""

    def decide(incoming: Incoming) -> Forward:
        raise StoreBusy("here")

    proxy.script.decide = decide
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=b"{}") as answer:
        assert answer.status == 200
    assert samples(proxy.app.metrics)['threadkeep_failures_total{what="open.store_busy"}'] == 1


def lines_of(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "threadkeep.access"]


@pytest.mark.anyio
async def test_a_request_is_one_line_without_content(proxy_with: ProxyWith, caplog: pytest.LogCaptureFixture) -> None:
    """Who asked what kind of thing, how it ended, how much it was: no header, query, key, path or word of it."""
    caplog.set_level(logging.INFO, logger="threadkeep.access")
    key = f"tkk_{SECRET}"
    headers = {"Authorization": f"Bearer {SECRET}", "X-Custom": SECRET, "Host": f"{SECRET}.example"}
    async with proxy_with(keys=Keys({digest_key(key): "alice"})) as proxy:
        url = f"{proxy.url}/k/{key}/v1/responses?q={SECRET}"
        async with proxy.client.post(url, data=json.dumps({"input": SECRET}), headers=headers) as answer:
            received = len(await answer.read())
        async with proxy.client.request("PROPFIND", f"{proxy.url}/k/{key}/{SECRET}", headers=headers) as answer:
            assert answer.status == 404
        async with proxy.client.get(f"{proxy.url}/healthz"):
            pass
    told = lines_of(caplog)
    for line in told:
        assert isinstance(line.pop("ms"), float)
        assert line.pop("at").startswith("2023-11-14T22:13:2")
    common = {"client_left": False, "tenant": "alice"}
    assert told[0] == common | {
        "method": "POST",
        "route": "responses",
        "status": 200,
        "received_bytes": len(json.dumps({"input": SECRET})),
        "sent_bytes": received,
    }
    assert (len(told), told[1]["method"], told[1]["route"], told[1]["status"]) == (2, "other", "unknown", 404)
    assert SECRET not in caplog.text


@pytest.mark.anyio
async def test_content_is_logged_only_where_it_is_asked_for(proxy_with: ProxyWith, caplog: pytest.LogCaptureFixture) -> None:
    """With it on, the request and what went out in its place are there, and credentials still are not."""
    caplog.set_level(logging.INFO, logger="threadkeep.access")
    async with proxy_with(access_log=AccessLog(content=True)) as proxy:
        proxy.script.decide = lambda incoming: Forward(body=b'{"input": "less"}', finished=proxy.script.finished)
        headers = {"Authorization": f"Bearer {SECRET}"}
        async with proxy.client.post(f"{proxy.url}/v1/responses", data=b'{"input": "much"}', headers=headers) as answer:
            assert answer.status == 200
    [line] = lines_of(caplog)
    assert (line["request"], line["forwarded"]) == ('{"input": "much"}', '{"input": "less"}')
    assert SECRET not in caplog.text
