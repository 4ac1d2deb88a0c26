"""Reads how tool calls ended, in every dialect: by the client's own fields, an exit code, or a failure's clear last words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from threadkeep.compaction.facts.shell import resolve_path
from threadkeep.items import Item, View, decode_json

Json = dict[str, Any]


TEXT_CHARS: Final = 160

# An exit code stands in the first or last lines of an output, and a line that tells of an error is looked for at both ends.
END_CHARS: Final = 4_000

ERROR_CHARS: Final = 40_000

JSON_CHARS: Final = 2_000_000

_exit_line = re.compile(
    r"^\W{0,3}(?:(?:the )?(?:command|process)\b[^\n]{0,40}?\b)?(?:exit(?:ed)?|finished|completed|failed)?[ _]?(?:with )?"
    r"(?:exit[ _])?(?:code|status)\W{0,3}(-?\d{1,5})\W{0,4}$|^<returncode>(-?\d{1,5})</returncode>$",
    re.IGNORECASE,
)

_sandbox_exit = re.compile(r"failed in sandbox[^\n]{0,200}?exit code: (-?\d{1,5})")

_session = re.compile(r"^Process running with session ID (\d+)$", re.MULTILINE)

_background = re.compile(r"^Command (?:was manually backgrounded|running in (?:the )?background)", re.IGNORECASE)

_declined = re.compile(
    r"The user doesn't want to |\[Request interrupted by user|aborted\b|User rejected|The user (?:denied|rejected|declined)"
    r"|user (?:denied|rejected)|(?:Command|Operation|Tool execution) (?:was )?aborted|(?:\w+ ){0,3}rejected by (?:the )?user",
    re.IGNORECASE,
)

# pi writes this behind what a command had printed when the person stopped it.
_aborted = re.compile(r"(?:^|\n)Command aborted\s*\Z")

# How a tool begins that says it did not do what it was asked.
_refusal = re.compile(
    r"(?:<tool_use_error>|\W{0,4}(?:error\b|failed\b|failure\b|could not\b|cannot\b|can't\b|unable to\b|no such\b|invalid\b"
    r"|permission denied|no replacement was performed|no match|string to replace not found|old_?(?:string|str|text)\b"
    r"|file (?:not found|has not been read|has been (?:unexpectedly )?modified|does not exist|already exists)"
    r"|apply_patch verification failed|exec_command failed|tool \S+ (?:not found|failed)|unknown tool|traceback \(most recent"
    r"|your proposed edit|found \d+ (?:matches|occurrences)|no changes? (?:made|to apply)))",
    re.IGNORECASE,
)

_plain_error = re.compile(r"<tool_use_error>|\W{0,4}error\s*[:(]|traceback \(most recent", re.IGNORECASE)
_error = re.compile(
    r"^(?=[^\n]{0,400}?(?:(?:Error|Exception)\b ?:|\berror(?:\[\w+\])?:|\berror TS\d+|\bFAILED\b|\bfatal: |\bsyntax error\b"
    r"|panicked at|\bnpm ERR!"
    r"|: command not found|: No such file or directory|\*\*\* \[|^\s*[×✗✖] ))[^\n]+$",
    re.MULTILINE,
)

_traceback_end = re.compile(r"^(?:[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt))\b(?::.*)?$")

_broken_end = re.compile(
    r"^(?:make(?:\[\d+\])?: \*\*\* |npm ERR!|fatal: |error: |bash: .*: command not found|=+ .*\b\d+ (?:failed|errors?)\b"
    r"|FAILED \(|test result: FAILED)"
)

_control = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\x1b\[[0-9;]*[A-Za-z]")

# `git commit` exits with 1 where there is nothing left to commit.
_harmless = re.compile(r"^nothing (?:added )?to commit\b", re.MULTILINE)

# SWE-agent ends each output with the state of its shell.
_open_file = re.compile(r"^\(Open file: ([^\n)]+)\)\s*$", re.MULTILINE)

_prompt = re.compile(r"\((?:Open file|Current directory): |bash-\$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a call ended.

    Attributes:
        ok: None where nothing tells.
        told: Whether the client's own fields say so, as against the text.
        outcome: On one line: empty where there is nothing to say.
        session: The process it left running.
    """

    id: str
    text: str
    ok: bool | None
    told: bool
    outcome: str = ""
    declined: bool = False
    session: str = ""


