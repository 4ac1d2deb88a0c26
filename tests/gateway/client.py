"""A client that resends its whole history and a provider with its rules, on both sides of the conversation logic; no sockets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.doubles.messages_stream import thinks
from tests.doubles.prefix_growth import watch
from tests.doubles.provider_rules import ProviderRules, prefix_signature
from tests.doubles.responses_stream import Numbering
from tests.doubles.script import Received, Reply, say
from tests.doubles.wires import PATHS, WireName, speak

from threadkeep import Threadkeep
from threadkeep.client import Thread
from threadkeep.dialects import find_dialect
from threadkeep.gateway.conversation.conversations import RecordedConversations
from threadkeep.gateway.conversation.proxy_interface import Answered, Forward, Incoming, ProviderAnswer, Refused
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.store import Record

Json = dict[str, Any]

ENDPOINTS: dict[WireName, str] = {wire: path.removeprefix("/v1beta").removeprefix("/v1") for path, wire in PATHS.items()}
HISTORY: dict[WireName, str] = {"responses": "input", "chat": "messages", "messages": "messages", "gemini": "contents"}
WIRES: tuple[WireName, ...] = ("responses", "chat", "messages", "gemini")
TOOL = {"name": "bash", "description": "runs a command"}


class RefusedByProvider(AssertionError):
    """The provider would have answered with an error."""


class Provider:
    """Answers requests of one wire, and refuses what a real one refuses. `requests` is all it accepted."""

    def __init__(self, wire: WireName, *, alternating: bool = False) -> None:
        self.wire = wire
        self.requests: list[Received] = []
        watch(self.requests)
        self.rules = ProviderRules(alternating=alternating)
        self._ids = Numbering()

    def receive(self, body: bytes, headers: Mapping[str, str], reply: Reply) -> Json:
        """Return the whole answer to a request."""
        path = f"/v1{ENDPOINTS[self.wire]}"
        received = Received(method="POST", path=path, headers=headers, authorised=True, raw=body, body=json.loads(body))
        fault = self.rules.refusal(self.wire, received)
        if fault is not None:
            raise RefusedByProvider(fault.message)
        self.requests.append(received)
        signature = prefix_signature(received.body) if self.wire == "messages" and thinks(received.body) else None
        counted = replace(reply, input_tokens=len(body) // 4)
        spoken = speak(self.wire, received, counted, ids=self._ids, signature=signature)
        self.rules.issue(reply.items, spoken)
        return spoken.whole

    @property
    def last(self) -> list[Json]:
        """The history of the newest request."""
        return self.requests[-1].history


@dataclass(slots=True)
class Client:
    """One conversation of a client: its history in its own words, its headers, and what goes out beside the history."""

    wire: WireName
    conversations: RecordedConversations
    provider: Provider
    headers: dict[str, str] = field(default_factory=dict)
    fields: Json = field(default_factory=dict)
    history: list[Json] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    async def ask(self, text: str, reply: Reply | None = None) -> None:
        """Say something and take the answer into the history."""
        self.history.append(person(self.wire, text))
        await self.send(reply or say(f"done: {text[:20]}"))

    async def tool(self, outputs: Mapping[str, str], reply: Reply) -> None:
        """Hand over what tools returned and take the answer into the history."""
        self.history.extend(outputs_of(self.wire, outputs))
        await self.send(reply)

    async def send(self, reply: Reply) -> None:
        """Send the history as it is and take the answer into it."""
        decision = await self.open()
        match decision:
            case Answered(text=text):
                self.answers.append(text)
                self.history.append(answer(self.wire, text))
            case Forward():
                whole = self.provider.receive(decision.body, {**self.headers, **decision.headers}, reply)
                await decision.finished(find_dialect(self.wire).wire.read_reply(json.dumps(whole).encode()))
                self.history.extend(echoed(self.wire, whole))
            case Refused():
                raise AssertionError(f"refused: {decision.message}")

    async def open(
        self, path: str | None = None, *, ask_provider: Any = None, ask_path: Any = None
    ) -> Forward | Answered | Refused:
        """Send the history as it is; return what is decided about it."""
        path = path or ENDPOINTS[self.wire]
        incoming = Incoming(path=path, headers=self.headers, body=self.body(), ask_provider=ask_provider, ask_path=ask_path)
        return await self.conversations.open(incoming)

    def body(self) -> bytes:
        base = {**base_fields(self.wire), **self.fields}
        head = base.pop("head", [])
        return json.dumps({**base, HISTORY[self.wire]: [*head, *self.history]}).encode()

    def forked(self, *, length: int | None = None, headers: dict[str, str] | None = None) -> Client:
        """Return a conversation that begins with this one's history, or a part of it."""
        history = list(self.history[:length])
        own = headers if headers is not None else dict(self.headers)
        return Client(
            wire=self.wire,
            conversations=self.conversations,
            provider=self.provider,
            headers=own,
            fields=dict(self.fields),
            history=history,
        )


