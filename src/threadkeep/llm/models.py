"""Models by the names people write, opened when first named and closed with the store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from threadkeep.dialects import CHAT, MESSAGES, RESPONSES
from threadkeep.errors import UnknownModel
from threadkeep.llm.base import Model
from threadkeep.llm.provider import ProviderModel, Server
from threadkeep.llm.remote import CompactingModel, name_issuer

OPENAI_URL: Final = "https://api.openai.com/v1"
ANTHROPIC_URL: Final = "https://api.anthropic.com"
# The version the dialect reads and histories are written in. A newer one refuses fields that clients still send, `temperature`
# among them.
ANTHROPIC_VERSION: Final = "2023-06-01"

# OpenAI's newer models refuse the older word, which every other server understands.
OPENAI_NAMES: Final[Mapping[str, str]] = {"max_tokens": "max_completion_tokens"}

FORMS: Final = "write openai:NAME, anthropic:NAME, or NAME@URL for a server that speaks Chat Completions"

# The last @ before a URL separates: names of models may contain one too.
_AT_URL: Final = re.compile(r"(?P<model>.+)@(?P<url>https?://.*)", re.IGNORECASE | re.DOTALL)


def open_model(name: str, *, environ: Mapping[str, str]) -> ProviderModel:
    """Return the model called `name`; close it, or use it as an async context manager.

    Credentials and addresses come from `environ`: `OPENAI_API_KEY` and `OPENAI_BASE_URL`; `ANTHROPIC_API_KEY`, or else
    `ANTHROPIC_AUTH_TOKEN`, and `ANTHROPIC_BASE_URL`; for a server at a URL `THREADKEEP_MODEL_KEY`, if it needs one; and the
    proxy for providers in `HTTPS_PROXY`. Nothing is sent before the model is first asked.

    Raises:
        UnknownModel: The name has none of the known forms, or a credential it needs is missing.
    """
    provider, _, model = name.partition(":")
    if at_url := _AT_URL.fullmatch(name):
        return _open_at_url(at_url["model"], at_url["url"], key=environ.get("THREADKEEP_MODEL_KEY") or None)
    if provider == "openai" and model:
        return _open_openai(name, model, environ=environ)
    if provider == "anthropic" and model:
        return _open_anthropic(name, model, environ=environ)
    # The error repeats the name, except for what may be a credential in an address.
    raise UnknownModel(re.sub(r"(?<=//)[^/]*@|[?#].*", "…", name, flags=re.DOTALL), reason=FORMS)


def _open_at_url(model: str, url: str, *, key: str | None) -> ProviderModel:
    base_url = _check_address(url, name=model)
    name = f"{model}@{base_url}"
    server = Server(
        name,
        base_url=base_url if urlsplit(base_url).path else f"{base_url}/v1",
        headers={"authorization": f"Bearer {key}"} if key else {},
        secrets=(key,) if key else (),
    )
    # Hosts of OpenAI's own models; with any other word for the same thing those answer nothing.
    host = urlsplit(base_url).hostname or ""
    renamed = OPENAI_NAMES if host == "api.openai.com" or host.endswith(".openai.azure.com") else None
    return ProviderModel(name, model=model, dialect=CHAT, path="/chat/completions", transport=server, renamed=renamed)


def _open_openai(name: str, model: str, *, environ: Mapping[str, str]) -> ProviderModel:
    key = environ.get("OPENAI_API_KEY")
    if not key:
        raise UnknownModel(name, reason="OPENAI_API_KEY is not set")
    base_url = _check_address(environ.get("OPENAI_BASE_URL") or OPENAI_URL, name=name)
    named = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
    headers = {header: value for header, variable in named.items() if (value := environ.get(variable))}
    headers["authorization"] = f"Bearer {key}"
    server = Server(name, base_url=base_url, headers=headers, secrets=(key,), proxy=_find_proxy(base_url, environ))
    issuer = name_issuer(base_url, credential=key)
    return CompactingModel(name, model=model, dialect=RESPONSES, issuer=issuer, transport=server)


def _open_anthropic(name: str, model: str, *, environ: Mapping[str, str]) -> ProviderModel:
    key, token = environ.get("ANTHROPIC_API_KEY"), environ.get("ANTHROPIC_AUTH_TOKEN")
    credential = key or token
    if not credential:
        raise UnknownModel(name, reason="neither ANTHROPIC_API_KEY nor ANTHROPIC_AUTH_TOKEN is set")
    base_url = _check_address(environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC_URL, name=name)
    headers = {"x-api-key": key} if key else {"authorization": f"Bearer {token}"}
    headers["anthropic-version"] = ANTHROPIC_VERSION
    server = Server(name, base_url=base_url, headers=headers, secrets=(credential,), proxy=_find_proxy(base_url, environ))
    issuer = name_issuer(base_url, credential=credential)
    return CompactingModel(name, model=model, dialect=MESSAGES, issuer=issuer, transport=server)


def _find_proxy(base_url: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy that the environment names for a provider on the internet; none for hosts in `NO_PROXY`."""
    host = urlsplit(base_url).hostname or ""
    exempt = [name.strip().lstrip(".") for name in (environ.get("NO_PROXY") or environ.get("no_proxy") or "").split(",")]
    if not base_url.startswith("https:") or any(name == "*" or f".{host}".endswith(f".{name}") for name in exempt if name):
        return None
    return environ.get("HTTPS_PROXY") or environ.get("https_proxy")


def _check_address(url: str, *, name: str) -> str:
    """Return a base URL without its last slash.

    A name is stored and shown, so an address that contains a credential is refused, and not repeated.

    Raises:
        UnknownModel: It is not an http:// or https:// address, or contains more than one.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, usable = urlsplit(""), False
    if not usable or not url.isprintable() or " " in url:
        raise UnknownModel(name, reason="its address is not an http:// or https:// URL")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise UnknownModel(name, reason="its address contains more than an address; put a key for it into THREADKEEP_MODEL_KEY")
    return url.rstrip("/")


class Models:
    """The models of one process; `environ` holds their credentials and addresses under the providers' usual names."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._opened: dict[str, ProviderModel] = {}

    def get(self, name: str) -> Model:
        """Return the model called `name`; nothing is sent before it is asked.

        Raises:
            UnknownModel: As `open_model` does.
        """
        if name not in self._opened:
            self._opened[name] = open_model(name, environ=self._environ)
        return self._opened[name]

    async def close(self) -> None:
        """Close every connection."""
        opened, self._opened = self._opened, {}
        for model in opened.values():
            await model.aclose()