def read_results(view: View, item: Item | None) -> Iterator[Result]:
    """Yield the results an item brings, each with how its call ended."""
    fields = read_fields(item)
    content = fields.get("content") if fields else None
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    results = [block for block in blocks if isinstance(block.get("tool_use_id"), str)]
    if results:
        closed = set(view.closes)
        for block in results:
            if block["tool_use_id"] in closed:
                flag = block.get("is_error")
                yield _judge_result(
                    block["tool_use_id"], _join_text(block.get("content")), failed=flag if isinstance(flag, bool) else None
                )
        return
    responses = find_parts(fields, "functionResponse") if fields else []
    for call_id, answered in zip(view.closes, responses, strict=False):
        response = answered.get("response")
        said = response if isinstance(response, dict) else {}
        name = "error" if "error" in said else "output"
        text = said.get(name)
        shown = text if isinstance(text, str) else view.text if len(responses) == 1 else str(said)
        yield _judge_result(call_id, shown, failed=True if name == "error" else None)
    if responses:
        return
    failed = True if fields and fields.get("status") == "failed" else None
    payload = fields.get("output") if fields else None
    if isinstance(payload, dict) and isinstance(payload.get("success"), bool):
        failed = not payload["success"]
    for call_id in view.closes[:1]:
        yield _judge_result(call_id, view.text, failed=failed)


