"""Models by the names people write, and the names that are none."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from tests.doubles.model_server import ModelServer, streamed
from tests.llm.wires import CHAT, CREDENTIAL, RESPONSES

from threadkeep.dialects import Request, find_dialect
from threadkeep.errors import ModelUnavailable, UnknownModel
from threadkeep.llm import RemoteCompactor, open_model

ASKED = [b"CONNECT api.threadkeep.invalid:443 HTTP/1.1\r\n"]
KEYS = {"OPENAI_API_KEY": CREDENTIAL, "ANTHROPIC_API_KEY": CREDENTIAL}


@pytest.mark.parametrize(
    ("name", "dialect", "compacts"),
    [
        ("openai:gpt-test", "responses", "by itself"),
        ("anthropic:claude-test", "messages", "by itself"),
        ("qwen@http://127.0.0.1:8080/v1", "chat", "not"),
        ("org/model@rev:q4@https://models.example/v1", "chat", "not"),
    ],
)
def test_a_name_says_which_wire_a_model_speaks(name: str, dialect: str, compacts: str) -> None:
    """Three forms, three dialects; only the two providers compact by themselves."""
    model = open_model(name, environ=KEYS)
    assert (model.name, model.dialect, model.window_tokens) == (name, dialect, None)
    assert isinstance(model, RemoteCompactor) == (compacts == "by itself")


@pytest.mark.parametrize("name", ["", "gpt-5", "openai:", "anthropic:", "azure:gpt-5", "@http://127.0.0.1", "x@ftp://127.0.0.1"])
def test_a_name_of_no_known_form_is_refused(name: str) -> None:
    """The error says which forms there are."""
    with pytest.raises(UnknownModel, match="openai:NAME, anthropic:NAME, or NAME@URL"):
        open_model(name, environ=KEYS)


@pytest.mark.parametrize("name", ["m@http://", "m@http://:80", "m@http://host:99999", "m@http://a b/", "m@http://[::1"])
def test_an_address_that_is_none_is_refused(name: str) -> None:
    """It fails when it is named, not when it is asked."""
    with pytest.raises(UnknownModel, match="not an http:// or https:// URL"):
        open_model(name, environ={})


@pytest.mark.parametrize(
    "name",
    ["m@http://user:hunter2@host/v1", "m@http://host/v1?key=hunter2", "m@http://host/v1#hunter2", "m@ftp://u:hunter2@host"],
)
def test_a_credential_in_an_address_is_refused_and_not_repeated(name: str) -> None:
    """A model's name is stored and shown; a key has a place of its own."""
    with pytest.raises(UnknownModel) as caught:
        open_model(name, environ={})
    assert "hunter2" not in str(caught.value) + repr(caught.value.__dict__)


@pytest.mark.parametrize(("name", "variable"), [("openai:m", "OPENAI_API_KEY"), ("anthropic:m", "ANTHROPIC_API_KEY")])
def test_a_missing_credential_is_named(name: str, variable: str) -> None:
    """The error says which variable is to be set."""
    with pytest.raises(UnknownModel, match=variable):
        open_model(name, environ={})


@pytest.mark.anyio
async def test_a_server_without_a_key_is_asked_without_one() -> None:
    """Local servers need none; an address without a path means the usual one."""
    async with ModelServer([streamed("chat", "ok")]) as server, open_model(f"qwen@{server.origin}/", environ={}) as model:
        assert (await model.ask(CHAT.request)).text == "ok"
        assert model.name == f"qwen@{server.origin}"
    assert [(received.path, received.authorised) for received in server.requests] == [("/v1/chat/completions", False)]


@pytest.mark.anyio
async def test_a_token_does_where_there_is_no_key() -> None:
    """Anthropic knows two kinds of credential."""
    async with ModelServer([streamed("messages", "ok")]) as server:
        environ = {"ANTHROPIC_AUTH_TOKEN": CREDENTIAL, "ANTHROPIC_BASE_URL": server.origin}
        async with open_model("anthropic:m", environ=environ) as model:
            await model.ask(CHAT.request)
    assert server.requests[0].authorised


@pytest.mark.anyio
async def test_openai_is_told_the_organization_and_project_of_the_environment() -> None:
    """The variables are those OpenAI's own client reads."""
    async with ModelServer([streamed("responses", "ok")]) as server:
        environ = {**KEYS, "OPENAI_BASE_URL": f"{server.origin}/v1", "OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj-2"}
        async with open_model("openai:m", environ=environ) as model:
            await model.ask(RESPONSES.request)
    headers = server.requests[0].headers
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-1", "proj-2")


def test_naming_a_model_loads_no_client() -> None:
    """What takes long to import is imported when a model is first asked."""
    code = (
        "import sys; from threadkeep.llm import open_model; open_model('openai:m', environ={'OPENAI_API_KEY': 'k'});"
        "open_model('m@http://127.0.0.1:1', environ={});"
        "print([name for name in ('openai', 'anthropic', 'httpx2', 'aiohttp', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.anyio
@pytest.mark.parametrize(("unproxied", "told"), [("", ASKED), ("models.example", ASKED), (".threadkeep.invalid", [])])
async def test_a_provider_is_reached_through_the_proxy_of_the_environment(unproxied: str, told: list[bytes]) -> None:
    """`HTTPS_PROXY` is asked to connect, unless `NO_PROXY` names the provider's host."""
    lines: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append(await reader.readline())
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
    host, port = proxy.sockets[0].getsockname()
    environ = {
        **KEYS,
        "OPENAI_BASE_URL": "https://api.threadkeep.invalid/v1",
        "HTTPS_PROXY": f"http://{host}:{port}",
        "NO_PROXY": unproxied,
    }
    async with proxy, open_model("openai:m", environ=environ) as model:
        with pytest.raises(ModelUnavailable):
            await model.ask(Request(fields={}, head=(), items=(find_dialect("responses").make_user_message("hello"),)))
    assert lines == told