def talk(
    tk: Threadkeep,
    wire: WireName,
    *,
    rules: Rules | None = None,
    alternating: bool = False,
    upstream: str = "https://provider.test",
    **headers: str,
) -> Client:
    """Return a new conversation on a new gateway."""
    conversations = RecordedConversations(tk, find_dialect(wire), rules=rules or Rules(), upstream=upstream)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return Client(wire=wire, conversations=conversations, provider=Provider(wire, alternating=alternating), headers=sent)


def base_fields(wire: WireName) -> Json:
    """Return what a request holds beside its history."""
    match wire:
        case "responses":
            tool = {"type": "function", "parameters": {}, **TOOL}
            return {"model": "m", "instructions": "Be brief.", "tools": [tool], "stream": False, "store": False}
        case "chat":
            tools = [{"type": "function", "function": {"parameters": {}, **TOOL}}]
            return {"model": "m", "tools": tools, "head": [{"role": "system", "content": "Be brief."}]}
        case "messages":
            tools = [{"input_schema": {}, **TOOL}]
            return {"model": "claude-opus-5-5", "max_tokens": 1000, "system": "Be brief.", "tools": tools}
        case "gemini":
            return {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "tools": [{"functionDeclarations": [TOOL]}]}


def person(wire: WireName, *texts: str) -> Json:
    """Return what a person says, each text a part of its own."""
    if wire == "gemini":
        return {"role": "user", "parts": [{"text": text} for text in texts]}
    kind = "input_text" if wire == "responses" else "text"
    return {"role": "user", "content": [{"type": kind, "text": text} for text in texts]}


def answer(wire: WireName, text: str) -> Json:
    """Return an answer as a client keeps it."""
    if wire == "gemini":
        return {"role": "model", "parts": [{"text": text}]}
    if wire == "chat":
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": [{"type": "output_text" if wire == "responses" else "text", "text": text}]}


def outputs_of(wire: WireName, outputs: Mapping[str, str]) -> list[Json]:
    """Return what tools returned, by call id."""
    match wire:
        case "responses":
            return [{"type": "function_call_output", "call_id": name, "output": text} for name, text in outputs.items()]
        case "chat":
            return [{"role": "tool", "tool_call_id": name, "content": text} for name, text in outputs.items()]
        case "messages":
            blocks = [{"type": "tool_result", "tool_use_id": name, "content": text} for name, text in outputs.items()]
            return [{"role": "user", "content": blocks}]
        case "gemini":
            answers = [{"id": name, "name": "bash", "response": {"output": text}} for name, text in outputs.items()]
            return [{"role": "user", "parts": [{"functionResponse": each} for each in answers]}]


def echoed(wire: WireName, whole: Json) -> list[Json]:
    """Return a provider's answer as a client sends it back."""
    match wire:
        case "responses":
            return list(whole["output"])
        case "chat":
            message = whole["choices"][0]["message"]
            return [{name: value for name, value in message.items() if value is not None}]
        case "messages":
            return [{"role": "assistant", "content": whole["content"]}]
        case "gemini":
            return [whole["candidates"][0]["content"]]


def text_of(history: Sequence[Json]) -> str:
    """Return everything that stands in a history."""
    return json.dumps(list(history), ensure_ascii=False)


async def threads(tk: Threadkeep) -> list[Thread]:
    """Return every thread of a store, the one written last at the end."""
    return [await tk.find(each.id) for each in reversed(await tk.threads())]


async def records(tk: Threadkeep) -> list[list[Record]]:
    """Return the records of every thread, in the same order."""
    return [await thread.records() for thread in await threads(tk)]


def heard(whole: Json) -> ProviderAnswer:
    """Return a whole answer to a request the gateway made by itself."""
    return ProviderAnswer(status=200, headers={"content-type": "application/json"}, body=json.dumps(whole).encode())
