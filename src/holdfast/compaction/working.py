"""What the thread works on, computed from its items and never from a model: files, commands and their outcome, errors, plans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from holdfast.items import ItemKind, View, open_calls
from holdfast.thread import Pointer

FILES_SHOWN = 16
COMMANDS_SHOWN = 8
IMAGES_SHOWN = 4
LINE_CHARS = 160
PLAN_CHARS = 1_200
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
PLAN_TOOLS = frozenset({"update_plan", "todowrite", "todo_write", "TodoWrite", "write_todos"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """An item with its view and the record it comes from."""

    view: View
    source: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line about the work, and the record that shows it."""

    text: str
    source: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """What the thread works on, newest last in every list."""

    files: tuple[Line, ...] = ()
    images: tuple[Line, ...] = ()
    commands: tuple[Line, ...] = ()
    open_calls: tuple[Line, ...] = ()
    last_error: Line | None = None
    plan: Line | None = None


def observe(items: Sequence[Observed]) -> Working:
    """Return the working state that a run of items shows."""
    files: dict[str, Pointer] = {}
    commands: list[Line] = []
    calls: dict[str, Observed] = {}
    images: list[Line] = []
    last_error: Line | None = None
    plan: Line | None = None
    for seen in items:
        match seen.view.kind:
            case ItemKind.CALL:
                for call_id in seen.view.opens:
                    calls[call_id] = seen
                for path in _paths(seen.view.text):
                    files.pop(path, None)
                    files[path] = seen.source
                if seen.view.tool in PLAN_TOOLS:
                    plan = Line(text=seen.view.text[:PLAN_CHARS], source=seen.source)
            case ItemKind.OUTPUT:
                error = failure(seen.view.text)
                if error:
                    last_error = Line(text=error, source=seen.source)
                answered = [calls[call_id] for call_id in seen.view.closes if call_id in calls]
                commands.extend(_command(call, outcome=error or "ok", source=seen.source) for call in answered)
            case ItemKind.MESSAGE:
                if seen.view.images and seen.view.by_person:
                    images.append(Line(text=one_line(seen.view.said) or "without words", source=seen.source))
            case ItemKind.REASONING | ItemKind.OPAQUE:
                continue
    waiting = [calls[call_id] for call_id in open_calls([seen.view for seen in items]) if call_id in calls]
    return Working(
        files=tuple(Line(text=path, source=source) for path, source in list(files.items())[-FILES_SHOWN:]),
        images=tuple(images[-IMAGES_SHOWN:]),
        commands=tuple(commands[-COMMANDS_SHOWN:]),
        open_calls=tuple(_command(call, outcome="still running", source=call.source) for call in waiting),
        last_error=last_error,
        plan=plan,
    )


def failure(output: str) -> str | None:
    """Return the line of a tool's output that says it failed, or None.

    An exit code decides where there is one; otherwise a line that reads like an error does.
    """
    code = _said_exit(output[-EXIT_CHARS:]) or (_said_exit(output[:EXIT_CHARS]) if len(output) > EXIT_CHARS else None)
    if code and code[1] == "0":
        return None
    error = _error.search(output) if any(word in output for word in _ERROR_WORDS) else None
    if error:
        return one_line(_line_around(output, error.start()))
    return f"exit code {code[1]}" if code else None


def _said_exit(text: str) -> re.Match[str] | None:
    return _exit_code.search(text) if "exit" in text or "Exit" in text or "EXIT" in text else None


def _line_around(text: str, place: int) -> str:
    """Return the line of `text` that holds `place`; a line also ends where JSON inside the text writes its end."""
    start = max((begin + len(mark) for mark in ("\n", "\\n") if (begin := text.rfind(mark, 0, place)) >= 0), default=0)
    end = min((end for mark in ("\n", "\\n") if (end := text.find(mark, place)) >= 0), default=len(text))
    return text[start:end]


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
