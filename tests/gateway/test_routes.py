"""Each request goes to the provider it belongs to, and speaks with the gateway in that provider's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from multidict import CIMultiDict
from yarl import URL

from threadkeep.dialects import CHAT, MESSAGES, RESPONSES
from threadkeep.errors import BadInput
from threadkeep.gateway.app import Gateway
from threadkeep.gateway.conversation.proxy_interface import Refused
from threadkeep.gateway.http.routes import ANTHROPIC, OPENAI, Route, find_route
from threadkeep.gateway.http.server import run_server
from threadkeep.gateway.http.upstream import Upstream, open_upstream_session

if TYPE_CHECKING:
    from tests.gateway.conftest import Proxy

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/responses", Route(path="/responses", provider=OPENAI, dialect=RESPONSES, is_conversation=True)),
        ("/v1/chat/completions", Route(path="/chat/completions", provider=OPENAI, dialect=CHAT, is_conversation=True)),
        ("/v1/messages", Route(path="/messages", provider=ANTHROPIC, dialect=MESSAGES, is_conversation=True)),
        ("/responses", Route(path="/responses", provider=OPENAI, dialect=RESPONSES, is_conversation=True)),
        ("/chat/completions", Route(path="/chat/completions", provider=OPENAI, dialect=CHAT, is_conversation=True)),
        ("/messages", Route(path="/messages", provider=ANTHROPIC, dialect=MESSAGES, is_conversation=True)),
        ("/v1/responses/compact", Route(path="/responses/compact", provider=OPENAI, dialect=RESPONSES, is_conversation=True)),
        (
            "/messages/count_tokens",
            Route(path="/messages/count_tokens", provider=ANTHROPIC, dialect=MESSAGES, is_conversation=True),
        ),
        ("/v1/v1/messages", Route(path="/messages", provider=ANTHROPIC, dialect=MESSAGES, is_conversation=True)),
    ],
)
def test_a_conversation_is_known_by_its_path(path: str, expected: Route) -> None:
    """Three dialects and what takes their histories, with `/v1` in front, without it, and with a second one a client added."""
    assert find_route("POST", path, []) == expected


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/v1/responses", Route(path="/responses", provider=OPENAI, dialect=RESPONSES)),
        ("POST", "/v1/responses/r/cancel", Route(path="/responses/r/cancel", provider=OPENAI, dialect=RESPONSES)),
        ("GET", "/v1/chat/completions/id", Route(path="/chat/completions/id", provider=OPENAI, dialect=CHAT)),
        ("POST", "/v1/messages/batches", Route(path="/messages/batches", provider=ANTHROPIC, dialect=MESSAGES)),
        ("POST", "/v1/threads/t/messages", Route(path="/threads/t/messages", provider=OPENAI, dialect=RESPONSES)),
        ("POST", "/v1/responsesx", Route(path="/responsesx", provider=OPENAI, dialect=RESPONSES)),
        ("GET", "/v1", Route(path="", provider=OPENAI, dialect=RESPONSES)),
        ("GET", "/models", Route(path="/models", provider=OPENAI, dialect=RESPONSES)),
    ],
)
def test_everything_else_passes_through(method: str, path: str, expected: Route) -> None:
    """What carries no history, or is another API's, is no conversation; its errors are those of its provider."""
    assert find_route(method, path, []) == expected


@pytest.mark.parametrize("path", ["/", "", "/v1x", "/v2/responses", "/v", "/threadkeep", "/favicon.ico", "//v1/models"])
def test_a_path_outside_the_api_leads_nowhere(path: str) -> None:
    """Only the API is relayed."""
    assert find_route("GET", path, []) is None


@pytest.mark.parametrize(
    ("header", "provider"),
    [
        ((b"anthropic-version", b"2023-06-01"), ANTHROPIC),
        ((b"x-api-key", b"k"), ANTHROPIC),
        ((b"x-goog-api-key", b"k"), "gemini"),
        ((b"authorization", b"Bearer k"), OPENAI),
    ],
)
def test_what_both_providers_have_goes_by_the_headers(header: tuple[bytes, bytes], provider: str) -> None:
    """A list of models is asked of whoever the headers were written for."""
    route = find_route("GET", "/v1/models", [header])
    assert route is not None
    assert route.provider == provider


