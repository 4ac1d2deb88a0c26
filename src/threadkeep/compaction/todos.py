"""What is still to be done, by the agent's own list: the newest call of a tool that keeps one."""

from __future__ import annotations

import msgspec

PLAN_TOOLS = frozenset({"update_plan", "todowrite", "todo_write", "TodoWrite", "write_todos", "todo", "update_todos"})
TODOS_SHOWN = 12
_LISTS = ("plan", "todos", "items", "tasks", "steps")
_WORDS = ("step", "content", "text", "title", "task", "description", "name")
_STATES = ("status", "state")
_CLOSED = frozenset({"completed", "complete", "done", "cancelled", "canceled", "skipped"})


def open_todos(arguments: str) -> tuple[str, ...] | None:
    """Return what a list-keeping call leaves to be done, each with its state, in its order; None where it is no list."""
    try:
        value = msgspec.json.decode(arguments.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    entries = (
        next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None) if isinstance(value, dict) else value
    )
    if not isinstance(entries, list):
        return None
    told = [_told(entry) for entry in entries if isinstance(entry, dict | str)]
    waiting = [text for text in told if text]
    if not told:
        return None
    more = len(waiting) - TODOS_SHOWN
    return (*waiting[:TODOS_SHOWN], *([f"and {more} more"] if more > 0 else []))


def _told(entry: dict[str, object] | str) -> str:
    """Return an entry that is still open, in words; empty where it is closed or says nothing."""
    if isinstance(entry, str):
        return entry
    words = next((text for name in _WORDS if isinstance(text := entry.get(name), str) and text.strip()), "")
    state = next((text for name in _STATES if isinstance(text := entry.get(name), str)), "")
    if not words or state.casefold() in _CLOSED or entry.get("done") is True or entry.get("completed") is True:
        return ""
    return f"[{state}] {words}" if state else words
