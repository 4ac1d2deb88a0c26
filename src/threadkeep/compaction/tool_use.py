"""Reads tool calls and their results out of items, in every dialect, and knows the tools of the clients we meet.

A tool that is not in these tables changes no file, runs no command and keeps no list, whatever its name or arguments say.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from threadkeep.compaction.shell_line import Edit, patch_edits, place, read_line, without_folder, without_heredocs
from threadkeep.items import Item, View, decoded

Json = dict[str, Any]
Does = Literal["edit", "run", "poll", "list", "look", "other"]

TEXT_CHARS: Final = 160
TODOS: Final = 24
OPEN_FILE: Final = "(open file)"
# An exit code stands in the first or last lines of an output, and a line that tells of an error is looked for at both ends.
END_CHARS: Final = 4_000
ERROR_CHARS: Final = 40_000
JSON_CHARS: Final = 2_000_000

# Tools that change the one file they name. Claude Code, opencode, pi, Cline, Roo, qwen-code and Gemini, Hermes, Copilot,
# Cursor, Zed, SWE-agent, OpenHands.
_EDITS: Final = frozenset(
    "edit write multiedit multi_edit notebookedit notebook_edit edit_notebook write_file edit_file create_file create replace"
    " write_to_file replace_in_file apply_diff insert_content search_and_replace search_replace editor str_replace"
    " replace_string_in_file insert_edit_into_file mcp__filesystem__write_file mcp__filesystem__edit_file".split()
)
# Tools whose argument `command` says what they do to the file.
_EDITORS: Final = frozenset(
    "str_replace_editor str_replace_based_edit_tool text_editor file_editor developer__text_editor".split()
)
_EDITOR_COMMANDS: Final = frozenset("create str_replace insert write undo_edit edit append replace".split())
_DELETES: Final = frozenset(("delete_file", "delete", "remove_file"))
_MOVES: Final = frozenset(("move_file", "rename_file", "mcp__filesystem__move_file"))
_PATCHES: Final = frozenset(("apply_patch", "applypatch", "patch", "apply_patch_call", "functions.apply_patch"))
_PATHS: Final = ("file_path", "filePath", "path", "notebook_path", "target_file", "filename", "absolute_path", "target_notebook")
_SHELLS: Final = frozenset(
    "bash shell sh zsh exec_command local_shell local_shell_call shell_call shell_command container.exec run_shell_command"
    " execute_command run_command run_commands terminal run_terminal_cmd run_terminal_command run_in_terminal execute_bash exec"
    " developer__shell unified_exec functions.shell functions.exec_command".split()
)
_COMMANDS: Final = ("command", "cmd", "commands", "script")
_FOLDERS: Final = ("workdir", "cwd", "working_directory", "directory")
_LISTS: Final = frozenset(
    "update_plan todowrite todo_write write_todos todo update_todos update_todo_list manage_todo_list task_tracker"
    " todo__todo_write taskcreate taskupdate".split()
)
_ENTRIES: Final = ("plan", "todos", "items", "tasks", "steps", "todoList", "todo_list", "task_list", "content")
_WORDS: Final = ("step", "content", "text", "title", "task", "description", "name", "subject")
_STATES: Final = ("status", "state")
_DONE: Final = frozenset("completed complete done cancelled canceled skipped finished".split())
_RUNNING: Final = frozenset("in_progress in-progress inprogress active doing started".split())
# Tools that only look. An error of theirs says "not there", which the next look puts right.
_LOOKS: Final = ("read", "grep", "glob", "list", "search", "find", "view", "web", "fetch", "get", "open", "ls", "look", "think")

_check = re.compile(r"^\s*[-*]\s*\[([ xX~\-/])\]\s*(\S.*)$", re.MULTILINE)
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
    r"|user (?:denied|rejected)|(?:Command|Operation|Tool execution) (?:was )?aborted|rejected by (?:the )?user"
    r"|exec command rejected",
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


class Todo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of the agent's list. `status` is "pending", "in progress" or "done"."""

    text: str
    status: str = "pending"
    id: str = ""
    source: str = ""


class TodoChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a call does to the list: it writes it anew, adds an entry, or changes the entries it names."""

    entries: tuple[Todo, ...] = ()
    done: int = 0
    how: Literal["all", "add", "update"] = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call as it stands in an item."""

    id: str
    tool: str
    arguments: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What a call does, as far as its tool is known.

    Attributes:
        text: The call on one line.
        edits: Files it changes if it succeeds.
        keys: What it runs or works on; two calls with one key do the same thing.
        listed: Whether it is worth a line when it succeeds.
        certain: Whether success means that every part succeeded.
        session: The running process it asks about.
    """

    does: Does
    text: str
    edits: tuple[Edit, ...] = ()
    keys: tuple[str, ...] = ()
    listed: bool = False
    certain: bool = True
    session: str = ""
    todos: TodoChange | None = None


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


def calls_in(view: View, item: Item | None) -> Iterator[Call]:
    """Yield the calls an item opens, each with its own tool and arguments."""
    opened = set(view.opens)
    fields = _fields(item)
    if fields is None:
        if len(opened) == 1:
            yield Call(id=view.opens[0], tool=view.tool or "", arguments=_arguments(view.text))
        return
    found = [call for call in _calls(fields) if call.id in opened]
    if not found and len(opened) == 1:
        payload = next((fields[name] for name in ("arguments", "input", "action", "operation") if name in fields), None)
        found = [Call(id=view.opens[0], tool=view.tool or "", arguments=_arguments(payload))]
    yield from found


def results_in(view: View, item: Item | None) -> Iterator[Result]:
    """Yield the results an item brings, each with how its call ended."""
    fields = _fields(item)
    content = fields.get("content") if fields else None
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    results = [block for block in blocks if isinstance(block.get("tool_use_id"), str)]
    if results:
        closed = set(view.closes)
        for block in results:
            if block["tool_use_id"] in closed:
                flag = block.get("is_error")
                yield _result(
                    block["tool_use_id"], _text_of(block.get("content")), failed=flag if isinstance(flag, bool) else None
                )
        return
    failed = True if fields and fields.get("status") == "failed" else None
    closes = view.closes
    if not closes and fields and isinstance(fields.get("tool_call_ids"), list):
        # SWE-agent names the calls of an output in a field of its own.
        closes = tuple(name for name in fields["tool_call_ids"] if isinstance(name, str))
    payload = fields.get("output") if fields else None
    if isinstance(payload, dict) and isinstance(payload.get("success"), bool):
        failed = not payload["success"]
    for call_id in closes[:1]:
        yield _result(call_id, view.text, failed=failed)


def use_of(call: Call) -> Use:
    """Return what a call does. A tool that is not known does nothing that is known."""
    tool = call.tool.casefold()
    arguments = call.arguments
    fields: Json = arguments if isinstance(arguments, dict) else {}
    if tool in _SHELLS:
        return _shell_use(arguments)
    if tool in ("write_stdin", "functions.write_stdin"):
        return Use(
            does="poll",
            text=one_line(f"{call.tool} to session {fields.get('session_id')}"),
            session=str(fields.get("session_id", "")),
        )
    if tool in _PATCHES and (patch := _patch_in(arguments)):
        return _edit_use(call, patch)
    edits = _file_edits(tool, fields)
    if edits is not None:
        return _edit_use(call, edits)
    if tool in ("edit", "insert") and isinstance(fields.get("replace", fields.get("text")), str):
        # SWE-agent edits the file it has open; its answer says which.
        return Use(does="edit", text=call.tool, edits=(Edit(path=OPEN_FILE),), keys=(f"file {OPEN_FILE}",))
    if tool in _LISTS and (change := _todo_change(tool, fields)) is not None:
        return Use(does="list", text=call.tool, todos=change)
    if tool.startswith(_LOOKS):
        return Use(does="look", text=_told_call(call))
    return Use(does="other", text=_told_call(call), keys=(f"tool {call.tool}"[:TEXT_CHARS],))


def one_line(text: str, *, limit: int = TEXT_CHARS) -> str:
    """Return text on one line, without control characters, cut at `limit`."""
    flat = " ".join(_control.sub("", text[: limit * 8]).encode("utf-8", "replace").decode("utf-8").split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def open_file(text: str) -> str:
    """Return the file that SWE-agent's shell has open behind an answer; empty where the answer says nothing of it."""
    found = _open_file.search(text[-END_CHARS:])
    return place(found[1].strip()) if found and found[1].strip() != "n/a" else ""


def error_line(text: str) -> str:
    """Return the line of an output that says what went wrong; empty where none does."""
    parts = (text,) if len(text) <= 2 * ERROR_CHARS else (text[:ERROR_CHARS], text[-ERROR_CHARS:])
    for part in parts:
        if (found := _error.search(part)) is not None:
            return one_line(found[0])
    return ""


