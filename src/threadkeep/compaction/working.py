"""What the thread works on, computed from its items and never from a model: files, commands and their outcome, errors, plans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from threadkeep.compaction.images import pictures, told_picture
from threadkeep.compaction.todos import PLAN_TOOLS, open_todos
from threadkeep.items import Item, ItemKind, View, open_calls
from threadkeep.thread import Pointer

FILES_SHOWN = 16
COMMANDS_SHOWN = 8
IMAGES_SHOWN = 4
LINE_CHARS = 160
# An exit code stands at one of the ends of an output.
EXIT_CHARS = 2_000

_path = re.compile(
    r"(?<![\w/.:@-])(?:~?\.{0,2}/)?(?:[\w.@+-]++/)++[\w.@+-]*\w"
    r"|(?<![\w/.:@-])[\w-]+\.(?:py|pyi|rs|go|c|h|cc|cpp|hpp|java|kt|js|jsx|ts|tsx|mjs|css|html|md|rst|txt|toml|yaml|yml|json|jsonl|"
    r"sql|sh|cfg|ini|lock|env|xml|csv|rb|php|swift|ex|exs|proto|tf)\b(?![\w/(])"
)
_exit_code = re.compile(r"exit(?:ed)?[ _]?(?:with )?(?:code|status)[\"']?\s*[:= ]\s*[\"']?(-?\d{1,3})\b", re.IGNORECASE)
# An output may itself be JSON, whose lines end in two signs.
_error = re.compile(r"(?:Error|Exception):|(?:\b|(?<=\\n))(?:error(?:\[\w+\])?: |FAILED\b|panicked at\b|fatal: )")
# Looking for plain words is many times faster than matching, and nearly every output has none of these.
_ERROR_WORDS = ("Error:", "Exception:", "error:", "error[", "FAILED", "panicked at", "fatal: ")
# What a call does to the files it names: by the tool's name, or, in a shell, by the command.
_writing_tool = re.compile(r"write|edit|patch|create|replace|insert", re.IGNORECASE)
_writing_command = re.compile(r"\bapply_patch\b|\bsed\s+-i|\btee\b|(?<![0-9&=-])>>?\s*[\w./~]|\b(?:mv|cp|touch|rm|mkdir)\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """An item with its view and the record it comes from."""

    view: View
    source: Pointer
    item: Item | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line about the work, and the record that shows it."""

    text: str
    source: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """What the thread works on, newest last in every list.

    Attributes:
        files: Files that calls named; `written` are those that a call changed.
        images: Pictures a person sent.
        plan: The newest call that keeps a list of what is to be done; `todos` what it leaves open, None where it is no list.
    """

    files: tuple[Line, ...] = ()
    written: frozenset[str] = frozenset()
    images: tuple[Line, ...] = ()
    commands: tuple[Line, ...] = ()
    open_calls: tuple[Line, ...] = ()
    last_error: Line | None = None
    plan: Line | None = None
    todos: tuple[Line, ...] | None = None


def observe(items: Sequence[Observed]) -> Working:
    """Return the working state that a run of items shows."""
    files: dict[str, Pointer] = {}
    written: set[str] = set()
    outputs: list[Observed] = []
    ran: list[tuple[Observed, Observed]] = []
    calls: dict[str, Observed] = {}
    images: list[Line] = []
    plan: Line | None = None
    for seen in items:
        match seen.view.kind:
            case ItemKind.CALL:
                for call_id in seen.view.opens:
                    calls[call_id] = seen
                if seen.view.tool in PLAN_TOOLS:
                    plan = Line(text=seen.view.text, source=seen.source)
                    continue
                paths = _paths(seen.view.text)
                for path in paths:
                    files.pop(path, None)
                    files[path] = seen.source
                if paths and _writes(seen.view):
                    written.update(paths)
            case ItemKind.OUTPUT:
                outputs.append(seen)
                ran.extend((calls[call_id], seen) for call_id in seen.view.closes if call_id in calls)
            case ItemKind.MESSAGE:
                if seen.view.images and seen.view.by_person:
                    images.extend(_images(seen))
            case ItemKind.REASONING | ItemKind.OPAQUE:
                continue
    waiting = [calls[call_id] for call_id in open_calls([seen.view for seen in items]) if call_id in calls]
    return Working(
        files=tuple(Line(text=path, source=source) for path, source in list(files.items())[-FILES_SHOWN:]),
        written=frozenset(written),
        images=tuple(images[-IMAGES_SHOWN:]),
        commands=tuple(_ran(call, output) for call, output in ran[-COMMANDS_SHOWN:]),
        open_calls=tuple(_command(call, outcome="still running", source=call.source) for call in waiting),
        last_error=_last_error(outputs),
        plan=plan,
        todos=_todos(plan) if plan else None,
    )


