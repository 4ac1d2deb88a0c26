"""One settings file of a client: plans a change, makes it, and takes it back.

Beside each change a note is kept of what was written and what it replaced. If the file is still as the change left it, undoing it
gives the earlier bytes. If it was edited since, only the parts that still stand as they were written are taken back.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec

from threadkeep.adapters.client_settings import json_text, line_text
from threadkeep.adapters.client_settings.draft import Draft, Splice, unwind
from threadkeep.errors import BadInput

Form = Literal["json", "jsonc", "toml", "yaml"]

OWNER_ONLY = 0o600
# Settings may hold keys of providers; a diff of the lines around ours must not show them. `env_key` only names a variable.
_secret = re.compile(
    r"""(?i)(?<![\w-])((?!["']?env_?key)["']?[\w-]*(?:key|token|secret|password)["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"',}{\[]+)"""
)
# A gateway's own key may stand in a base URL.
_gateway_key = re.compile(r"/k/[\w-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A value that is to stand at a path of the settings; in TOML, a table if it is a dictionary."""

    path: tuple[str, ...]
    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """An element that is to stand in a list of JSON settings, in place of those of which `replaces` is true."""

    path: tuple[str, ...]
    value: object
    replaces: Callable[[object], bool]


class _Part(msgspec.Struct, kw_only=True):
    """What one edit wrote. `keep` is how many steps of the path were there before; `old` is the text it replaced."""

    path: list[str]
    value: object = None
    is_element: bool = False
    keep: int = 0
    ours: str = ""
    old: str | None = None


class _Note(msgspec.Struct, kw_only=True):
    """What is needed to take a change back. Digests and replaced text only: settings may hold secrets."""

    path: str
    made_file: bool
    after: str
    splices: list[Splice]
    parts: list[_Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A file before and after; None is no file.

    Attributes:
        left: Parts that were edited since they were written, and so are left alone.
        replaced: Values that stood where ours are written, by path.
    """

    path: Path
    before: str | None
    after: str | None
    left: tuple[str, ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    note: bytes | None = None

    @property
    def diff(self) -> str:
        """The change as a unified diff without secrets; empty where there is none."""
        old, new = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        names = ("/dev/null" if self.before is None else str(self.path), "/dev/null" if self.after is None else str(self.path))
        if self.before == self.after:
            return ""
        lines = unified_diff(old, new, fromfile=names[0], tofile=names[1])
        whole = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
        return hide_secrets(whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """A settings file. `purpose` tells apart what is written to one file for different ends; `notes` is where notes are kept."""

    path: Path
    form: Form
    purpose: str
    notes: Path

    def holds(self, edits: Sequence[Put | Add]) -> bool:
        """Whether everything `edits` write is there.

        Raises:
            BadInput: The file cannot be read or understood.
        """
        values = self.read()
        return all(_is_there(edit, _at(values, edit.path)) for edit in edits)

    def read(self) -> object:
        """Return the settings as a value; empty where there is no file.

        Raises:
            BadInput: The file cannot be read or understood.
        """
        text = _read(self.path) or ""
        with self._blamed():
            return _parsed(text, self.form)

    @property
    def is_noted(self) -> bool:
        """Whether a change was made here that can be taken back."""
        return self._note_file.exists()

    def plan(self, edits: Sequence[Put | Add]) -> Change:
        """Return the change that makes `edits` stand in the file; none where they do already.

        Raises:
            BadInput: The file cannot be read, is not what it should be, or has something else where an edit belongs.
        """
        before = _read(self.path)
        if self.holds(edits):
            return Change(path=self.path, before=before, after=before)
        # What an earlier run wrote goes first, so that undoing leads to before the first run.
        earlier = self.plan_undo()
        draft = Draft(earlier.after or "")
        with self._blamed():
            parts = [part for edit in edits for part in self._apply(draft, edit)]
        note = _Note(
            path=str(self.path),
            made_file=earlier.after is None,
            after=_digest(draft.text),
            splices=draft.splices,
            parts=parts,
        )
        replaced = tuple((".".join(part.path), part.old) for part in parts if part.old is not None)
        body = msgspec.json.encode(note)
        return Change(path=self.path, before=before, after=draft.text, left=earlier.left, replaced=replaced, note=body)

    def plan_undo(self, *, unnoted: Sequence[Add] = (), after: Change | None = None) -> Change:
        """Return the change that takes back what was written here.

        `unnoted` are elements to look for where there is no note of them; `after` is another change of this file that is made
        first.

        Raises:
            BadInput: The file cannot be read, or is not what it should be.
        """
        now, note = _read(self.path) if after is None else after.after, self._note()
        if now is None or (note is None and not unnoted):
            return Change(path=self.path, before=now, after=now)
        if note is not None and note.after == _digest(now):
            return Change(path=self.path, before=now, after=None if note.made_file else unwind(now, note.splices))
        draft = Draft(now)
        left: list[str] = []
        with self._blamed():
            _parsed(now, self.form)
            for part in reversed(note.parts if note is not None else []):
                left += self._revert(draft, part)
            for edit in unnoted if note is None else ():
                self._drop(draft, edit, keep=0)
        empty = note is not None and note.made_file and draft.text.strip() in ("", "{}")
        return Change(path=self.path, before=now, after=None if empty else draft.text, left=tuple(left))

    def make(self, change: Change) -> None:
        """Write a planned change and its note; a change without a note is an undo, and its note goes.

        Raises:
            BadInput: The file was changed since the plan was made, or cannot be written.
        """
        if _read(self.path) != change.before:
            raise BadInput(f"{self.path} was changed meanwhile; nothing was written, run this again")
        if change.note is not None:
            write_file(self._note_file, change.note)
        if change.after is None:
            self.path.unlink(missing_ok=True)
        elif change.after != change.before:
            write_file(self.path, change.after.encode("utf-8"))
        if change.note is None:
            self._note_file.unlink(missing_ok=True)

    def _apply(self, draft: Draft, edit: Put | Add) -> Iterator[_Part]:
        path = list(edit.path)
        if self.form in ("toml", "yaml"):
            assert isinstance(edit, Put)
            known = _at(_parsed(draft.text, self.form), edit.path)
            if known == edit.value:
                return
            put = line_text.put_toml if self.form == "toml" else line_text.put_yaml
            ours, old = put(draft, edit.path, edit.value)
            yield _Part(path=path, ours=ours, old=old)
            return
        comments = self.form == "jsonc"
        if not draft.text.strip():
            draft.replace(0, len(draft.text), "{}\n")
        if isinstance(edit, Add):
            self._drop(draft, edit, keep=len(path))
            keep = json_text.existing_depth(json_text.parse(draft.text, comments=comments), path)
            json_text.add_element(draft, path, edit.value, comments=comments)
            yield _Part(path=path, value=edit.value, is_element=True, keep=keep)
            return
        root = json_text.parse(draft.text, comments=comments)
        present, keep = json_text.find(root, path), json_text.existing_depth(root, path)
        if present is None or present.value != edit.value:
            old = draft.text[present.start : present.stop] if present is not None else None
            json_text.put_value(draft, path, edit.value, comments=comments)
            yield _Part(path=path, value=edit.value, keep=keep, old=old)

    def _revert(self, draft: Draft, part: _Part) -> Iterator[str]:
        """Take one part back; yield what is wrong with it where it is left."""
        name = ".".join(part.path)
        if self.form in ("toml", "yaml"):
            values = _parsed(draft.text, self.form)
            if _at(values, part.path) is None or line_text.revert_lines(draft, part.ours, part.old):
                return
            yield f"{name} was edited since threadkeep wrote it; it is left as it is"
            return
        comments = self.form == "jsonc"
        node = json_text.find(json_text.parse(draft.text, comments=comments), part.path)
        if part.is_element:
            elements = node.value if node is not None and isinstance(node.value, list) else []
            if part.value in elements:
                json_text.remove_element(draft, part.path, elements.index(part.value), keep=part.keep, comments=comments)
            elif elements:
                yield f"{name} has no entry as threadkeep wrote it; what is there is left as it is"
        elif node is not None and node.value == part.value:
            if part.old is not None:
                draft.replace(node.start, node.stop, part.old)
            else:
                json_text.remove_value(draft, part.path, keep=part.keep, comments=comments)
        elif node is not None:
            yield f"{name} was edited since threadkeep wrote it; it is left as it is"

    def _drop(self, draft: Draft, edit: Add, *, keep: int) -> None:
        """Remove the elements that an edit replaces."""
        comments = self.form == "jsonc"
        while True:
            node = json_text.find(json_text.parse(draft.text, comments=comments), edit.path)
            elements = node.value if node is not None and isinstance(node.value, list) else []
            index = next((at for at, element in enumerate(elements) if edit.replaces(element)), None)
            if index is None:
                return
            json_text.remove_element(draft, edit.path, index, keep=keep, comments=comments)

    @property
    def _note_file(self) -> Path:
        name = blake2b(f"{self.path}\n{self.purpose}".encode(), digest_size=8).hexdigest()
        return self.notes / f"{name}.json"

    def _note(self) -> _Note | None:
        text = _read(self._note_file)
        try:
            return msgspec.json.decode(text, type=_Note) if text is not None else None
        except msgspec.MsgspecError:
            return None

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """Say which file has something wrong with it."""
        try:
            yield
        except BadInput as error:
            raise BadInput(f"{self.path}: {error}; nothing was changed") from error


def hide_secrets(text: str) -> str:
    """Return a text of settings without the values of keys, tokens and passwords."""
    return _gateway_key.sub("/k/***", _secret.sub(r'\1"***"', text))


def _is_there(edit: Put | Add, present: object) -> bool:
    """Whether an edit has nothing to change: its value stands there, in a list as the only one of ours."""
    if isinstance(edit, Put):
        return present == edit.value
    return isinstance(present, list) and [element for element in present if edit.replaces(element)] == [edit.value]


def _parsed(text: str, form: Form) -> object:
    if form == "toml":
        return line_text.read_toml(text)
    if form == "yaml":
        return line_text.read_yaml_keys(text)
    return json_text.parse(text, comments=form == "jsonc").value if text.strip() else {}


def _at(values: object, path: Sequence[str]) -> object:
    for key in path:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8"), digest_size=16).hexdigest()


def _read(path: Path) -> str | None:
    try:
        # As bytes: reading as text would change the line ends.
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}; nothing was changed") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} cannot be read: it is not UTF-8; nothing was changed") from error


def write_file(path: Path, body: bytes) -> None:
    """Write a file whole or not at all; one that is there keeps its mode, and a link stays a link.

    Raises:
        BadInput: It cannot be written.
    """
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else OWNER_ONLY
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(mode)
            Path(name).replace(target)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
