"""No exception of an SDK, or of what carries its bytes, leaves as it came."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import aiohttp
import anthropic
import httpx2
import openai
import pytest

from threadkeep.errors import ModelError, ModelRejected
from threadkeep.llm import chat_server
from threadkeep.llm.sdk_client import HTTP_ERRORS, SdkErrors, name_sdk_error

SDK_ERRORS = {
    openai: SdkErrors(base=openai.OpenAIError, refusal=openai.APIStatusError),
    anthropic: SdkErrors(base=anthropic.AnthropicError, refusal=anthropic.APIStatusError),
}
REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/responses", headers={"authorization": "Bearer sk-secret"})

# Raised by calls that are never made here, checking a webhook, reading a cookie by its name, a web socket; or, the last, within
# the library alone, whose iterators take it for the end.
ELSEWHERE = {"InvalidWebhookSignatureError", "CookieConflict", "WebSocketError", "WSMessageTypeError", "EofStream"}


def exceptions_of(module: ModuleType) -> Iterator[type[Exception]]:
    """Yield every exception a library has in its public face."""
    for name, value in list(vars(module).items()):
        # `isinstance` would ask the proxies of the SDK, and each would load a part of it.
        if (
            issubclass(type(value), type)
            and issubclass(value, Exception)
            and not issubclass(value, Warning)
            and name not in ELSEWHERE
        ):
            yield value


def made(kind: type[Exception]) -> Exception:
    """Return an exception of that kind as the SDK would make it."""
    if issubclass(kind, (openai.APIStatusError, anthropic.APIStatusError)):
        status = int(getattr(kind, "status_code", 418))
        response = httpx2.Response(status, request=REQUEST, json={"error": {"message": "no", "type": "some_error"}})
        error = kind.__new__(kind)
        error.response = response
        return error
    return kind.__new__(kind)


@pytest.mark.parametrize("module", [openai, anthropic], ids=["openai", "anthropic"])
def test_every_exception_of_an_sdk_has_a_meaning(module: ModuleType) -> None:
    """What the SDK can raise is caught, and becomes an error of ours."""
    errors = SDK_ERRORS[module]
    kinds = set(exceptions_of(module))
    assert len(kinds) > 10
    assert [kind for kind in kinds if not issubclass(kind, (errors.base, *HTTP_ERRORS))] == []
    assert [kind for kind in kinds if not isinstance(name_sdk_error(made(kind), errors=errors, name="m"), ModelError)] == []


def test_every_exception_of_the_carrier_is_caught() -> None:
    """While a stream is read, what carries it raises in its own name."""
    kinds = set(exceptions_of(httpx2))
    assert len(kinds) > 20
    assert [kind for kind in kinds if not issubclass(kind, HTTP_ERRORS)] == []


def test_every_exception_of_aiohttp_is_caught() -> None:
    """The client for other servers is aiohttp alone."""
    kinds = set(exceptions_of(aiohttp))
    assert len(kinds) > 20
    assert [kind for kind in kinds if not issubclass(kind, chat_server.HTTP_ERRORS)] == []


@pytest.mark.parametrize("module", [openai, anthropic], ids=["openai", "anthropic"])
def test_a_status_of_the_sdk_keeps_its_meaning(module: ModuleType) -> None:
    """The refusal behind an exception decides, not its class."""
    error = name_sdk_error(made(module.PermissionDeniedError), errors=SDK_ERRORS[module], name="m")
    assert isinstance(error, ModelRejected)
    assert (error.status, error.reason) == (403, "no")