def _fields(item: Item | None) -> Json | None:
    if item is None:
        return None
    try:
        value = decoded(item.raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _calls(fields: Json) -> Iterator[Call]:
    listed = fields.get("tool_calls")
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict):
            inner: Json = next((entry[name] for name in ("function", "custom") if isinstance(entry.get(name), dict)), {})
            yield _call(entry.get("id"), inner.get("name"), inner.get("arguments", inner.get("input")))
    content = fields.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(block.get("id"), str) and "input" in block:
            yield _call(block["id"], block.get("name"), block["input"])
    kind = fields.get("type")
    if isinstance(kind, str) and kind.endswith("_call"):
        payload = next((fields[name] for name in ("arguments", "input", "action", "operation") if name in fields), None)
        yield _call(fields.get("call_id") or fields.get("id"), fields.get("name") or kind, payload)


def _call(call_id: object, name: object, payload: object) -> Call:
    return Call(
        id=call_id if isinstance(call_id, str) else "",
        tool=name if isinstance(name, str) else "",
        arguments=_arguments(payload),
    )


def _arguments(payload: object) -> object:
    """Return arguments decoded where they are JSON in a string, and the string itself where they are not."""
    if not isinstance(payload, str) or not payload.lstrip().startswith(("{", "[")):
        return payload
    try:
        return msgspec.json.decode(payload.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return payload


def _told_call(call: Call) -> str:
    fields = call.arguments if isinstance(call.arguments, dict) else {}
    named = (fields.get(name) for name in (*_PATHS, "query", "pattern", "url", "prompt", "description"))
    subject = next((value for value in named if isinstance(value, str) and value.strip()), "")
    return one_line(f"{call.tool} {subject}".strip())


# What a call changes.


def _edit_use(call: Call, edits: tuple[Edit, ...]) -> Use:
    names = ", ".join(edit.path for edit in edits[:3])
    return Use(does="edit", text=one_line(f"{call.tool} {names}".strip()), edits=edits, keys=file_keys(edits))


def file_keys(edits: tuple[Edit, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"file {edit.path}" for edit in edits if edit.effect != "gone"))


def _file_edits(tool: str, fields: Json) -> tuple[Edit, ...] | None:
    """Return the files a call to a file tool changes; None where the tool is no such tool or names no file."""
    if tool in _MOVES:
        old, new = (place(str(fields.get(name) or "")) for name in ("source", "destination"))
        return (Edit(path=old, effect="gone"), Edit(path=new)) if old and new else None
    path = place(next((fields[name] for name in _PATHS if isinstance(fields.get(name), str)), ""))
    if not path:
        return None
    if tool in _EDITORS:
        return (Edit(path=path),) if fields.get("command") in _EDITOR_COMMANDS else None
    if tool in _DELETES:
        return (Edit(path=path, effect="deleted"),)
    if tool in _EDITS or tool == "patch":
        return (Edit(path=path),)
    return None


def _patch_in(arguments: object) -> tuple[Edit, ...]:
    """Return the files of a patch: as text, in a field, or as an operation on one file."""
    if isinstance(arguments, str):
        return patch_edits(arguments)
    if not isinstance(arguments, dict):
        return ()
    operation = arguments.get("type")
    if operation in ("create_file", "update_file", "delete_file"):
        path = place(str(arguments.get("path") or ""))
        return (Edit(path=path, effect="deleted" if operation == "delete_file" else "changed"),) if path else ()
    for name in ("input", "patch", "patchText", "patch_text", "diff"):
        if isinstance(arguments.get(name), str) and (edits := patch_edits(arguments[name])):
            return edits
    return ()


# What a call runs.


def _shell_use(arguments: object) -> Use:
    fields: Json = arguments if isinstance(arguments, dict) else {"command": arguments}
    script = _script(next((fields[name] for name in _COMMANDS if fields.get(name)), None))
    folder = next((fields[name] for name in _FOLDERS if isinstance(fields.get(name), str)), "")
    line = read_line(script, folder="" if folder in (".", "./") else folder)
    if not script.strip() or line.looks:
        return Use(does="look", text=one_line(script))
    if line.edits_only:
        keys = file_keys(line.edits) or tuple(f"$ {key}" for key in line.keys)
        return Use(does="edit", text=_told_command(script), edits=line.edits, keys=keys, certain=line.certain)
    keys = tuple(f"$ {key}" for key in line.keys)
    return Use(does="run", text=_told_command(script), edits=line.edits, keys=keys, listed=True, certain=line.certain)


def _script(command: object) -> str:
    """Return a command as a shell would read it, from any of the forms clients use."""
    if isinstance(command, str):
        return command
    if not isinstance(command, list):
        return ""
    words = [word for word in command if isinstance(word, str)]
    if len(words) >= 3 and words[0].rpartition("/")[2] in ("bash", "sh", "zsh") and words[1].startswith("-") and "c" in words[1]:
        return words[2]
    # One word with blanks in it is a whole line: Cline and the Responses shell tool send a list of lines.
    if words and all(" " in word or word.isalnum() for word in words) and any(" " in word for word in words[:1]):
        return "\n".join(words)
    return shlex.join(words)


def _told_command(script: str) -> str:
    shown = without_folder(without_heredocs(script))
    lines = [line.strip() for line in shown.strip().split("\n") if line.strip() and not line.lstrip().startswith("#")]
    return one_line(" ; ".join(lines[:4]) or script)


# How it ended.


def _result(call_id: str, text: str, *, failed: bool | None) -> Result:
    """Return how a call ended: by the client's flag or exit code, else by what a failure clearly leaves in the last lines."""
    text, code, failed = _unwrapped(text.removeprefix("OBSERVATION:\n"), failed=failed)
    if failed is not False and (_declined.match(text.lstrip()) or _aborted.search(text[-END_CHARS:])):
        return Result(id=call_id, text=text, ok=None, told=True, declined=True, outcome="aborted")
    if failed is False:
        code = 0
    elif code is None:
        code = _exit_code(text)
    session = _session.search(text[:END_CHARS])
    if session is not None and code is None:
        return Result(id=call_id, text=text, ok=None, told=True, outcome=f"started, session {session[1]}", session=session[1])
    if _background.match(text):
        return Result(id=call_id, text=text, ok=None, told=True, outcome="started in the background")
    if code is None and failed is None:
        broken = _broken(text)
        return Result(id=call_id, text=text, ok=False if broken else None, told=False, outcome=broken)
    if failed is not True and _harmless.search(text[-END_CHARS:]):
        return Result(id=call_id, text=text, ok=None, told=True, outcome="nothing to commit")
    if failed or code:
        said = error_line(text) or _last_line(text)
        parts = (f"exit {code}" if code else "", said)
        return Result(id=call_id, text=text, ok=False, told=True, outcome=": ".join(part for part in parts if part) or "failed")
    return Result(id=call_id, text=text, ok=True, told=True, outcome="ok")


def refused(text: str) -> bool:
    """Whether a tool that changes files, or one that is not known, says at once that it did not do what it was asked."""
    return _refusal.match(text.lstrip()[:400]) is not None


def _unwrapped(text: str, *, failed: bool | None) -> tuple[str, int | None, bool | None]:
    """Return the text, exit code and failure of an output that is JSON; an output that is not comes back as it is."""
    if not text.startswith(("{", "[")) or len(text) > JSON_CHARS:
        return text, None, failed
    try:
        value = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return text, None, failed
    if isinstance(value, list):
        return _several(text, value, failed=failed)
    if not isinstance(value, dict):
        return text, None, failed
    held = value.get("metadata")
    code = _code_in(held) if isinstance(held, dict) else None
    code = code if code is not None else _code_in(value)
    inner = next((value[name] for name in ("output", "stdout", "result") if isinstance(value.get(name), str)), text)
    error = value.get("error")
    if failed is None and value.get("success") is False:
        failed = True
    elif failed is None and isinstance(error, str) and error.strip() and code is None:
        failed, inner = True, error
    elif failed is None and value.get("success") is True and code is None:
        failed = False
    return inner, code, failed


def _several(text: str, values: list[Any], *, failed: bool | None) -> tuple[str, int | None, bool | None]:
    """Return one outcome for a list of them: Cline's, and those of the Responses shell tool."""
    parts = [value for value in values if isinstance(value, dict)]
    flags = [part["success"] for part in parts if isinstance(part.get("success"), bool)]
    ends = [part["outcome"] for part in parts if isinstance(part.get("outcome"), dict)]
    codes = [code for end in ends if (code := _code_in(end)) is not None]
    names = ("result", "error", "stdout", "stderr")
    inner = "\n".join(part[name] for part in parts for name in names if isinstance(part.get(name), str))
    code = next((code for code in codes if code), codes[0] if codes else None)
    if failed is None and flags:
        failed = not all(flags)
    return inner or text, code, failed


def _code_in(fields: Mapping[str, Any]) -> int | None:
    found = (fields.get(name) for name in ("exit_code", "exitCode", "returncode", "return_code"))
    return next((code for code in found if type(code) is int), None)


def _exit_code(text: str) -> int | None:
    """Return the exit code that a client wrote into the first or last lines of an output."""
    head = text[:END_CHARS].split("\n")[:5]
    tail = text[-END_CHARS:].rstrip().split("\n")[-6:]
    for line in (*head, *reversed(tail)):
        if len(line) <= 120 and (found := _exit_line.match(line.strip())) is not None:
            return int(found[1] or found[2])
    sandbox = _sandbox_exit.match(text)
    return int(sandbox[1]) if sandbox else None


def _broken(text: str) -> str:
    """Return the line by which an output without an exit code clearly ends in a failure; empty where it does not."""
    tail = [line for line in text[-END_CHARS:].splitlines() if line.strip() and not _prompt.match(line)]
    if not tail:
        return ""
    last = tail[-1].strip()
    if "Traceback (most recent call last)" in text and _traceback_end.match(last):
        return one_line(last)
    return next((one_line(line) for line in tail[-3:] if _broken_end.match(line)), "")


def _last_line(text: str) -> str:
    lines = (line for line in reversed(text[-END_CHARS:].splitlines()) if line.strip() and not _exit_line.match(line.strip()))
    return one_line(next(lines, ""))


# `git commit` exits with 1 where there is nothing left to commit.
_harmless = re.compile(r"^nothing (?:added )?to commit\b", re.MULTILINE)
# SWE-agent ends each output with the state of its shell.
_open_file = re.compile(r"^\(Open file: ([^\n)]+)\)\s*$", re.MULTILINE)
_prompt = re.compile(r"\((?:Open file|Current directory): |bash-\$")


def _text_of(content: object) -> str:
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


# What is still to be done.


def _todo_change(tool: str, fields: Json) -> TodoChange | None:
    if tool == "taskcreate":
        text = fields.get("subject") or fields.get("description")
        return TodoChange(entries=(Todo(text=one_line(text)),), how="add") if isinstance(text, str) and text.strip() else None
    if tool == "taskupdate":
        return _task_update(fields)
    entries = next((fields[name] for name in _ENTRIES if isinstance(fields.get(name), list | str)), None)
    if isinstance(entries, str):
        found = [Todo(text=one_line(text), status=_CHECKS.get(mark, "pending")) for mark, text in _check.findall(entries)]
    elif isinstance(entries, list):
        found = [todo for entry in entries if (todo := _todo(entry)) is not None]
    else:
        return None
    if not found and entries:
        return None
    open_ones = tuple(todo for todo in found if todo.status != "done")
    merge = fields.get("merge") is True
    if merge:
        return TodoChange(entries=tuple(found[:TODOS]), how="update")
    return TodoChange(entries=open_ones[:TODOS], done=len(found) - len(open_ones))


_CHECKS: Final = {"x": "done", "X": "done", "-": "in progress", "~": "in progress", "/": "in progress"}


def _task_update(fields: Json) -> TodoChange | None:
    name = fields.get("taskId")
    if not isinstance(name, str) or not name:
        return None
    subject, status = fields.get("subject"), fields.get("status")
    text = one_line(subject) if isinstance(subject, str) else ""
    state = "deleted" if status == "deleted" else _status(status) if isinstance(status, str) else ""
    return TodoChange(entries=(Todo(text=text, status=state, id=name[:TEXT_CHARS]),), how="update")


def _todo(entry: object) -> Todo | None:
    if isinstance(entry, str):
        return Todo(text=one_line(entry)) if entry.strip() else None
    if not isinstance(entry, dict):
        return None
    words = next((text for name in _WORDS if isinstance(text := entry.get(name), str) and text.strip()), "")
    state = next((text for name in _STATES if isinstance(text := entry.get(name), str)), "")
    finished = entry.get("done") is True or entry.get("completed") is True
    name = entry.get("id")
    known = str(name)[:TEXT_CHARS] if isinstance(name, str | int) else ""
    if not words and not known:
        return None
    return Todo(text=one_line(words), status="done" if finished else _status(state), id=known)


def _status(word: str) -> str:
    folded = word.casefold()
    return "done" if folded in _DONE else "in progress" if folded in _RUNNING else "pending"
