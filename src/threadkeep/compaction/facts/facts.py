"""Computes facts about the work: files changed, commands run, unresolved errors, open calls, the todo list, pictures.

Facts come from records and never from a model. `fold` adds new records to the facts of older ones; the result is the same
however the records are split, so a checkpoint may keep the facts and continue from there.

Rules:

- A file is changed if a tool that changes files named it and the answer was no error. A shell command changes a file only if its
  line can be read with certainty (`shell`). A tool that is not known changes nothing. A file is listed once, however its path is
  spelled.
- A command failed if the client's own error flag or an exit code says so. Where neither is there, only a traceback or a
  program's own last word in the last lines counts as a failure; otherwise the outcome is unknown and nothing is said of it.
- An error stands until the same thing succeeds: the same command or the same program on the same target, an edit of the same
  file, the same tool. It also goes when people have asked for something twice since.
- A call is open while nothing has answered it and no person has spoken since.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import msgspec

from threadkeep.compaction.facts.images import find_pictures, render_picture
from threadkeep.compaction.facts.shell import Edit, is_rerun
from threadkeep.compaction.facts.todo_list import Todo, TodoChange, change_list
from threadkeep.compaction.facts.tool_calls import OPEN_FILE, Use, classify_call, read_calls
from threadkeep.compaction.facts.tool_outputs import (
    Result,
    find_error_line,
    find_open_file,
    flatten,
    is_refusal_text,
    read_results,
)
from threadkeep.compaction.secrets import mask_secrets
from threadkeep.items import Item, ItemKind, View
from threadkeep.threads import Pointer, parse_pointer

CHANGED_KEPT: Final = 64
FILES_IN_LINE: Final = 5


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file the work changed; `source` is the call that wrote its newest content, or that deleted it."""

    path: str
    source: str
    deleted: bool = False


def apply_edit(files: dict[str, ChangedFile], edit: Edit, *, source: str) -> None:
    """Bring `files`, the newest last, up to date with an edit that succeeded."""
    match edit.effect:
        case "changed" | "deleted":
            for path in _find_spellings(edit.path, files, loose=edit.effect == "deleted"):
                del files[path]
            files[edit.path] = ChangedFile(path=edit.path, source=source, deleted=edit.effect == "deleted")
            if len(files) > CHANGED_KEPT:
                del files[next(iter(files))]
        case "gone" | "reverted":
            # What is no longer there, or is again as it was, is not among the files the work changed.
            same = set(_find_spellings(edit.path, files, loose=True))
            under = f"{edit.path}/"
            for path in [path for path in files if edit.path == "." or path in same or path.startswith(under)]:
                del files[path]


def render_files(files: Sequence[ChangedFile]) -> str:
    """Return the newest of `files` by name on one line; where two have the same name, with their folder's. Paths are evidence."""
    shown = files[-FILES_IN_LINE:]
    names = [posixpath.basename(file.path) for file in shown]
    told = [
        ("/".join(file.path.split("/")[-2:]) if names.count(name) > 1 else name) + (" (deleted)" if file.deleted else "")
        for name, file in zip(names, shown, strict=True)
    ]
    more = [f"and {len(files) - len(shown)} more"] if len(files) > len(shown) else []
    return ", ".join((*told, *more))


def _find_spellings(path: str, known: dict[str, ChangedFile], *, loose: bool) -> list[str]:
    """Return the spellings under which a file is listed: as it is, or relative where the other one is absolute.

    A bare name fits many absolute paths. With `loose` it fits them all: a line that may have become false is dropped.
    """
    absolute = path.startswith("/")
    if not absolute and "/" not in path and not loose:
        return [path] if path in known else []
    return [
        other
        for other in known
        if other == path
        or (absolute and not other.startswith("/") and ("/" in other or loose) and path.endswith(f"/{other}"))
        or (not absolute and other.startswith("/") and other.endswith(f"/{path}"))
    ]


COMMANDS_KEPT: Final = 24
FAILURES_KEPT: Final = 8
OPEN_KEPT: Final = 32
IMAGES_KEPT: Final = 4
# An error is dropped when people have begun so many requests since.
REQUESTS_AFTER_ERROR: Final = 2
ID_CHARS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedItem:
    """An item with its view and the record it comes from."""

    view: View
    source: Pointer
    item: Item | None = None


