"""Hermes Agent: its ContextCompressor, and threadkeep as the context engine in its place."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.compactors.driver import Message, Session


class Own:
    """Hermes' ContextCompressor, its tail half of the budget; what it asks its model is asked here."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._engine: Any = None

    def window(self, messages: list[Message], budget: int) -> list[Message]:
        if self._engine is None:
            module = import_module("agent.context_compressor")
            vars(module)["call_llm"] = self._answered
            length = max(8_192, budget * 4)
            self._engine = module.ContextCompressor(
                model="scripted", quiet_mode=True, config_context_length=length, protect_last_n=4
            )
        self._engine.tail_token_budget = max(1, budget // 2)
        kept: list[Message] = self._engine.compress(messages, force=True)
        return kept

    def _answered(self, **asked: Any) -> Any:
        return _Answer(self._session.ask("\n".join(str(message.get("content", "")) for message in asked["messages"])))


class _Answer:
    """A Chat Completion, as far as Hermes looks at it."""

    def __init__(self, text: str) -> None:
        message = type("Message", (), {"content": text, "tool_calls": None})()
        self.choices = [type("Choice", (), {"message": message, "finish_reason": "stop"})()]
        self.usage = None


class Through:
    """threadkeep as the engine, asked to compress where it says that it should be, as the host does."""

    def __init__(self, session: Session) -> None:
        home = session.folder
        told = {"store": str(home / "host.db"), "compact_model": session.model}
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in told.items() if value is not None]
        (home / "threadkeep.toml").write_text("".join(lines), encoding="utf-8")
        self._engine = import_module("threadkeep.adapters.hermes").make_engine()
        self._engine.update_model("scripted", session.threadkeep.Config().model_context_window)
        self._engine.on_session_start("bench", hermes_home=str(home))
        # The engine leaves room below the threshold for an answer and what follows it; the budget is what a window may take.
        self._share = import_module("threadkeep.adapters.hermes.engine").ROOM_PERCENT

    def window(self, messages: list[Message], budget: int) -> list[Message]:
        self._engine.threshold_tokens = max(1, budget * 100 // self._share)
        if not self._engine.should_compress_preflight(messages):
            return messages
        window: list[Message] = self._engine.compress(messages)
        if self._engine.trouble is not None:
            raise RuntimeError(self._engine.trouble)
        return window
