"""Reads tool calls out of items, in every dialect, and knows the tools of the clients we meet.

A tool that is not in these tables changes no file, runs no command and keeps no list, whatever its name or arguments say.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from threadkeep.compaction.facts.shell import Edit, read_line, read_patch_edits, resolve_path, strip_folder, strip_heredocs
from threadkeep.compaction.facts.todo_list import LIST_TOOLS, TodoChange, read_change
from threadkeep.compaction.facts.tool_outputs import TEXT_CHARS, find_parts, flatten, read_fields
from threadkeep.items import Item, View

Json = dict[str, Any]


Does = Literal["edit", "run", "poll", "list", "look", "other"]

OPEN_FILE: Final = "(open file)"

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

_DELETES: Final = frozenset(("delete_file", "remove_file"))

_MOVES: Final = frozenset(("move_file", "rename_file", "mcp__filesystem__move_file"))

_PATCHES: Final = frozenset(("apply_patch", "applypatch", "patch", "apply_patch_call", "functions.apply_patch"))

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
    " developer__shell unified_exec functions.shell functions.exec_command".split()
)

_COMMANDS: Final = ("command", "cmd", "commands", "script")

_FOLDERS: Final = ("workdir", "cwd", "working_directory", "directory")

# Tools that only look. An error of theirs says "not there", which the next look puts right.
_LOOKS: Final = ("read", "grep", "glob", "list", "search", "find", "view", "web", "fetch", "get", "open", "ls", "look", "think")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call as it stands in an item."""

    id: str
    tool: str
    arguments: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The effect of a call, as far as its tool is known.

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


def read_calls(view: View, item: Item | None) -> Iterator[Call]:
    """Yield the calls an item opens, each with its own tool and arguments."""
    opened = set(view.opens)
    fields = read_fields(item)
    if fields is None:
        if len(opened) == 1:
            yield Call(id=view.opens[0], tool=view.tool or "", arguments=_decode_arguments(view.text))
        return
    found = [call for call in _find_calls(fields, ids=view.opens) if call.id in opened]
    if not found and len(opened) == 1:
        payload = next((fields[name] for name in ("arguments", "input", "action", "operation") if name in fields), None)
        found = [Call(id=view.opens[0], tool=view.tool or "", arguments=_decode_arguments(payload))]
    yield from found


def classify_call(call: Call) -> Use:
    """Return the effect of a call; an unknown tool has none."""
    tool = call.tool.casefold()
    arguments = call.arguments
    fields: Json = arguments if isinstance(arguments, dict) else {}
    if tool in _SHELLS:
        return _read_shell_call(arguments)
    if tool in ("write_stdin", "functions.write_stdin"):
        return Use(
            does="poll",
            text=flatten(f"{call.tool} to session {fields.get('session_id')}"),
            session=str(fields.get("session_id", "")),
        )
    if tool in _PATCHES and (patch := _find_patch(arguments)):
        return _make_edit_use(call, patch)
    edits = _find_edits(tool, fields)
    if edits is not None:
        return _make_edit_use(call, edits)
    if tool in ("edit", "insert") and isinstance(fields.get("replace", fields.get("text")), str):
        # SWE-agent edits the file it has open; its answer says which.
        return Use(does="edit", text=call.tool, edits=(Edit(path=OPEN_FILE),), keys=(f"file {OPEN_FILE}",))
    if tool in LIST_TOOLS and (change := read_change(tool, fields)) is not None:
        return Use(does="list", text=call.tool, todos=change)
    if tool.startswith(_LOOKS):
        return Use(does="look", text=_describe_call(call))
    return Use(does="other", text=_describe_call(call), keys=(f"tool {call.tool}"[:TEXT_CHARS],))


def _find_calls(fields: Json, *, ids: Sequence[str]) -> Iterator[Call]:
    listed = fields.get("tool_calls")
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict):
            inner: Json = next((entry[name] for name in ("function", "custom") if isinstance(entry.get(name), dict)), {})
            yield _make_call(entry.get("id"), inner.get("name"), inner.get("arguments", inner.get("input")))
    content = fields.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(block.get("id"), str) and "input" in block:
            yield _make_call(block["id"], block.get("name"), block["input"])
    # Gemini pairs calls without an id by name and order, as the view's ids do.
    for call_id, called in zip(ids, find_parts(fields, "functionCall"), strict=False):
        yield _make_call(call_id, called.get("name"), called.get("args"))
    kind = fields.get("type")
    if isinstance(kind, str) and kind.endswith("_call"):
        payload = next((fields[name] for name in ("arguments", "input", "action", "operation") if name in fields), None)
        yield _make_call(fields.get("call_id") or fields.get("id"), fields.get("name") or kind, payload)