def _last_error(outputs: Sequence[Observed]) -> Line | None:
    """Return what the newest output says that tells of a failure; those before it are not read."""
    errors = ((failure(output.view.text), output.source) for output in reversed(outputs))
    return next((Line(text=error, source=source) for error, source in errors if error), None)


def _ran(call: Observed, output: Observed) -> Line:
    return _command(call, outcome=failure(output.view.text) or "ok", source=output.source)


def _todos(plan: Line) -> tuple[Line, ...] | None:
    found = open_todos(plan.text)
    return None if found is None else tuple(Line(text=one_line(text), source=plan.source) for text in found)


def _images(seen: Observed) -> list[Line]:
    """Return a line for each picture of a message; its words, which the ledger keeps, are the caption of all."""
    caption = one_line(seen.view.said) or "without words"
    found = pictures(seen.item.raw)[-IMAGES_SHOWN:] if seen.item else []
    told = [told_picture(caption, picture) for picture in found] or [told_picture(caption, None)]
    return [Line(text=text, source=seen.source) for text in told]


def _writes(view: View) -> bool:
    """Whether a call changes the files it names, as far as its tool's name or its command tells."""
    return _writing_tool.search(view.tool or "") is not None or _writing_command.search(call_text(view)) is not None


def failure(output: str) -> str | None:
    """Return the line of a tool's output that says it failed, or None.

    An exit code decides where there is one; otherwise a line that reads like an error does.
    """
    code = _said_exit(output[-EXIT_CHARS:]) or (_said_exit(output[:EXIT_CHARS]) if len(output) > EXIT_CHARS else None)
    if code and code[1] == "0":
        return None
    error = _error.search(output) if any(word in output for word in _ERROR_WORDS) else None
    if error:
        return one_line(line_around(output, error.start())[0])
    return f"exit code {code[1]}" if code else None


def _said_exit(text: str) -> re.Match[str] | None:
    return _exit_code.search(text) if "exit" in text or "Exit" in text or "EXIT" in text else None


def line_around(text: str, place: int) -> tuple[str, int]:
    """Return the line of `text` that holds `place` and where it begins; a line also ends where JSON inside the text ends one."""
    start = max((begin + len(mark) for mark in ("\n", "\\n") if (begin := text.rfind(mark, 0, place)) >= 0), default=0)
    end = min((end for mark in ("\n", "\\n") if (end := text.find(mark, place)) >= 0), default=len(text))
    return text[start:end], start


def one_line(text: str) -> str:
    """Return text on one line, cut at a readable length."""
    flat = " ".join(text.split())
    return flat if len(flat) <= LINE_CHARS else f"{flat[: LINE_CHARS - 1]}…"


def call_text(view: View) -> str:
    """Return a call as a person would write it: the command if it has one, else its arguments."""
    try:
        arguments = msgspec.json.decode(view.text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return view.text
    if isinstance(arguments, dict):
        for name in ("cmd", "command", "path", "file_path", "query", "pattern"):
            value = arguments.get(name)
            if isinstance(value, str):
                return value
            if isinstance(value, list) and all(isinstance(part, str) for part in value):
                return " ".join(value)
    return view.text


def _command(call: Observed, *, outcome: str, source: Pointer) -> Line:
    return Line(text=f"{call.view.tool}: {one_line(call_text(call.view))} → {one_line(outcome)}", source=source)


def _paths(arguments: str) -> list[str]:
    """Return the paths a call names, in order."""
    return [path for path in _path.findall(arguments) if len(path) <= LINE_CHARS]
