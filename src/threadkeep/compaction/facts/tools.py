"""Reads what a tool call does and how it ended, and the agent's todo list, for the tools of the clients we meet.

A tool that is not in these tables changes no file, runs no command and keeps no list, whatever its name or arguments say.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import msgspec

from threadkeep.compaction.facts.shell import Edit, read_line, read_patch_edits, resolve_path, shorten_line
from threadkeep.compaction.secrets import mask_secrets
from threadkeep.items import ToolCall, ToolOutput

Json = dict[str, object]
Does = Literal["edit", "run", "poll", "list", "look", "other"]

TEXT_CHARS: Final = 160
# An exit code stands in the first or last lines of an output, and a line that tells of an error is looked for at both ends.
END_CHARS: Final = 4_000
ERROR_CHARS: Final = 40_000
JSON_CHARS: Final = 2_000_000

# Tools that change the one file they name. Claude Code, opencode, pi, Cline, Roo, qwen-code and Gemini, Hermes, Copilot,
# Cursor, Zed, SWE-agent, OpenHands.
_EDITS: Final = frozenset(
    "edit write multiedit multi_edit notebookedit notebook_edit edit_notebook write_file edit_file create_file create replace"
    " write_to_file replace_in_file apply_diff insert_content search_and_replace search_replace editor str_replace patch"
    " replace_string_in_file insert_edit_into_file mcp__filesystem__write_file mcp__filesystem__edit_file".split()
)
# Tools whose argument `command` says what they do to the file.
_EDITORS: Final = frozenset(
    "str_replace_editor str_replace_based_edit_tool text_editor file_editor developer__text_editor".split()
)
_EDITOR_COMMANDS: Final = frozenset("create str_replace insert write undo_edit edit append replace".split())
_DELETES: Final = frozenset(("delete_file", "remove_file"))
_MOVES: Final = frozenset(("move_file", "rename_file", "mcp__filesystem__move_file"))
_PATCHES: Final = frozenset(("apply_patch", "applypatch", "patch", "apply_patch_call"))
# Tools for other things have such names and a `path` too. One that edits files also says what it writes.
_COMMON: Final = frozenset("edit write create replace editor patch str_replace".split())
_CONTENTS: Final = frozenset(
    "content contents text file_text new_string newString new_str newText new_text old_string oldString old_str oldText old_text"
    " edits patch diff replace".split()
)
_PATHS: Final = ("file_path", "filePath", "path", "notebook_path", "target_file", "filename", "absolute_path", "target_notebook")
_SHELLS: Final = frozenset(
    "bash shell sh zsh exec_command local_shell local_shell_call shell_call shell_command container.exec run_shell_command"
    " execute_command run_command run_commands terminal run_terminal_cmd run_terminal_command run_in_terminal execute_bash exec"
    " developer__shell unified_exec".split()
)
_COMMANDS: Final = ("command", "cmd", "commands", "script")
_FOLDERS: Final = ("workdir", "cwd", "working_directory", "directory")
# Tools that only look. An error of theirs says "not there", which the next look puts right.
_LOOKS: Final = ("read", "grep", "glob", "list", "search", "find", "view", "web", "fetch", "get", "open", "ls", "look", "think")


class Todo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of the agent's list. `status` is "pending", "in progress" or "done"; of a change, empty leaves it as it is."""

    text: str
    status: str = "pending"
    id: str = ""
    source: str = ""


class TodoChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of the list: it replaces the list, or adds and changes entries by their ids."""

    entries: tuple[Todo, ...] = ()
    replaces: bool = True


class OpenCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call without an answer, with the effects its answer will confirm.

    Attributes:
        text: The call on one line.
        edits: Files it changes if it succeeds.
        keys: What it runs or works on; two calls with one key do the same thing.
        certain: Whether success means that every part succeeded.
        session: The running process it asks about.
    """

    id: str
    text: str
    source: str
    does: Does = "other"
    edits: tuple[Edit, ...] = ()
    keys: tuple[str, ...] = ()
    certain: bool = True
    session: str = ""
    todos: TodoChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a call ended.

    Attributes:
        ok: None where nothing tells.
        said: The outcome on one line; empty where there is nothing to say.
        declined: Whether a person refused or stopped it.
        session: The process it left running.
    """

    ok: bool | None
    said: str = ""
    declined: bool = False
    session: str = ""


def read_call(call: ToolCall, *, source: str) -> OpenCall:
    """Return the effect of a call; an unknown tool has none."""
    tool = call.name.casefold().removeprefix("functions.")
    arguments = _decode(call.arguments)
    fields: Json = arguments if isinstance(arguments, dict) else {}
    make = partial(OpenCall, id=call.id, source=source)
    if tool == "exec" and isinstance(arguments, str) and (inner := _find_script_calls(arguments)):
        return _join_calls([read_call(ToolCall(id=call.id, name=name, arguments=said), source=source) for name, said in inner])
    if tool in _SHELLS:
        return _read_shell_call(fields or {"command": arguments}, make)
    if tool == "write_stdin":
        session = str(fields.get("session_id", ""))
        return make(does="poll", text=flatten(f"{call.name} to session {session}"), session=session)
    edits = (_read_patch(arguments) if tool in _PATCHES else ()) or _find_edits(tool, fields)
    # SWE-agent's own names no file: it edits the one it has open.
    is_open_file = tool in ("edit", "insert") and bool(_pick(fields, ("replace", "text")))
    if edits or is_open_file:
        names = ", ".join(edit.path for edit in edits[:3])
        return make(does="edit", text=_describe(f"{call.name} {names}"), edits=edits, keys=_list_files(edits) or (tool,))
    if tool in LIST_TOOLS and (change := _read_change(tool, fields)) is not None:
        return make(does="list", text=flatten(call.name), todos=change)
    subject = _pick(fields, (*_PATHS, "query", "pattern", "url", "prompt", "description"))
    text = _describe(f"{call.name or 'a tool'} {subject}")
    if tool.startswith(_LOOKS):
        return make(does="look", text=text)
    return make(text=text, keys=(f"tool {call.name}"[:TEXT_CHARS],))


# Codex' newest models have one tool, `exec`, whose script calls the others as `await tools.exec_command({cmd: "make"})`.
_script_call = re.compile(r"\btools\.(\w+)\(\s*")
_script_text = re.compile(r"""\"((?:[^"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`""", re.DOTALL)
_script_field = re.compile(rf"[{{,]\s*[\"']?(\w+)[\"']?\s*:\s*(?:{_script_text.pattern})", re.DOTALL)
_script_escape = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}
SCRIPT_CALLS: Final = 16


def _find_script_calls(script: str) -> list[tuple[str, str]]:
    """Return the calls in a script with their arguments as JSON, or as the one text they are given."""
    starts = list(_script_call.finditer(script[:JSON_CHARS]))[:SCRIPT_CALLS]
    ends = [*(start.start() for start in starts[1:]), len(script)]
    found = []
    for start, end in zip(starts, ends, strict=False):
        said = script[start.end() : end]
        if (text := _script_text.match(said)) is not None:
            found.append((start[1], _unescape(text)))
        else:
            fields = {field[1]: _unescape(field, first=2) for field in _script_field.finditer(said)}
            found.append((start[1], msgspec.json.encode(fields).decode()))
    return found


def _unescape(literal: re.Match[str], *, first: int = 1) -> str:
    written = next((text for text in literal.groups()[first - 1 :] if text is not None), "")
    return _script_escape.sub(lambda sign: chr(int(sign[1], 16)) if sign[1] else _ESCAPES.get(sign[2], sign[2]), written)


def _join_calls(calls: Sequence[OpenCall]) -> OpenCall:
    """Return the calls of a script as one: what it does is what its weightiest call does."""
    if len(calls) == 1:
        return calls[0]
    weightiest = next((call for does in ("run", "edit", "other") for call in calls if call.does == does), calls[0])
    return OpenCall(
        id=weightiest.id,
        source=weightiest.source,
        does=weightiest.does,
        text=flatten(" ; ".join(call.text for call in calls if call.does == weightiest.does)),
        edits=tuple(edit for call in calls for edit in call.edits),
        keys=tuple(dict.fromkeys(key for call in calls for key in call.keys)),
        certain=False,
        todos=next((call.todos for call in calls if call.todos is not None), None),
    )


def flatten(text: str, *, limit: int = TEXT_CHARS) -> str:
    """Return text on one line, without control characters, cut at `limit`."""
    flat = " ".join(_control.sub("", text[: limit * 8]).encode("utf-8", "replace").decode("utf-8").split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def _describe(text: str) -> str:
    return mask_secrets(flatten(text))


def _decode(text: str) -> object:
    """Return the JSON value in a text, and the text itself where it is none."""
    if not text.lstrip().startswith(("{", "[")) or len(text) > JSON_CHARS:
        return text
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return text


def _pick(fields: Json, names: Iterable[str]) -> str:
    """Return the first of these fields that holds text; empty where none does."""
    return next((text for name in names if isinstance(text := fields.get(name), str) and text.strip()), "")


def _list_files(edits: Iterable[Edit]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"file {edit.path}" for edit in edits if edit.effect != "gone"))


def _find_edits(tool: str, fields: Json) -> tuple[Edit, ...]:
    """Return the files a call to a file tool changes; nothing where the tool is no such tool or names no file."""
    if tool in _MOVES:
        old, new = (resolve_path(str(fields.get(name) or "")) for name in ("source", "destination"))
        return (Edit(path=old, effect="gone"), Edit(path=new)) if old and new else ()
    path = resolve_path(_pick(fields, _PATHS))
    is_common = tool in _COMMON and "path" in fields and not _CONTENTS & fields.keys()
    edits = tool in _EDITS and not is_common
    edits = edits or (tool in _EDITORS and str(fields.get("command")) in _EDITOR_COMMANDS)
    if path and tool in _DELETES:
        return (Edit(path=path, effect="deleted"),)
    return (Edit(path=path),) if path and edits else ()


def _read_patch(arguments: object) -> tuple[Edit, ...]:
    """Return the files of a patch: as text, in a field, or as an operation on one file."""
    if isinstance(arguments, str):
        return read_patch_edits(arguments)
    fields: Json = arguments if isinstance(arguments, dict) else {}
    if (operation := fields.get("type")) in ("create_file", "update_file", "delete_file"):
        path = resolve_path(str(fields.get("path") or ""))
        return (Edit(path=path, effect="deleted" if operation == "delete_file" else "changed"),) if path else ()
    patches = (fields.get(name) for name in ("input", "patch", "patchText", "patch_text", "diff"))
    return next((edits for patch in patches if isinstance(patch, str) and (edits := read_patch_edits(patch))), ())


def _read_shell_call(fields: Json, make: partial[OpenCall]) -> OpenCall:
    script = _join_script(next((fields[name] for name in _COMMANDS if fields.get(name)), None))
    folder = _pick(fields, _FOLDERS)
    line = read_line(script, folder="" if folder in (".", "./") else folder)
    if not script.strip() or line.looks:
        return make(does="look", text=_describe(script))
    shown = (part.strip() for part in shorten_line(script).strip().split("\n"))
    text = _describe(" ; ".join([part for part in shown if part and not part.startswith("#")][:4]) or script)
    keys = tuple(f"$ {key}" for key in line.keys)
    does: Does = "edit" if line.edits_only else "run"
    files = _list_files(line.edits) if line.edits_only else ()
    return make(does=does, text=text, edits=line.edits, keys=files or keys, certain=line.certain)


def _join_script(command: object) -> str:
    """Return a command as a shell would read it, from any of the forms clients use."""
    if not isinstance(command, list):
        return command if isinstance(command, str) else ""
    words = [word for word in command if isinstance(word, str)]
    if len(words) >= 3 and words[0].rpartition("/")[2] in ("bash", "sh", "zsh") and words[1].startswith("-") and "c" in words[1]:
        return words[2]
    # One word with blanks in it is a whole line: Cline and the Responses shell tool send a list of lines.
    return "\n".join(words) if words and " " in words[0] else shlex.join(words)


# How calls end.

_exit_line = re.compile(
    r"^\W{0,3}(?:(?:the )?(?:command|process)\b[^\n]{0,40}?\b)?(?:exit(?:ed)?|finished|completed|failed)?[ _]?(?:with )?"
    r"(?:exit[ _])?(?:code|status)\W{0,3}(-?\d{1,5})\W{0,4}$|^<returncode>(-?\d{1,5})</returncode>$",
    re.IGNORECASE,
)
_sandbox_exit = re.compile(r"failed in sandbox[^\n]{0,200}?exit code: (-?\d{1,5})")
# How Codex begins the output of a script.
_script_end = re.compile(r"Script (completed|failed|terminated)\n(?:Wall time [^\n]*\n)?(?:Output:\n?)?\s*")
_session = re.compile(r"^Process running with session ID (\d+)$", re.MULTILINE)
_background = re.compile(r"^Command (?:was manually backgrounded|running in (?:the )?background)", re.IGNORECASE)
_declined = re.compile(
    r"\s*(?:The user doesn't want to |\[Request interrupted by user|aborted\b|User rejected|The user (?:denied|rejected|declined)"
    r"|user (?:denied|rejected)|(?:Command|Operation|Tool execution) (?:was )?aborted|(?:\w+ ){0,3}rejected by (?:the )?user)",
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
# How a program that edits files begins a line that says it did not.
_complaint = re.compile(r"^(?:sed|perl|mv|cp|rm|tee|touch|fatal): ", re.MULTILINE)
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


def judge_outcome(call: OpenCall, output: ToolOutput) -> Outcome:
    """Return how a call ended: by the client's flag or exit code, else by what a failure clearly leaves in the last lines.

    A tool that is no shell and has no error flag says in its first words that it refused. One that edits files has many ways to
    say so; the answer of any other may begin with such words and mean something else. Exit code 0 of a line whose last part alone
    decides it is no proof where an error stands in what the line printed.
    """
    script = _script_end.match(output.text)
    said = output.text[script.end() :] if script else output.text.removeprefix("OBSERVATION:\n")
    text, code, failed = _unwrap_json(said, failed=output.is_error)
    if script is not None and script[1] == "failed":
        failed = True
    if failed is not False and (_declined.match(text) or _aborted.search(text[-END_CHARS:])):
        return Outcome(ok=None, said="aborted", declined=True)
    if failed is False:
        code = 0
    elif code is None:
        code = _find_exit_code(text)
    session = _session.search(text[:END_CHARS])
    if session is not None and code is None:
        return Outcome(ok=None, said=f"started, session {session[1]}", session=session[1])
    if _background.match(text):
        return Outcome(ok=None, said="started in the background")
    if failed is not True and _harmless.search(text[-END_CHARS:]):
        return Outcome(ok=None, said="nothing to commit")
    if failed or code:
        said = find_error_line(text) or _find_last_line(text)
        parts = [part for part in (f"exit {code}" if code else "", said) if part]
        return Outcome(ok=False, said=mask_secrets(": ".join(parts)) or "failed")
    if code is None and failed is None:
        return _judge_text(call, text)
    if call.does == "run" and not call.certain and (said := find_error_line(text)):
        return Outcome(ok=None, said=mask_secrets(f"it printed: {said}"))
    return Outcome(ok=True, said="ok")


def _judge_text(call: OpenCall, text: str) -> Outcome:
    """Return how a call ended whose client says nothing of it; what a process left running prints tells nothing."""
    if call.does == "poll":
        return Outcome(ok=None)
    said = _find_failure(text)
    refusal = _refusal if call.does == "edit" else _plain_error
    if not said and call.does != "run" and refusal.match(text.lstrip()[:400]):
        said = find_error_line(text[:2_000]) or flatten(text)
    return Outcome(ok=False if said else None, said=mask_secrets(said))


def confirm_edits(call: OpenCall, text: str) -> tuple[Edit, ...]:
    """Return the files that a call changed, given the answer to it; none where a program of its line complained."""
    if call.edits or call.does != "edit":
        return () if _complaint.search(text) else call.edits
    # SWE-agent edits the file it has open, and its answer says which.
    found = _open_file.search(text[-END_CHARS:])
    path = resolve_path(found[1].strip()) if found and found[1].strip() != "n/a" else ""
    return (Edit(path=path),) if path else ()


def find_error_line(text: str) -> str:
    """Return the line of an output that says what went wrong; empty where none does."""
    parts = (text,) if len(text) <= 2 * ERROR_CHARS else (text[:ERROR_CHARS], text[-ERROR_CHARS:])
    found = (_error.search(part) for part in parts)
    return next((flatten(line[0]) for line in found if line is not None), "")


def _unwrap_json(text: str, *, failed: bool | None) -> tuple[str, int | None, bool | None]:
    """Return the text, exit code and failure of an output that is JSON, or a list of results; any other comes back as it is."""
    value = _decode(text)
    parts = [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, dict)]
    ends = [end for part in parts for end in (part.get("metadata"), part.get("outcome"), part) if isinstance(end, dict)]
    names = ("exit_code", "exitCode", "returncode", "return_code")
    codes = [code for end in ends for name in names if type(code := end.get(name)) is int]
    code = next((code for code in codes if code), codes[0] if codes else None)
    flags = [part["success"] for part in parts if isinstance(part.get("success"), bool)]
    texts = (_pick(part, (name,)) for part in parts for name in ("output", "result", "stdout", "stderr", "error"))
    said = "\n".join(text for text in texts if text)
    if failed is None and flags and (code is None or not all(flags)):
        failed = not all(flags)
    elif failed is None and code is None and any(_pick(part, ("error",)) for part in parts):
        failed = True
    return said or text, code, failed


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
    if tail and "Traceback (most recent call last)" in text and _traceback_end.match(tail[-1].strip()):
        return flatten(tail[-1])
    return next((flatten(line) for line in tail[-3:] if _broken_end.match(line)), "")


def _find_last_line(text: str) -> str:
    lines = (line for line in reversed(text[-END_CHARS:].splitlines()) if line.strip() and not _exit_line.match(line.strip()))
    return flatten(next(lines, ""))


# The agent's todo list.

TODOS: Final = 64
LIST_TOOLS: Final = frozenset(
    "update_plan todowrite todo_write write_todos todo update_todos update_todo_list manage_todo_list task_tracker"
    " todo__todo_write taskcreate taskupdate".split()
)
_ENTRIES: Final = ("plan", "todos", "items", "tasks", "steps", "todoList", "todo_list", "task_list", "content")
_WORDS: Final = ("step", "content", "text", "title", "task", "description", "name", "subject")
_STATUSES: Final = {
    **dict.fromkeys("completed complete done cancelled canceled skipped finished x".split(), "done"),
    **dict.fromkeys("in_progress in-progress inprogress active doing started - ~ /".split(), "in progress"),
    "deleted": "deleted",
}
_check = re.compile(r"^\s*[-*]\s*\[([ xX~\-/])\]\s*(\S.*)$", re.MULTILINE)


def _read_change(tool: str, fields: Json) -> TodoChange | None:
    """Return how a call changes the list; None where it says nothing of it."""
    if tool in ("taskcreate", "taskupdate"):
        # Claude Code's: one entry a call. The answer to the first names it.
        text = _pick(fields, ("subject",) if tool == "taskupdate" else ("subject", "description"))
        status = _pick(fields, ("status",))
        entry = Todo(
            text=flatten(text), status=_read_status(status) if status else "", id=_pick(fields, ("taskId",))[:TEXT_CHARS]
        )
        return TodoChange(entries=(entry,), replaces=False) if entry.text or entry.id else None
    entries = next((value for name in _ENTRIES if isinstance(value := fields.get(name), list | str)), None)
    if isinstance(entries, str):
        entries = [{"text": text, "status": mark} for mark, text in _check.findall(entries)] or None
    if entries is None:
        return None
    found = tuple(todo for entry in entries if (todo := _read_todo(entry)) is not None)
    return None if entries and not found else TodoChange(entries=found[:TODOS], replaces=fields.get("merge") is not True)


def _read_todo(entry: object) -> Todo | None:
    fields = {"text": entry} if isinstance(entry, str) else entry
    if not isinstance(fields, dict):
        return None
    words, status = _pick(fields, _WORDS), _pick(fields, ("status", "state"))
    is_done = fields.get("done") is True or fields.get("completed") is True
    name = fields.get("id")
    known = str(name)[:TEXT_CHARS] if isinstance(name, str | int) else ""
    return Todo(text=flatten(words), status="done" if is_done else _read_status(status), id=known) if words or known else None


def _read_status(word: str) -> str:
    return _STATUSES.get(word.casefold(), "pending")


def change_list(todos: Sequence[Todo], change: TodoChange, *, answer: str, source: str) -> tuple[Todo, ...]:
    """Return the list after a change that `answer` confirmed; finished entries stay in it, to be counted."""
    listed = {} if change.replaces else {todo.id or todo.text: todo for todo in todos}
    for entry in change.entries:
        # Claude Code's answer names the task it created by a number.
        words = answer[:200].replace("#", " ").split() if not (entry.id or change.replaces) else ()
        name = entry.id or next((word for word in words if word.isdigit()), "")
        old = listed.get(name or entry.text)
        if entry.status == "deleted" or not (text := entry.text or (old.text if old else "")):
            listed.pop(name, None)
            continue
        status = entry.status or (old.status if old else "pending")
        listed[name or text] = Todo(text=text, status=status, id=name, source=source)
    return tuple(listed.values())[-TODOS:]
