"""Every wire a model is asked over, and one question in each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from threadkeep.dialects import Request, find_dialect
from threadkeep.items import Item, View
from threadkeep.llm import ProviderModel, open_model

CREDENTIAL = "sk-secret-0123456789abcdef"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One way to ask: how the model is called, where its questions go, and what they look like."""

    dialect: str
    path: str
    question: Mapping[str, Any]
    named: Callable[[str], str]

    def open(self, origin: str) -> ProviderModel:
        """Return the model as it is opened for a server at `origin`."""
        environ = {
            "OPENAI_API_KEY": CREDENTIAL,
            "OPENAI_BASE_URL": f"{origin}/v1",
            "ANTHROPIC_API_KEY": CREDENTIAL,
            "ANTHROPIC_BASE_URL": origin,
            "THREADKEEP_MODEL_KEY": CREDENTIAL,
        }
        return open_model(self.named(origin), environ=environ)

    @property
    def request(self) -> Request:
        return request_of(self.dialect, self.question)

    def view(self, item: Item) -> View:
        return find_dialect(self.dialect).view(item)


def request_of(dialect: str, body: Mapping[str, Any]) -> Request:
    """Return a body as a request taken apart."""
    language = find_dialect(dialect)
    raw = language.parse(dict(body)).raw
    request = language.split(raw)
    assert request is not None
    return request


RESPONSES = Wire(
    dialect="responses",
    path="/v1/responses",
    question={"instructions": "Be brief.", "input": [{"role": "user", "content": "Where were we?"}], "x_unknown": [1, 2.50]},
    named=lambda origin: "openai:gpt-test",
)
CHAT = Wire(
    dialect="chat",
    path="/v1/chat/completions",
    question={"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where were we?"}], "seed": 7},
    named=lambda origin: f"qwen@{origin}/v1",
)
MESSAGES = Wire(
    dialect="messages",
    path="/v1/messages",
    question={"system": "Be brief.", "messages": [{"role": "user", "content": "Where were we?"}], "max_tokens": 500},
    named=lambda origin: "anthropic:claude-test",
)
WIRES = {wire.dialect: wire for wire in (RESPONSES, CHAT, MESSAGES)}
