"""Conversations of a given size in the Chat Completions language, growing by one turn a request."""

from __future__ import annotations

import json
import random
from typing import Any, Final

WORDS: Final = (
    "ledger invoice parser token window thread commit branch retry queue stream buffer cursor schema index shard replica "
    "latency budget fixture harness snapshot rollback merge digest payload header socket"
).split()
OUTPUT_WORDS: Final = 300

Message = dict[str, Any]


class Conversation:
    """One conversation: a body of about `size` bytes that nobody else sends, and every later one a turn longer."""

    def __init__(self, size: int, *, seed: int, model: str = "bench") -> None:
        self._model = model
        self._random = random.Random(seed)
        self._messages: list[Message] = [
            {"role": "user", "content": f"Session {seed}. Please work through the list. {self._words(8)}"}
        ]
        self._bytes = 0
        self._calls = 0
        while self._bytes < size - 600:
            self._add(self._call(min(OUTPUT_WORDS, max(8, (size - self._bytes) // 8))))
        self._add([{"role": "assistant", "content": "Done so far."}, {"role": "user", "content": "Go on, please."}])

    def next_body(self) -> bytes:
        """Return the next request of the conversation."""
        body = json.dumps({"model": self._model, "stream": True, "messages": self._messages}).encode()
        self._add([{"role": "assistant", "content": "word " * 20}, {"role": "user", "content": f"Next: {self._words(6)}."}])
        return body

    def _call(self, words: int) -> list[Message]:
        self._calls += 1
        called = {"name": "shell", "arguments": json.dumps({"cmd": f"cat part_{self._calls}.py"})}
        name = f"call_{self._calls}"
        return [
            {"role": "assistant", "content": None, "tool_calls": [{"id": name, "type": "function", "function": called}]},
            {"role": "tool", "tool_call_id": name, "content": self._words(words)},
        ]

    def _add(self, messages: list[Message]) -> None:
        self._messages.extend(messages)
        self._bytes += sum(len(json.dumps(message)) for message in messages)

    def _words(self, count: int) -> str:
        return " ".join(self._random.choices(WORDS, k=count))