def _make_call(call_id: object, name: object, payload: object) -> Call:
    return Call(
        id=call_id if isinstance(call_id, str) else "",
        tool=name if isinstance(name, str) else "",
        arguments=_decode_arguments(payload),
    )


def _decode_arguments(payload: object) -> object:
    """Return arguments decoded where they are JSON in a string, and the string itself where they are not."""
    if not isinstance(payload, str) or not payload.lstrip().startswith(("{", "[")):
        return payload
    try:
        return msgspec.json.decode(payload.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return payload


def _describe_call(call: Call) -> str:
    fields = call.arguments if isinstance(call.arguments, dict) else {}
    named = (fields.get(name) for name in (*_PATHS, "query", "pattern", "url", "prompt", "description"))
    subject = next((value for value in named if isinstance(value, str) and value.strip()), "")
    return flatten(f"{call.tool} {subject}".strip())


def _make_edit_use(call: Call, edits: tuple[Edit, ...]) -> Use:
    names = ", ".join(edit.path for edit in edits[:3])
    return Use(does="edit", text=flatten(f"{call.tool} {names}".strip()), edits=edits, keys=list_file_keys(edits))


def list_file_keys(edits: tuple[Edit, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"file {edit.path}" for edit in edits if edit.effect != "gone"))


def _find_edits(tool: str, fields: Json) -> tuple[Edit, ...] | None:
    """Return the files a call to a file tool changes; None where the tool is no such tool or names no file."""
    if tool in _MOVES:
        old, new = (resolve_path(str(fields.get(name) or "")) for name in ("source", "destination"))
        return (Edit(path=old, effect="gone"), Edit(path=new)) if old and new else None
    path = resolve_path(next((fields[name] for name in _PATHS if isinstance(fields.get(name), str)), ""))
    if not path:
        return None
    if tool in _COMMON and fields.get("path") and not _CONTENTS & fields.keys():
        return None
    if tool in _EDITORS:
        return (Edit(path=path),) if str(fields.get("command")) in _EDITOR_COMMANDS else None
    if tool in _DELETES:
        return (Edit(path=path, effect="deleted"),)
    if tool in _EDITS or tool == "patch":
        return (Edit(path=path),)
    return None


def _find_patch(arguments: object) -> tuple[Edit, ...]:
    """Return the files of a patch: as text, in a field, or as an operation on one file."""
    if isinstance(arguments, str):
        return read_patch_edits(arguments)
    if not isinstance(arguments, dict):
        return ()
    operation = arguments.get("type")
    if operation in ("create_file", "update_file", "delete_file"):
        path = resolve_path(str(arguments.get("path") or ""))
        return (Edit(path=path, effect="deleted" if operation == "delete_file" else "changed"),) if path else ()
    for name in ("input", "patch", "patchText", "patch_text", "diff"):
        if isinstance(arguments.get(name), str) and (edits := read_patch_edits(arguments[name])):
            return edits
    return ()


def _read_shell_call(arguments: object) -> Use:
    fields: Json = arguments if isinstance(arguments, dict) else {"command": arguments}
    script = _join_script(next((fields[name] for name in _COMMANDS if fields.get(name)), None))
    folder = next((fields[name] for name in _FOLDERS if isinstance(fields.get(name), str)), "")
    line = read_line(script, folder="" if folder in (".", "./") else folder)
    if not script.strip() or line.looks:
        return Use(does="look", text=flatten(script))
    if line.edits_only:
        keys = list_file_keys(line.edits) or tuple(f"$ {key}" for key in line.keys)
        return Use(does="edit", text=_describe_command(script), edits=line.edits, keys=keys, certain=line.certain)
    keys = tuple(f"$ {key}" for key in line.keys)
    return Use(does="run", text=_describe_command(script), edits=line.edits, keys=keys, listed=True, certain=line.certain)


def _join_script(command: object) -> str:
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


def _describe_command(script: str) -> str:
    shown = strip_folder(strip_heredocs(script))
    lines = [line.strip() for line in shown.strip().split("\n") if line.strip() and not line.lstrip().startswith("#")]
    return flatten(" ; ".join(lines[:4]) or script)
