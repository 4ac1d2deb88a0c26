"""Checks promise 8 on any recorded run: the prompt a provider receives only grows.

Between two checkpoints each request begins with everything an earlier one held. A checkpoint moves the prefix once: the first
request that carries its state. Where nothing new was said, the next checkpoint has the same state: its first request is then at
least a tenth smaller than the one before, as no checkpoint gains less. Beginning a conversation moves nothing. Cache markers,
item ids and spellings of text that clients change at will do not count; see `settled`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.doubles.provider_rules import without_markers
from tests.doubles.script import JsonObject, Received

STATE_ELEMENT = "session_compact_state"
MODEL_ITEMS = ("reasoning", "compaction")
# The element with which threadkeep's state begins and ends, as it stands in JSON.
STATE_OPENING, STATE_CLOSING = f"<{STATE_ELEMENT}>", f"</{STATE_ELEMENT}>"


_watchers: list[list[Sequence[Received]]] = []


def watch(requests: Sequence[Received]) -> None:
    """Have what a provider will receive looked at by everyone who is `watching`; a double calls this with its own list."""
    for runs in _watchers:
        runs.append(requests)


@contextmanager
def watching() -> Iterator[list[Sequence[Received]]]:
    """Collect every run that begins inside the block; what it holds is read when the block is left, or later."""
    runs: list[Sequence[Received]] = []
    _watchers.append(runs)
    try:
        yield runs
    finally:
        # By identity: two lists of runs are equal as long as both are empty.
        _watchers[:] = [each for each in _watchers if each is not runs]


def prefix_faults(requests: Iterable[Received]) -> list[str]:
    """Return what is wrong with the order of prefixes in a run, request by request; nothing where promise 8 holds."""
    seen: list[list[str]] = []
    states: dict[str, int] = {}
    faults: list[str] = []
    for number, received in enumerate(requests, start=1):
        history = [settled(item) for item in received.history]
        if not history:
            continue
        state = _state(history)
        grows = any(earlier == history[: len(earlier)] for earlier in seen)
        size = sum(map(len, history))
        fresh = state is not None and (state not in states or 10 * size <= 9 * states[state])
        if not grows and not fresh and (state is not None or _answered(received.history)):
            faults.append(f"request {number} of {len(history)} items {_departure(history, seen)}")
        if state is not None:
            states[state] = size
        seen.append(history)
    return faults


def settled(item: Mapping[str, Any]) -> str:
    """Return an item as it must not change once sent.

    Left out are its id and status, cache markers and empty annotations; a string is a list of one text.
    """
    kept: JsonObject = {key: value for key, value in item.items() if key not in ("id", "status") and value is not None}
    if kept.get("type") == "message":
        del kept["type"]
    kept["content"] = list(_parts(kept.get("content") or []))
    return json.dumps(without_markers(kept), sort_keys=True)


def _parts(content: Any) -> Iterator[Any]:
    parts = [{"text": content}] if isinstance(content, str) else content
    for part in parts:
        if isinstance(part, dict):
            dropped = ("annotations", "logprobs")
            bare = {key: value for key, value in part.items() if key not in dropped}
            if isinstance(bare.get("text"), str):
                bare.pop("type", None)
            yield bare
        else:
            yield part


def _state(history: Sequence[str]) -> str | None:
    """Return threadkeep's state as it stands in a history, or None."""
    for text in history:
        start, end = text.find(STATE_OPENING), text.rfind(STATE_CLOSING)
        if 0 <= start < end:
            return text[start:end]
    return None


def _answered(history: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a model has spoken in a history: before it has, a conversation may begin anywhere."""
    return any(item.get("role") in ("assistant", "model") or item.get("type") in MODEL_ITEMS for item in history)


def _departure(history: Sequence[str], seen: Sequence[Sequence[str]]) -> str:
    shared = max((_shared(history, earlier) for earlier in seen), default=0)
    return f"extends none before it: it leaves the nearest after {shared} items, at {history[shared][:120]}"


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))