def flatten(text: str, *, limit: int = TEXT_CHARS) -> str:
    """Return text on one line, without control characters, cut at `limit`."""
    flat = " ".join(_control.sub("", text[: limit * 8]).encode("utf-8", "replace").decode("utf-8").split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def find_open_file(text: str) -> str:
    """Return the file that SWE-agent's shell has open behind an answer; empty where the answer says nothing of it."""
    found = _open_file.search(text[-END_CHARS:])
    return resolve_path(found[1].strip()) if found and found[1].strip() != "n/a" else ""


def find_error_line(text: str) -> str:
    """Return the line of an output that says what went wrong; empty where none does."""
    parts = (text,) if len(text) <= 2 * ERROR_CHARS else (text[:ERROR_CHARS], text[-ERROR_CHARS:])
    for part in parts:
        if (found := _error.search(part)) is not None:
            return flatten(found[0])
    return ""


def find_parts(fields: Json, name: str) -> list[Json]:
    """Return the values of that name among the parts of a Gemini content, in order."""
    parts = fields.get("parts")
    found = (part.get(name) for part in parts if isinstance(part, dict)) if isinstance(parts, list) else ()
    return [value for value in found if isinstance(value, dict)]


def read_fields(item: Item | None) -> Json | None:
    if item is None:
        return None
    try:
        value = decode_json(item.raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _judge_result(call_id: str, text: str, *, failed: bool | None) -> Result:
    """Return how a call ended: by the client's flag or exit code, else by what a failure clearly leaves in the last lines."""
    text, code, failed = _unwrap_json(text.removeprefix("OBSERVATION:\n"), failed=failed)
    if failed is not False and (_declined.match(text.lstrip()) or _aborted.search(text[-END_CHARS:])):
        return Result(id=call_id, text=text, ok=None, told=True, declined=True, outcome="aborted")
    if failed is False:
        code = 0
    elif code is None:
        code = _find_exit_code(text)
    session = _session.search(text[:END_CHARS])
    if session is not None and code is None:
        return Result(id=call_id, text=text, ok=None, told=True, outcome=f"started, session {session[1]}", session=session[1])
    if _background.match(text):
        return Result(id=call_id, text=text, ok=None, told=True, outcome="started in the background")
    if code is None and failed is None:
        broken = _find_failure(text)
        return Result(id=call_id, text=text, ok=False if broken else None, told=False, outcome=broken)
    if failed is not True and _harmless.search(text[-END_CHARS:]):
        return Result(id=call_id, text=text, ok=None, told=True, outcome="nothing to commit")
    if failed or code:
        said = find_error_line(text) or _find_last_line(text)
        parts = (f"exit {code}" if code else "", said)
        return Result(id=call_id, text=text, ok=False, told=True, outcome=": ".join(part for part in parts if part) or "failed")
    return Result(id=call_id, text=text, ok=True, told=True, outcome="ok")


def is_refusal_text(text: str, *, edits: bool) -> bool:
    """Whether a tool says at once that it did not do what it was asked.

    One that edits files has many ways to say so. The answer of any other tool may begin with such words and mean something else,
    so only a plain error counts.
    """
    return (_refusal if edits else _plain_error).match(text.lstrip()[:400]) is not None


def _unwrap_json(text: str, *, failed: bool | None) -> tuple[str, int | None, bool | None]:
    """Return the text, exit code and failure of an output that is JSON; an output that is not comes back as it is."""
    if not text.startswith(("{", "[")) or len(text) > JSON_CHARS:
        return text, None, failed
    try:
        value = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return text, None, failed
    if isinstance(value, list):
        return _merge_results(text, value, failed=failed)
    if not isinstance(value, dict):
        return text, None, failed
    held = value.get("metadata")
    code = _find_code(held) if isinstance(held, dict) else None
    code = code if code is not None else _find_code(value)
    inner = next((value[name] for name in ("output", "stdout", "result") if isinstance(value.get(name), str)), text)
    error = value.get("error")
    if failed is None and value.get("success") is False:
        failed = True
    elif failed is None and isinstance(error, str) and error.strip() and code is None:
        failed, inner = True, error
    elif failed is None and value.get("success") is True and code is None:
        failed = False
    return inner, code, failed


def _merge_results(text: str, values: list[Any], *, failed: bool | None) -> tuple[str, int | None, bool | None]:
    """Return one outcome for a list of them: Cline's, and those of the Responses shell tool."""
    parts = [value for value in values if isinstance(value, dict)]
    flags = [part["success"] for part in parts if isinstance(part.get("success"), bool)]
    ends = [part["outcome"] for part in parts if isinstance(part.get("outcome"), dict)]
    codes = [code for end in ends if (code := _find_code(end)) is not None]
    names = ("result", "error", "stdout", "stderr")
    inner = "\n".join(part[name] for part in parts for name in names if isinstance(part.get(name), str))
    code = next((code for code in codes if code), codes[0] if codes else None)
    if failed is None and flags:
        failed = not all(flags)
    return inner or text, code, failed


def _find_code(fields: Mapping[str, Any]) -> int | None:
    found = (fields.get(name) for name in ("exit_code", "exitCode", "returncode", "return_code"))
    return next((code for code in found if type(code) is int), None)


def _find_exit_code(text: str) -> int | None:
    """Return the exit code that a client wrote into the first or last lines of an output."""
    head = text[:END_CHARS].split("\n")[:5]
    tail = text[-END_CHARS:].rstrip().split("\n")[-6:]
    for line in (*head, *reversed(tail)):
        if len(line) <= 120 and (found := _exit_line.match(line.strip())) is not None:
            return int(found[1] or found[2])
    sandbox = _sandbox_exit.match(text)
    return int(sandbox[1]) if sandbox else None


def _find_failure(text: str) -> str:
    """Return the line by which an output without an exit code clearly ends in a failure; empty where it does not."""
    tail = [line for line in text[-END_CHARS:].splitlines() if line.strip() and not _prompt.match(line)]
    if not tail:
        return ""
    last = tail[-1].strip()
    if "Traceback (most recent call last)" in text and _traceback_end.match(last):
        return flatten(last)
    return next((flatten(line) for line in tail[-3:] if _broken_end.match(line)), "")


def _find_last_line(text: str) -> str:
    lines = (line for line in reversed(text[-END_CHARS:].splitlines()) if line.strip() and not _exit_line.match(line.strip()))
    return flatten(next(lines, ""))


def _join_text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text") if isinstance(part, dict) else None for part in parts)
    found = "\n".join(text for text in texts if isinstance(text, str))
    # Cline puts its own objects where the API has blocks.
    return found or (
        msgspec.json.encode(content).decode()
        if parts and all(isinstance(part, dict) and "success" in part for part in parts)
        else ""
    )
