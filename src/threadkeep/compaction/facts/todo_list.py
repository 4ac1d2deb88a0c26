"""Reads the agent's todo list, as each client's tools write it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from threadkeep.compaction.facts.tool_outputs import TEXT_CHARS, flatten

Json = dict[str, Any]


TODOS: Final = 24

LIST_TOOLS: Final = frozenset(
    "update_plan todowrite todo_write write_todos todo update_todos update_todo_list manage_todo_list task_tracker"
    " todo__todo_write taskcreate taskupdate".split()
)

_ENTRIES: Final = ("plan", "todos", "items", "tasks", "steps", "todoList", "todo_list", "task_list", "content")

_WORDS: Final = ("step", "content", "text", "title", "task", "description", "name", "subject")

_STATES: Final = ("status", "state")

_DONE: Final = frozenset("completed complete done cancelled canceled skipped finished".split())

_RUNNING: Final = frozenset("in_progress in-progress inprogress active doing started".split())

_check = re.compile(r"^\s*[-*]\s*\[([ xX~\-/])\]\s*(\S.*)$", re.MULTILINE)

_CHECKS: Final = {"x": "done", "X": "done", "-": "in progress", "~": "in progress", "/": "in progress"}


class Todo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of the agent's list. `status` is "pending", "in progress" or "done"."""

    text: str
    status: str = "pending"
    id: str = ""
    source: str = ""


class TodoChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of the list: a call replaces it, adds an entry, or changes the entries it names."""

    entries: tuple[Todo, ...] = ()
    done: int = 0
    how: Literal["all", "add", "update"] = "all"


def read_change(tool: str, fields: Json) -> TodoChange | None:
    if tool == "taskcreate":
        text = fields.get("subject") or fields.get("description")
        return TodoChange(entries=(Todo(text=flatten(text)),), how="add") if isinstance(text, str) and text.strip() else None
    if tool == "taskupdate":
        return _read_task_update(fields)
    entries = next((fields[name] for name in _ENTRIES if isinstance(fields.get(name), list | str)), None)
    if isinstance(entries, str):
        found = [Todo(text=flatten(text), status=_CHECKS.get(mark, "pending")) for mark, text in _check.findall(entries)]
    elif isinstance(entries, list):
        found = [todo for entry in entries if (todo := _read_todo(entry)) is not None]
    else:
        return None
    if not found and entries:
        return None
    open_ones = tuple(todo for todo in found if todo.status != "done")
    merge = fields.get("merge") is True
    if merge:
        return TodoChange(entries=tuple(found[:TODOS]), how="update")
    return TodoChange(entries=open_ones[:TODOS], done=len(found) - len(open_ones))


def _read_task_update(fields: Json) -> TodoChange | None:
    name = fields.get("taskId")
    if not isinstance(name, str) or not name:
        return None
    subject, status = fields.get("subject"), fields.get("status")
    text = flatten(subject) if isinstance(subject, str) else ""
    state = "deleted" if status == "deleted" else _read_status(status) if isinstance(status, str) else ""
    return TodoChange(entries=(Todo(text=text, status=state, id=name[:TEXT_CHARS]),), how="update")


def _read_todo(entry: object) -> Todo | None:
    if isinstance(entry, str):
        return Todo(text=flatten(entry)) if entry.strip() else None
    if not isinstance(entry, dict):
        return None
    words = next((text for name in _WORDS if isinstance(text := entry.get(name), str) and text.strip()), "")
    state = next((text for name in _STATES if isinstance(text := entry.get(name), str)), "")
    finished = entry.get("done") is True or entry.get("completed") is True
    name = entry.get("id")
    known = str(name)[:TEXT_CHARS] if isinstance(name, str | int) else ""
    if not words and not known:
        return None
    return Todo(text=flatten(words), status="done" if finished else _read_status(state), id=known)


def _read_status(word: str) -> str:
    folded = word.casefold()
    return "done" if folded in _DONE else "in progress" if folded in _RUNNING else "pending"


def change_list(
    todos: Sequence[Todo], done: int, change: TodoChange, *, answer: str, source: str
) -> tuple[tuple[Todo, ...], int]:
    """Return the open entries and the number of finished ones after a change that `answer` confirmed."""
    entries = tuple(msgspec.structs.replace(todo, source=source) for todo in change.entries)
    match change.how:
        case "all":
            return entries, change.done
        case "add":
            number = _find_created_id(answer)
            added = (msgspec.structs.replace(todo, id=number) for todo in entries)
            return (*todos, *added)[-TODOS:], done
        case "update":
            for entry in entries:
                todos, done = _update_entry(todos, done, entry)
            return tuple(todos), done


def _update_entry(todos: Sequence[Todo], done: int, entry: Todo) -> tuple[tuple[Todo, ...], int]:
    place = next((index for index, todo in enumerate(todos) if todo.id == entry.id), None)
    over = entry.status in ("done", "deleted")
    if place is None:
        added = (entry,) if entry.text and not over else ()
        return (*todos, *added)[-TODOS:], done
    before, old, after = todos[:place], todos[place], todos[place + 1 :]
    if over:
        return (*before, *after), done + (entry.status == "done")
    new = msgspec.structs.replace(entry, text=entry.text or old.text, status=entry.status or old.status)
    return (*before, new, *after), done


def _find_created_id(answer: str) -> str:
    """Return the number Claude Code gives a task it created."""
    words = answer[:200].replace("#", " ").split()
    return next((word for word in words if word.isdigit()), "")