@pytest.mark.parametrize(
    ("name", "base", "target"),
    [
        (OPENAI, "", "/v1/x"),
        (OPENAI, "/v1", "/v1/x"),
        (OPENAI, "/api/v1/", "/api/v1/x"),
        (OPENAI, "/codex", "/codex/x"),
        (ANTHROPIC, "", "/v1/x"),
        (ANTHROPIC, "/v1", "/v1/x"),
        (ANTHROPIC, "/anthropic", "/anthropic/v1/x"),
        ("gemini", "", "/v1beta/x"),
        ("gemini", "/v1beta", "/v1beta/x"),
        ("gemini", "/google", "/google/v1beta/x"),
    ],
)
async def test_an_upstream_is_given_as_to_its_own_clients(proxy: Proxy, name: str, base: str, target: str) -> None:
    """OpenAI's clients are given the whole base, Anthropic's what stands before `/v1`."""
    async with open_upstream_session() as session:
        upstream = Upstream(proxy.provider.url + base, session=session, provider=name)
        async with upstream.exchange("GET", "/x", headers=CIMultiDict(), body=None):
            pass
    assert [seen.target for seen in proxy.provider.seen] == [target]


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/v1/responses", "/openai/v1/responses"),
        ("/v1/chat/completions", "/openai/v1/chat/completions"),
        ("/v1/messages?beta=true", "/anthropic/v1/messages?beta=true"),
        ("/v1/messages/count_tokens", "/anthropic/v1/messages/count_tokens"),
        ("/v1/embeddings", "/openai/v1/embeddings"),
        ("/v1beta/models/gemini-3-pro:generateContent?key=k", "/gemini/v1beta/models/gemini-3-pro:generateContent?key=k"),
        ("/v1beta/models", "/gemini/v1beta/models"),
        ("/v1/models/gemini-3-pro:countTokens", "/gemini/v1beta/models/gemini-3-pro:countTokens"),
    ],
)
async def test_every_provider_stands_behind_one_gateway(proxy: Proxy, path: str, target: str) -> None:
    """The path chooses the provider."""
    upstreams = {
        OPENAI: f"{proxy.provider.url}/openai/v1",
        ANTHROPIC: f"{proxy.provider.url}/anthropic",
        "gemini": f"{proxy.provider.url}/gemini",
    }
    async with open_upstream_session() as session:
        app = Gateway(upstreams=upstreams, conversations=proxy.script.of, session=session, version="0")
        async with run_server(app) as url, proxy.client.post(url + path, data=b"{}") as answer:
            assert answer.status == 200
    assert [seen.target for seen in proxy.provider.seen] == [target]


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/responses", {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": "c"}}),
        ("/v1/chat/completions", {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": "c"}}),
        ("/v1/messages", {"type": "error", "error": {"type": "invalid_request_error", "message": "no", "code": "c"}}),
    ],
)
async def test_a_refusal_has_the_shape_of_its_dialect(proxy: Proxy, path: str, shape: object) -> None:
    """A client reads the gateway's errors as it reads its provider's."""
    proxy.script.decide = lambda incoming: Refused(status=400, code="c", message="no")
    async with proxy.client.post(proxy.url + path, data=b"{}") as answer:
        assert (answer.status, await answer.json()) == (400, shape)


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/../admin", "/v1/%2e%2e/admin", "/v1/./models", "/v1/files/.."),
        *("/v1/..%2fadmin", "/v1/..;/admin", "/v1/..;a=b/admin", "/v1/..%3b/admin", "/v1/..%5cadmin", "/v1/..\\admin"),
        *("/v1/%252e%252e/admin", "/v1/..%252fadmin", "/v1/x%2f..%2fadmin", "/v1/models/..%5C"),
    ],
)
async def test_a_path_that_climbs_is_refused(proxy: Proxy, path: str) -> None:
    """A path cannot leave the part of a server that an upstream names."""
    async with proxy.client.get(URL(proxy.url + path, encoded=True)) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (400, "invalid_request")
    assert proxy.provider.seen == []


@pytest.mark.parametrize("path", ["/v1/models/org%2Fname..v1", "/v1/files/a;b", "/v1/files/...", "/v1/models/a%252Fb"])
async def test_a_path_with_odd_names_passes_as_it_came(proxy: Proxy, path: str) -> None:
    """Dots, encoded slashes and semicolons that lead nowhere are names."""
    async with proxy.client.get(URL(proxy.url + path, encoded=True)) as answer:
        assert answer.status == 200
    assert [seen.target for seen in proxy.provider.seen] == [path]


@pytest.mark.parametrize("base", ["", "api.openai.com", "ftp://x", "http://", "http://[", "http://x:99999", "file:///x"])
async def test_what_is_no_upstream_is_refused_by_name(proxy: Proxy, base: str) -> None:
    """A mistyped URL is said to be one before anything is served."""
    with pytest.raises(BadInput, match="an upstream is an http"):
        Upstream(base, session=proxy.client)


async def test_credentials_do_not_belong_into_an_upstream(proxy: Proxy) -> None:
    """They would take the place of the clients' own; the error does not show them."""
    with pytest.raises(BadInput, match="user or password") as caught:
        Upstream("https://me:hidden@example.com/v1", session=proxy.client)
    assert "hidden" not in str(caught.value)
