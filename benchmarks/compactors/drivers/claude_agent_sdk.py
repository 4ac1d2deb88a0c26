"""Claude Agent SDK: the `/compact` of the Claude Code that it brings along, on a transcript that is handed to it."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

if TYPE_CHECKING:
    from benchmarks.compactors.driver import Message, Session

MODEL = "claude-sonnet-4-5"
NAMES = UUID("7d0a3ab5-5a0c-4b0e-9d6c-3f6f6e0f6d11")
# How the client asks for a summary, and what it is asked afterwards, so that it shows what it would send.
SUMMARY_REQUEST = "CRITICAL: Respond with TEXT ONLY"
NEXT = "What comes next?"
REMINDER = "<system-reminder>"
QUIET = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "IS_SANDBOX")


class Own:
    """The client resumes the session from a store, is told `/compact`, and then something else: what it sends is the window.

    The store has the transcript as the client would have written it; the next hop goes on from the compacted one, without the
    question that showed it.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._store = _Transcript()
        self._sent: list[Message] = []
        self._shown = 0
        self._url = session.served(self._answered)

    def window(self, messages: list[Message], budget: int) -> list[Message]:
        self._store.add(_blocks(messages[self._shown :]))
        asyncio.run(self._compacted())
        window = _plain(self._sent)
        self._shown = len(window)
        return window

    async def _compacted(self) -> None:
        sdk = import_module("claude_agent_sdk")
        folder = self._session.folder
        (folder / "work").mkdir(exist_ok=True)
        options = sdk.ClaudeAgentOptions(
            model=MODEL,
            cwd=str(folder / "work"),
            session_store=self._store,
            resume=self._store.session_id,
            setting_sources=[],
            tools=[],
            env={
                **dict.fromkeys(QUIET, "1"),
                "HOME": str(folder),
                "CLAUDE_CONFIG_DIR": str(folder / "config"),
                "ANTHROPIC_BASE_URL": self._url,
                "ANTHROPIC_API_KEY": "none",
            },
        )
        self._sent = []
        async with sdk.ClaudeSDKClient(options) as client:
            for prompt in ("/compact", NEXT):
                await client.query(prompt)
                async for message in client.receive_response():
                    if isinstance(message, sdk.ResultMessage) and message.is_error:
                        raise RuntimeError(str(message.result))
        self._store.forget_from(NEXT)
        if not self._sent:
            raise RuntimeError("the client sent nothing after its compaction")

    def _answered(self, path: str, body: Message) -> Any:
        if path.endswith("/count_tokens"):
            return {"input_tokens": 1}
        last = json.dumps(body["messages"][-1:])
        if SUMMARY_REQUEST in last:
            shown = "\n".join(json.dumps(message, ensure_ascii=False) for message in body["messages"])
            return _streamed(f"<summary>\n{self._session.ask(shown)}\n</summary>")
        if NEXT in last:
            self._sent = body["messages"]
        return _streamed("Done.")


class _Transcript:
    """A session's transcript, as the SDK's store has it."""

    def __init__(self) -> None:
        self.session_id = str(uuid5(NAMES, "session"))
        self._rows: list[Message] = []

    def add(self, messages: list[Message]) -> None:
        for message in messages:
            chained = [row["uuid"] for row in self._rows if "uuid" in row and "parentUuid" in row]
            self._rows.append(
                {
                    "parentUuid": chained[-1] if chained else None,
                    "isSidechain": False,
                    "type": message["role"],
                    "message": message,
                    "uuid": str(uuid5(NAMES, str(len(self._rows)))),
                    "timestamp": "2026-01-01T00:00:00.000Z",
                    "sessionId": self.session_id,
                }
            )

    def forget_from(self, prompt: str) -> None:
        """Drop what was said from `prompt` on."""
        at = next((at for at, row in enumerate(self._rows) if _is_said(row, prompt)), len(self._rows))
        del self._rows[at:]

    async def append(self, key: Any, entries: list[Any]) -> None:
        self._rows += [dict(entry) for entry in entries]

    async def load(self, key: Any) -> list[Any] | None:
        return list(self._rows)


def _is_said(row: Message, prompt: str) -> bool:
    return row.get("type") in ("user", "queue-operation") and prompt in json.dumps(row) and not row.get("isCompactSummary")


def _blocks(messages: list[Message]) -> list[Message]:
    """Return messages as the Messages API has them."""
    made: list[Message] = []
    for number, message in enumerate(messages):
        text = [{"type": "text", "text": message["content"]}] if message.get("content") else []
        if message["role"] == "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            made.append({"role": "user", "content": [result]})
        elif message["role"] == "assistant":
            calls = [(call["id"], call["function"]) for call in message.get("tool_calls") or ()]
            used = [
                {"type": "tool_use", "id": call_id, "name": called["name"], "input": json.loads(called["arguments"])}
                for call_id, called in calls
            ]
            usage = {"input_tokens": 1, "output_tokens": 1}
            begun = {"id": f"msg_{number}", "type": "message", "model": MODEL, "usage": usage, "stop_reason": "end_turn"}
            made.append({**begun, "role": "assistant", "content": [*text, *used]})
        else:
            made.append({"role": "user", "content": message["content"]})
    return made


def _plain(messages: list[Message]) -> list[Message]:
    """Return what the client sends, but for its own reminders and the last question, as Chat Completions."""
    made: list[Message] = []
    for message in messages:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        text = "\n".join(
            part["text"]
            for part in parts
            if part["type"] == "text" and not part["text"].lstrip().startswith(REMINDER) and part["text"] != NEXT
        )
        calls = [
            {"id": part["id"], "type": "function", "function": {"name": part["name"], "arguments": json.dumps(part["input"])}}
            for part in parts
            if part["type"] == "tool_use"
        ]
        made += [
            {"role": "tool", "tool_call_id": part["tool_use_id"], "content": _text(part["content"])}
            for part in parts
            if part["type"] == "tool_result"
        ]
        if message["role"] != "system" and (text or calls):
            made.append({"role": message["role"], "content": text or None, **({"tool_calls": calls} if calls else {})})
    return made


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)


def _streamed(text: str) -> str:
    """Return an answer as the events of the Messages API."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    begun = {"id": "msg_a", "type": "message", "role": "assistant", "model": MODEL, "content": [], "usage": usage}
    events: list[Message] = [
        {"type": "message_start", "message": {**begun, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
