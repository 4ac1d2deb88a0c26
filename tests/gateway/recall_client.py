"""A client that resends its history through a real gateway whose models may recall, streaming or not, in every dialect."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import ClientSession
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply
from tests.doubles.wires import PATHS, WireName
from tests.gateway.client import HISTORY, base_fields, outputs_of, person

from threadkeep import Config, Threadkeep
from threadkeep.dialects import find_dialect
from threadkeep.gateway.conversation.recall_tool import NAME
from threadkeep.gateway.serve import running_gateway

Json = dict[str, Any]
URLS = {wire: path for path, wire in PATHS.items()}


@dataclass(slots=True)
class RecallClient:
    """One conversation. `streams` holds the events of every streamed answer; `history` is what it resends."""

    wire: WireName
    url: str
    session: ClientSession
    streamed: bool
    fields: Json = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    history: list[Json] = field(default_factory=list)
    streams: list[list[Json]] = field(default_factory=list)
    wholes: list[Json] = field(default_factory=list)

    async def ask(self, text: str) -> str:
        self.history.append(person(self.wire, text))
        return await self.send()

    @property
    def _path(self) -> str:
        path = URLS[self.wire]
        return path.replace(":generateContent", ":streamGenerateContent?alt=sse") if self.streamed else path

    async def tool(self, outputs: Mapping[str, str]) -> str:
        self.history.extend(outputs_of(self.wire, outputs))
        return await self.send()

    async def send(self) -> str:
        """Send the history, take the answer into it, and return what it says."""
        base = base_fields(self.wire)
        head = base.pop("head", [])
        body = {**base, **self.fields, "stream": self.streamed, HISTORY[self.wire]: [*head, *self.history]}
        wire = find_dialect(self.wire).wire
        async with self.session.post(f"{self.url}{self._path}", json=body, headers=self.headers) as answer:
            raw = await answer.read()
            assert answer.status == 200, raw
        if self.streamed:
            reader = wire.make_reader()
            assert reader.feed(raw)
            self.streams.append(events_in(raw))
            reply = reader.reply
        else:
            self.wholes.append(json.loads(raw))
            reply = wire.read_reply(raw)
        assert reply.outcome == "completed"
        items = [json.loads(item.raw) for item in reply.items]
        self.history.extend(items)
        return said(items)


def events_in(raw: bytes) -> list[Json]:
    """Return the data of every event; the mark of a chat's end as an object too."""
    found = [line.removeprefix("data: ") for line in raw.decode().splitlines() if line.startswith("data: ")]
    return [{"done": True} if data == "[DONE]" else json.loads(data) for data in found]


def said(items: list[Json]) -> str:
    """Return the words of an answer."""
    texts: list[str] = []
    for item in items:
        content = item.get("content") or item.get("parts") or []
        parts = [{"text": content}] if isinstance(content, str) else content
        texts.extend(part["text"] for part in parts if "text" in part)
    return " | ".join(texts)


def recall(query: str, call_id: str, *before: Json) -> Reply:
    """Answer by recalling something, after other items."""
    return Reply(items=(*before, recall_item(query, call_id)))


def recall_item(query: str, call_id: str) -> Json:
    return {"type": "function_call", "name": NAME, "arguments": json.dumps({"query": query}), "call_id": call_id}


@asynccontextmanager
async def recalling(
    store: Path, provider: ScriptedProvider, wire: WireName, *, streamed: bool, **settings: Any
) -> AsyncIterator[RecallClient]:
    """Serve on `store` with the tool switched on, unless the settings say otherwise, and open a conversation."""
    root = provider.url.removesuffix("/v1")
    config = Config(store=str(store), **{"gateway_recall_tool": "yes", **settings})
    async with (
        Threadkeep(config) as tk,
        running_gateway(tk, upstream=provider.url, upstreams={"anthropic": root, "gemini": root}) as url,
        ClientSession() as session,
    ):
        yield RecallClient(wire=wire, url=url.removesuffix("/v1"), session=session, streamed=streamed)