class Command(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command and how it ended; `ok` is None where nothing tells. `session` is the process it left running."""

    text: str
    source: str
    outcome: str = ""
    ok: bool | None = None
    keys: tuple[str, ...] = ()
    session: str = ""


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error that nothing has put right; `keys` name what has to succeed, `requests` counts what people asked for since."""

    text: str
    call: str
    source: str
    keys: tuple[str, ...] = ()
    requests: int = 0


class OpenCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call without an answer, with the effects its answer will confirm."""

    id: str
    text: str
    source: str
    does: str = "other"
    edits: tuple[Edit, ...] = ()
    keys: tuple[str, ...] = ()
    listed: bool = False
    certain: bool = True
    session: str = ""
    todos: TodoChange | None = None


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """A picture a person sent."""

    text: str
    source: str


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the records below `upto` show; newest last in every part.

    Attributes:
        failures: The errors that stand; `failure` is the newest.
        left: Calls that were open when a person spoke again. They are not running, but a late answer still counts.
        todos: What the agent's list leaves open; None where it keeps no list. `todos_done` counts the rest of the list.
    """

    upto: int = 0
    changed: tuple[ChangedFile, ...] = ()
    commands: tuple[Command, ...] = ()
    failures: tuple[Failure, ...] = ()
    open_calls: tuple[OpenCall, ...] = ()
    left: tuple[OpenCall, ...] = ()
    todos: tuple[Todo, ...] | None = None
    todos_done: int = 0
    images: tuple[Image, ...] = ()

    @property
    def failure(self) -> Failure | None:
        """The last error that still stands."""
        return self.failures[-1] if self.failures else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line about the work, and the record that shows it."""

    text: str
    source: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class FactLines:
    """Facts in words, part by part."""

    changed: tuple[Line, ...] = ()
    commands: tuple[Line, ...] = ()
    failure: tuple[Line, ...] = ()
    open_calls: tuple[Line, ...] = ()
    todos: tuple[Line, ...] = ()
    images: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDigest:
    """The work of one turn: the files it changed, on one line, and its commands, one line each."""

    changed: Line | None = None
    commands: tuple[Line, ...] = ()


def fold(facts: Facts, items: Sequence[ObservedItem]) -> Facts:
    """Return the facts with those of `items`, in order; items that `facts` already covers are passed over."""
    state = _FactsFold(facts)
    for seen in items:
        if seen.source.ordinal >= state.upto:
            state.add(seen)
    return state.freeze()


def render_facts(facts: Facts) -> FactLines:
    """Return each part of the facts as plain lines."""
    failure = facts.failure
    return FactLines(
        changed=tuple(
            _make_line(f"{'deleted' if file.deleted else 'changed'} {file.path}", file.source) for file in facts.changed
        ),
        commands=tuple(_make_line(render_command(command), command.source) for command in facts.commands),
        failure=(_make_line(f"last error: {failure.call}: {failure.text}", failure.source),) if failure else (),
        open_calls=tuple(_make_line(f"open call: {call.text}", call.source) for call in facts.open_calls),
        todos=_render_todos(facts),
        images=tuple(_make_line(image.text, image.source) for image in facts.images),
    )


def render_command(command: Command) -> str:
    """Return a command and its outcome on one line."""
    match command.ok:
        case True:
            return f"ran `{command.text}`: ok"
        case False:
            return f"ran `{command.text}`: failed, {command.outcome}"
        case None:
            return f"ran `{command.text}`: {command.outcome}" if command.outcome else f"ran `{command.text}`"


def digest_turn(items: Sequence[ObservedItem]) -> TurnDigest:
    """Return the work of one turn's items."""
    facts = fold(Facts(), items)
    return TurnDigest(
        changed=_make_line(f"changed {render_files(facts.changed)}", facts.changed[-1].source) if facts.changed else None,
        commands=tuple(_make_line(render_command(command), command.source) for command in facts.commands),
    )


def _make_line(text: str, source: str) -> Line:
    return Line(text=text, source=parse_pointer(source))


def _render_todos(facts: Facts) -> tuple[Line, ...]:
    if not facts.todos:
        return ()
    waiting = tuple(_make_line(f"todo [{todo.status}]: {todo.text}", todo.source) for todo in facts.todos)
    done = (_make_line(f"todo [done]: {facts.todos_done} of the list", facts.todos[-1].source),) if facts.todos_done else ()
    return (*waiting, *done)


class _FactsFold:
    """The facts while they are being folded. Everything it holds is in `Facts`, so a fold can stop and go on anywhere."""

    def __init__(self, facts: Facts) -> None:
        self.upto = facts.upto
        self._changed = {file.path: file for file in facts.changed}
        self._commands = list(facts.commands)
        self._failures = list(facts.failures)
        self._open = {call.id: call for call in facts.open_calls}
        self._left = {call.id: call for call in facts.left}
        self._todos = facts.todos
        self._todos_done = facts.todos_done
        self._images = list(facts.images)

    def freeze(self) -> Facts:
        return Facts(
            upto=self.upto,
            changed=tuple(self._changed.values()),
            commands=tuple(self._commands),
            failures=tuple(self._failures),
            open_calls=tuple(self._open.values()),
            left=tuple(self._left.values()),
            todos=self._todos,
            todos_done=self._todos_done,
            images=tuple(self._images),
        )

    def add(self, seen: ObservedItem) -> None:
        """Add the facts of one item."""
        self.upto = seen.source.ordinal + 1
        view = seen.view
        if view.kind is ItemKind.OUTPUT or view.closes:
            for result in read_results(view, seen.item):
                name = _shorten_id(result.id)
                call = self._open.pop(name, None) or self._left.pop(name, None)
                if call is not None:
                    self._record_answer(call, result, source=str(seen.source))
            for call_id in view.closes:
                self._open.pop(_shorten_id(call_id), None)
        if view.opens:
            self._record_calls(seen)
        if view.kind is ItemKind.MESSAGE and (view.by_person or view.is_task):
            self._begin_request()
            if view.images and view.by_person:
                self._images = [*self._images, *_read_images(seen)][-IMAGES_KEPT:]

    def _record_calls(self, seen: ObservedItem) -> None:
        uses = {call.id: classify_call(call) for call in read_calls(seen.view, seen.item)}
        for call_id in seen.view.opens:
            use = uses.get(call_id) or Use(does="other", text=flatten(seen.view.tool or "a tool"))
            name = _shorten_id(call_id)
            self._left.pop(name, None)
            self._open.pop(name, None)
            self._open[name] = OpenCall(
                id=name,
                text=mask_secrets(use.text),
                source=str(seen.source),
                does=use.does,
                edits=use.edits,
                keys=use.keys,
                listed=use.listed,
                certain=use.certain,
                session=use.session,
                todos=use.todos,
            )
        _drop_oldest(self._open, OPEN_KEPT)

    def _begin_request(self) -> None:
        """Begin another request of a person: calls without an answer were interrupted, and errors age."""
        self._left.update(self._open)
        self._open.clear()
        _drop_oldest(self._left, OPEN_KEPT)
        aged = (msgspec.structs.replace(failure, requests=failure.requests + 1) for failure in self._failures)
        self._failures = [failure for failure in aged if failure.requests < REQUESTS_AFTER_ERROR]

    def _record_answer(self, call: OpenCall, result: Result, *, source: str) -> None:
        ok, outcome = _judge_outcome(call, result)
        if call.does == "poll":
            self._record_poll(call, result, ok=ok, outcome=outcome, source=source)
            return
        if result.declined:
            return
        if ok is False:
            if call.does != "look" and call.does != "list":
                self._record_failure(call, outcome, source=source)
        else:
            self._record_success(call, result)
        if call.listed or (ok is False and call.does == "edit" and call.keys[:1] and call.keys[0].startswith("$ ")):
            self._list_command(
                Command(text=call.text, source=source, outcome=outcome, ok=ok, keys=call.keys, session=result.session)
            )

    def _record_poll(self, call: OpenCall, result: Result, *, ok: bool | None, outcome: str, source: str) -> None:
        """Record that a background process has ended: its command gets its outcome."""
        ran = next((command for command in self._commands if command.session and command.session == call.session), None)
        if ran is None or not result.told or ok is None:
            return
        ended = msgspec.structs.replace(ran, source=source, outcome=outcome, ok=ok, session="")
        self._list_command(ended)
        if ok:
            self._clear_failures(ran.keys)
        else:
            self._failures = _append_failure(self._failures, Failure(text=outcome, call=ran.text, source=source, keys=ran.keys))

    def _record_failure(self, call: OpenCall, outcome: str, *, source: str) -> None:
        shown = f"`{call.text}`" if call.listed else call.text
        self._failures = _append_failure(self._failures, Failure(text=outcome, call=shown, source=source, keys=call.keys))

    def _record_success(self, call: OpenCall, result: Result) -> None:
        edits = (_resolve_open_file(edit, result.text) for edit in call.edits)
        kept = tuple(edit for edit in edits if edit.path and not _has_complaint(edit.by, result.text))
        for edit in kept:
            apply_edit(self._changed, edit, source=call.source)
        files = tuple(f"file {edit.path}" for edit in kept)
        if not result.session:
            self._clear_failures((*call.keys, *files))
        if call.todos is not None:
            self._todos, self._todos_done = change_list(
                self._todos or (), self._todos_done, call.todos, answer=result.text, source=call.source
            )

    def _list_command(self, command: Command) -> None:
        """List a command as the newest; an older run of the same is the same line."""
        others = [
            other for other in self._commands if other.text != command.text and (not other.keys or other.keys != command.keys)
        ]
        self._commands = [*others, command][-COMMANDS_KEPT:]

    def _clear_failures(self, keys: Sequence[str]) -> None:
        """Drop from each error the keys that succeeded now, and the error when none is left."""
        if not self._failures or not keys:
            return
        standing: list[Failure] = []
        for failure in self._failures:
            left = tuple(key for key in failure.keys if not any(_is_rerun(done, key) for done in keys))
            if left or not failure.keys:
                standing.append(failure if left == failure.keys else msgspec.structs.replace(failure, keys=left))
        self._failures = standing


def _judge_outcome(call: OpenCall, result: Result) -> tuple[bool | None, str]:
    """Return how a call ended, judged by its kind.

    A tool that is no shell and has no error flag says in its first words that it refused. Exit code 0 of a line whose last
    part alone decides it is no proof where an error stands in what the line printed.
    """
    if call.does != "run" and result.ok is None and is_refusal_text(result.text, edits=call.does == "edit"):
        return False, find_error_line(result.text[:2_000]) or flatten(result.text)
    if call.does == "run" and result.ok and not call.certain and (said := find_error_line(result.text)):
        return None, mask_secrets(f"it printed: {said}")
    return result.ok, mask_secrets(result.outcome)


def _resolve_open_file(edit: Edit, answer: str) -> Edit:
    return msgspec.structs.replace(edit, path=find_open_file(answer)) if edit.path == OPEN_FILE else edit


def _has_complaint(program: str, output: str) -> bool:
    """Whether a program of a longer line says in its output that it failed."""
    return bool(program) and (f"\n{program}: " in output or output.startswith(f"{program}: "))


def _is_rerun(done: str, failed: str) -> bool:
    if done.startswith("$ ") and failed.startswith("$ "):
        return is_rerun(done[2:], failed[2:])
    return done == failed


def _append_failure(failures: list[Failure], failure: Failure) -> list[Failure]:
    others = [other for other in failures if other.keys != failure.keys]
    return [*others, failure][-FAILURES_KEPT:]


def _drop_oldest(entries: dict[str, OpenCall], limit: int) -> None:
    while len(entries) > limit:
        del entries[next(iter(entries))]


def _shorten_id(call_id: str) -> str:
    """Return a call's id, or a digest where it is longer than any provider writes one."""
    raw = call_id.encode("utf-8", "replace")
    return raw.decode() if len(raw) <= ID_CHARS else blake2b(raw, digest_size=16).hexdigest()


def _read_images(seen: ObservedItem) -> list[Image]:
    """Return a line for each picture of a message; its words are the caption of all."""
    caption = flatten(seen.view.said) or "without words"
    found = find_pictures(seen.item.raw)[-IMAGES_KEPT:] if seen.item else []
    told = [render_picture(caption, picture) for picture in found] or [render_picture(caption, None)]
    return [Image(text=flatten(text, limit=400), source=str(seen.source)) for text in told]
