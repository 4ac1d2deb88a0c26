"""OpenAI Agents SDK: OpenAIResponsesCompactionSession, also behind threadkeep's gateway, and threadkeep as the session."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.compactors.driver import Message, Session

MODEL = "gpt-5"
COMPACTION = "compaction"
# A compaction among messages, until it is an item again.
SEALED = "sealed"


class Own:
    """OpenAIResponsesCompactionSession over its SQLite session; the provider's side of `responses.compact` is scripted."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def window(self, messages: list[Message], budget: int) -> list[Message]:
        provider = _Provider(self._session)

        class Responses:
            async def compact(self, **asked: Any) -> Any:
                return type("Compacted", (), provider.compacted(asked["input"]))()

        return asyncio.run(_compacted(messages, client=type("Client", (), {"responses": Responses()})()))


class BehindGateway:
    """The same session with the SDK's own client, through threadkeep's gateway to the same script.

    Before each compaction the history goes out once as a turn does, so that the gateway knows it, and compacts it for the
    provider where it is over the budget; it asks no model for that.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._provider = session.served(_Provider(session).answered)

    def window(self, messages: list[Message], budget: int) -> list[Message]:
        return asyncio.run(self._relayed(messages, budget))

    async def _relayed(self, messages: list[Message], budget: int) -> list[Message]:
        threadkeep, serve = self._session.threadkeep, import_module("threadkeep.gateway.serve")
        openai = import_module("openai").AsyncOpenAI
        settings = replace(self._session.settings(budget), compact_model=None)
        async with (
            threadkeep.Threadkeep(settings) as tk,
            serve.running_gateway(tk, upstream=f"{self._provider}/v1", auto_compact=True) as url,
            openai(base_url=f"{url}/v1", api_key="none") as client,
        ):
            await client.responses.create(model=MODEL, input=_items(messages))
            return await _compacted(messages, client=client)


class _Provider:
    """A provider that compacts: it hands the user's messages back as they are, and one sealed item for the rest."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def compacted(self, items: list[Message]) -> dict[str, Any]:
        spoken = [item for item in items if item.get("role") == "user"]
        summary = self._session.ask("\n".join(json.dumps(item, ensure_ascii=False) for item in items))
        return {"output": [*spoken, {"id": "cmp_1", "type": COMPACTION, "encrypted_content": summary}], "usage": None}

    def answered(self, path: str, body: Message) -> Any:
        begun = {"id": "resp_1", "created_at": 0, "model": MODEL, "status": "completed"}
        if path.endswith("/compact"):
            return {**begun, "object": "response.compaction", **self.compacted(body["input"])}
        content = [{"type": "output_text", "text": "Done.", "annotations": []}]
        answer = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
        return {**begun, "object": "response", "output": [answer]}


async def _compacted(messages: list[Message], *, client: Any) -> list[Message]:
    agents, memory = import_module("agents"), import_module("agents.memory")
    kept = agents.SQLiteSession("bench")
    session = memory.OpenAIResponsesCompactionSession("bench", kept, client=client, model=MODEL, compaction_mode="input")
    try:
        await session.add_items(_items(messages))
        await session.run_compaction({"force": True, "compaction_mode": "input"})
        return _plain(await session.get_items())
    finally:
        kept.close()


class Through:
    """threadkeep as the session: what is new is added, and the items for the next run are taken."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._handed_out = 0

    def window(self, messages: list[Message], budget: int) -> list[Message]:
        session = import_module("threadkeep.adapters.openai_agents").ThreadkeepSession("bench", self._session.settings(budget))

        async def followed() -> list[Any]:
            await session.add_items(_items(messages[self._handed_out :]))
            # Added, whatever becomes of the compaction.
            self._handed_out = len(messages)
            items: list[Any] = await session.get_items()
            return items

        window = _plain(asyncio.run(followed()))
        self._handed_out = len(window)
        return window


def _items(messages: list[Message]) -> list[Message]:
    """Return messages as items of the Responses API."""
    items: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            items.append({"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]})
            continue
        if message.get(SEALED):
            items.append({"type": COMPACTION, "encrypted_content": message["content"]})
            continue
        if message.get("content"):
            items.append({"role": message["role"], "content": message["content"]})
        items += [
            {"type": "function_call", "call_id": call["id"], **call["function"]} for call in message.get("tool_calls") or ()
        ]
    return items


def _plain(items: list[Any]) -> list[Message]:
    made: list[Message] = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            call = {"id": item["call_id"], "type": "function", "function": {"name": item["name"], "arguments": item["arguments"]}}
            made.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind == "function_call_output":
            made.append({"role": "tool", "tool_call_id": item["call_id"], "content": str(item["output"])})
        elif kind == COMPACTION:
            made.append({"role": "assistant", "content": item["encrypted_content"], SEALED: True})
        elif kind == "message":
            content = item["content"]
            text = content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)
            made.append({"role": item["role"], "content": text})
    return made
