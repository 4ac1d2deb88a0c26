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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from threadkeep.compaction.facts.shell import Edit, is_rerun
from threadkeep.compaction.facts.tools import (
    OpenCall,
    Outcome,
    Todo,
    change_list,
    confirm_edits,
    flatten,
    judge_outcome,
    read_call,
)
from threadkeep.dialects.pictures import find_pictures
from threadkeep.items import Item, ItemKind, ToolCall, ToolOutput, View
from threadkeep.threads import Pointer, parse_pointer

CHANGED_KEPT: Final = 64
COMMANDS_KEPT: Final = 24
COMMANDS_TOLD: Final = 3
FAILURES_KEPT: Final = 8
OPEN_KEPT: Final = 32
IMAGES_KEPT: Final = 4
TODOS_TOLD: Final = 24
FILES_IN_LINE: Final = 5
# An error is dropped when people have begun so many requests since.
REQUESTS_AFTER_ERROR: Final = 2
ID_CHARS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedItem:
    """An item with its view and the record it comes from."""

    view: View
    source: Pointer
    item: Item | None = None


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file the work changed; `source` is the call that wrote its newest content, or that deleted it."""

    path: str
    source: str
    deleted: bool = False


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


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """A picture a person sent."""

    text: str
    source: str


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the records below `upto` show; newest last in every part.

    Attributes:
        failures: The errors that stand.
        left: Calls that were open when a person spoke again. They are not running, but a late answer still counts.
    """

    upto: int = 0
    changed: tuple[ChangedFile, ...] = ()
    commands: tuple[Command, ...] = ()
    failures: tuple[Failure, ...] = ()
    open_calls: tuple[OpenCall, ...] = ()
    left: tuple[OpenCall, ...] = ()
    todos: tuple[Todo, ...] = ()
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line about the work, and the record that shows it."""

    text: str
    source: Pointer


class FactLines(NamedTuple):
    """Facts in words, part by part."""

    changed: tuple[Line, ...]
    failure: tuple[Line, ...]
    open_calls: tuple[Line, ...]
    todos: tuple[Line, ...]
    images: tuple[Line, ...]


def fold(facts: Facts, items: Sequence[ObservedItem]) -> Facts:
    """Return the facts with those of `items`, in order; items that `facts` already covers are passed over."""
    state = _FactsFold(facts)
    for seen in items:
        if seen.source.ordinal >= state.upto:
            state.add(seen)
    return state.freeze()


def render_facts(facts: Facts) -> FactLines:
    """Return each part of the facts as plain lines; of the errors, the last."""
    last = facts.failures[-1:]
    waiting = [todo for todo in facts.todos if todo.status != "done"]
    done = len(facts.todos) - len(waiting)
    counted = [(f"todo [done]: {done} of the list", waiting[-1].source)] if waiting and done else []
    return FactLines(
        changed=_make_lines((f"{'deleted' if file.deleted else 'changed'} {file.path}", file.source) for file in facts.changed),
        failure=_make_lines((f"last error: {failure.call}: {failure.text}", failure.source) for failure in last),
        open_calls=_make_lines((f"open call: {call.text}", call.source) for call in facts.open_calls),
        todos=_make_lines([(f"todo [{todo.status}]: {todo.text}", todo.source) for todo in waiting[:TODOS_TOLD]] + counted),
        images=_make_lines((image.text, image.source) for image in facts.images),
    )


def tell_work(before: Facts, after: Facts) -> tuple[str, ...]:
    """Return the work between two states of the facts: the files it changed, on one line, and its last commands, a line each."""
    files = [file for file in after.changed if file not in before.changed]
    commands = [command for command in after.commands if command not in before.commands]
    return (*((f"changed {_tell_files(files)}",) if files else ()), *map(_tell_command, commands[-COMMANDS_TOLD:]))


def _make_lines(told: Iterable[tuple[str, str]]) -> tuple[Line, ...]:
    return tuple(Line(text=text, source=parse_pointer(source)) for text, source in told)


def _tell_command(command: Command) -> str:
    said = f"failed, {command.outcome}" if command.ok is False else command.outcome
    return f"ran `{command.text}`: {said}" if said else f"ran `{command.text}`"


def _tell_files(files: Sequence[ChangedFile]) -> str:
    """Return the newest of `files` by name on one line; where two have the same name, with their folder's. Paths are evidence."""
    shown = files[-FILES_IN_LINE:]
    names = [posixpath.basename(file.path) for file in shown]
    told = [
        ("/".join(file.path.split("/")[-2:]) if names.count(name) > 1 else name) + (" (deleted)" if file.deleted else "")
        for name, file in zip(names, shown, strict=True)
    ]
    return ", ".join((*told, *([f"and {len(files) - len(shown)} more"] if len(files) > len(shown) else [])))


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
        self._images = list(facts.images)

    def freeze(self) -> Facts:
        return Facts(
            upto=self.upto,
            changed=tuple(self._changed.values())[-CHANGED_KEPT:],
            commands=tuple(self._commands),
            failures=tuple(self._failures),
            open_calls=tuple(self._open.values()),
            left=tuple(self._left.values()),
            todos=self._todos,
            images=tuple(self._images),
        )

    def add(self, seen: ObservedItem) -> None:
        """Add the facts of one item."""
        self.upto = seen.source.ordinal + 1
        view = seen.view
        for output in view.outputs:
            name = _shorten_id(output.call_id)
            call = self._open.pop(name, None) or self._left.pop(name, None)
            if call is not None:
                self._record_answer(call, output, source=str(seen.source))
        for call_id in view.closes:
            self._open.pop(_shorten_id(call_id), None)
        if view.opens:
            self._record_calls(seen)
        if view.kind is ItemKind.MESSAGE and (view.by_person or view.is_task):
            self._begin_request()
            if view.images and view.by_person:
                self._images = [*self._images, *_read_images(seen)][-IMAGES_KEPT:]

    def _record_calls(self, seen: ObservedItem) -> None:
        calls = {call.id: call for call in seen.view.calls}
        for call_id in seen.view.opens:
            # The provider's own tools are not among the calls.
            call = calls.get(call_id) or ToolCall(id=call_id, name=seen.view.tool or "", arguments="")
            name = _shorten_id(call_id)
            self._left.pop(name, None)
            self._open.pop(name, None)
            self._open[name] = msgspec.structs.replace(read_call(call, source=str(seen.source)), id=name)
        _drop_oldest(self._open, OPEN_KEPT)

    def _begin_request(self) -> None:
        """Begin another request of a person: calls without an answer were interrupted, and errors age."""
        self._left.update(self._open)
        self._open.clear()
        _drop_oldest(self._left, OPEN_KEPT)
        aged = (msgspec.structs.replace(failure, requests=failure.requests + 1) for failure in self._failures)
        self._failures = [failure for failure in aged if failure.requests < REQUESTS_AFTER_ERROR]

    def _record_answer(self, call: OpenCall, output: ToolOutput, *, source: str) -> None:
        outcome = judge_outcome(call, output)
        is_failed = outcome.ok is False
        if call.does == "poll":
            ran = next((command for command in self._commands if command.session and command.session == call.session), None)
            if ran is None or outcome.ok is None:
                return
            # A background process has ended: its command gets its outcome.
            call = OpenCall(id=call.id, text=ran.text, source=call.source, does="run", keys=ran.keys)
        if outcome.declined:
            return
        if not is_failed:
            self._record_success(call, outcome, answer=output.text)
        elif call.does not in ("look", "list"):
            shown = f"`{call.text}`" if call.does == "run" else call.text
            failure = Failure(text=outcome.said, call=shown, source=source, keys=call.keys)
            self._failures = [*(other for other in self._failures if other.keys != call.keys), failure][-FAILURES_KEPT:]
        if call.does == "run" or (is_failed and call.does == "edit" and call.keys[:1] and call.keys[0].startswith("$ ")):
            made = Command(
                text=call.text, source=source, outcome=outcome.said, ok=outcome.ok, keys=call.keys, session=outcome.session
            )
            # An older run of the same is the same line.
            others = (other for other in self._commands if other.text != made.text)
            self._commands = [*(other for other in others if not other.keys or other.keys != made.keys), made][-COMMANDS_KEPT:]

    def _record_success(self, call: OpenCall, outcome: Outcome, *, answer: str) -> None:
        edits = confirm_edits(call, answer)
        for edit in edits:
            self._apply_edit(edit, source=call.source)
        if not outcome.session:
            self._clear_failures((*call.keys, *(f"file {edit.path}" for edit in edits)))
        if call.todos is not None:
            self._todos = change_list(self._todos, call.todos, answer=answer, source=call.source)

    def _apply_edit(self, edit: Edit, *, source: str) -> None:
        """Bring the changed files, the newest last, up to date."""
        is_listed = edit.effect in ("changed", "deleted")
        for path in _find_spellings(edit.path, self._changed, loose=edit.effect != "changed"):
            del self._changed[path]
        if is_listed:
            self._changed[edit.path] = ChangedFile(path=edit.path, source=source, deleted=edit.effect == "deleted")
            return
        # What is no longer there, or is again as it was, is not among the files the work changed.
        for path in [path for path in self._changed if edit.path == "." or path.startswith(f"{edit.path}/")]:
            del self._changed[path]

    def _clear_failures(self, keys: Sequence[str]) -> None:
        """Drop from each error the keys that succeeded now, and the error when none is left."""
        standing: list[Failure] = []
        for failure in self._failures if keys else ():
            left = tuple(key for key in failure.keys if not any(_is_same_work(done, key) for done in keys))
            if left or not failure.keys:
                standing.append(msgspec.structs.replace(failure, keys=left))
        self._failures = standing if keys else self._failures


def _find_spellings(path: str, known: Iterable[str], *, loose: bool) -> list[str]:
    """Return the spellings under which a file is listed: as it is, or relative where the other one is absolute.

    A bare name fits many absolute paths. With `loose` it fits them all: a line that may have become false is dropped.
    """

    def is_end(longer: str, shorter: str) -> bool:
        fits = longer.startswith("/") and not shorter.startswith("/") and longer.endswith(f"/{shorter}")
        return fits and (loose or "/" in shorter)

    return [other for other in known if other == path or is_end(path, other) or is_end(other, path)]


def _is_same_work(done: str, failed: str) -> bool:
    is_run = done.startswith("$ ") and failed.startswith("$ ")
    return is_rerun(done.removeprefix("$ "), failed.removeprefix("$ ")) if is_run else done == failed


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
    told = [f"[{picture}] image: {caption}" for picture in found] or [f"image: {caption}"]
    return [Image(text=flatten(text, limit=400), source=str(seen.source)) for text in told]
