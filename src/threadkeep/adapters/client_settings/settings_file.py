"""One settings file of a client: plans a change, makes it, and takes it back.

Beside each change a note is kept of each text that was written and what it replaced. An undo puts the replaced text back wherever
ours still stands; parts that were edited since are left, and named.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from hashlib import blake2b
from pathlib import Path

import msgspec

from threadkeep.adapters.client_settings.text_edits import (
    Add,
    Form,
    Part,
    Put,
    drop_value,
    get_value,
    is_there,
    make_edit,
    read_settings,
    undo_part,
)
from threadkeep.errors import UneditableSettings, UnusableFile

OWNER_ONLY = 0o600
# Settings may hold keys of providers; a diff of the lines around ours must not show them. `env_key` only names a variable.
_secret = re.compile(
    r"""(?i)(?<![\w-])((?!["']?env_?key)["']?[\w-]*(?:key|token|secret|password)["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"',}{\[]+)"""
)
# A gateway's own key may stand in a base URL.
_gateway_key = re.compile(r"/k/[\w-]+")


class _Note(msgspec.Struct, kw_only=True):
    """What is needed to take a change back. Only text that was written or replaced: settings may hold secrets."""

    made_file: bool
    parts: list[Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A file before and after; None is no file.

    Attributes:
        left: Parts that were edited since they were written, and so are left alone.
        replaced: Texts that stood where ours are written.
    """

    path: Path
    before: str | None
    after: str | None
    left: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
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
            UnusableFile: The file cannot be read or understood.
        """
        values = self.read()
        return all(is_there(values, edit) for edit in edits)

    def read(self) -> dict[str, object]:
        """Return the settings as values; empty where there is no file.

        Raises:
            UnusableFile: The file cannot be read or understood.
        """
        with self._name_in_errors():
            return read_settings(_read(self.path) or "", self.form)

    @property
    def is_noted(self) -> bool:
        """Whether a change was made here that can be taken back."""
        return self._note_file.exists()

    def plan(self, edits: Sequence[Put | Add]) -> Change:
        """Return the change that makes `edits` stand in the file; none where they do already.

        Raises:
            UnusableFile: The file cannot be read, is not what it should be, or has something else where an edit belongs.
        """
        before = _read(self.path)
        if self.holds(edits):
            return Change(path=self.path, before=before, after=before)
        # What an earlier run wrote goes first, so that undoing leads to before the first run.
        earlier = self.plan_undo(unnoted=[edit for edit in edits if isinstance(edit, Add)])
        text, parts = earlier.after or "", []
        with self._name_in_errors():
            for edit in edits:
                text, made = make_edit(text, self.form, edit)
                parts += made
        note = _Note(made_file=not (earlier.after or "").strip(), parts=parts)
        replaced = tuple(part.old.strip() for part in parts if part.old.strip())
        body = msgspec.json.encode(note)
        return Change(path=self.path, before=before, after=text, left=earlier.left, replaced=replaced, note=body)

    def plan_undo(self, *, unnoted: Sequence[Add] = (), after: Change | None = None) -> Change:
        """Return the change that takes back what was written here.

        `unnoted` are elements to look for where there is no note of them; `after` is another change of this file that is made
        first.

        Raises:
            UnusableFile: The file cannot be read, or is not what it should be.
        """
        now, note = _read(self.path) if after is None else after.after, self._read_note()
        if now is None or (note is None and not unnoted):
            return Change(path=self.path, before=now, after=now)
        text: str = now
        left: list[str] = []
        with self._name_in_errors():
            for part in reversed(note.parts if note is not None else []):
                undone = undo_part(text, self.form, part)
                left += [] if undone is not None else self._describe_left(text, part)
                text = text if undone is None else undone
            for edit in unnoted if note is None else ():
                text = self._drop_unnoted(text, edit)
        is_gone = note is not None and note.made_file and text.strip() in ("", "{}")
        return Change(path=self.path, before=now, after=None if is_gone else text, left=tuple(left))

    def make(self, change: Change) -> None:
        """Write a planned change and its note; a change without a note is an undo, and its note goes.

        Raises:
            UnusableFile: The file was changed since the plan was made, or cannot be written.
        """
        if _read(self.path) != change.before:
            raise UnusableFile(str(self.path), reason="was changed meanwhile; nothing was written, run this again")
        if change.note is not None:
            write_file(self._note_file, change.note)
        if change.after is None:
            self.path.unlink(missing_ok=True)
        elif change.after != change.before:
            write_file(self.path, change.after.encode("utf-8"))
        if change.note is None:
            self._note_file.unlink(missing_ok=True)

    def _describe_left(self, text: str, part: Part) -> list[str]:
        """Return what to say about a part that an undo leaves; nothing if it is gone, or was only made to hold another."""
        name, present = ".".join(part.path), get_value(read_settings(text, self.form), part.path)
        if not present or not part.value:
            return []
        if part.is_element:
            return [f"{name} has no entry as threadkeep wrote it; what is there is left as it is"]
        return [f"{name} was edited since threadkeep wrote it; it is left as it is"]

    def _drop_unnoted(self, text: str, edit: Add) -> str:
        """Remove elements that threadkeep wrote on another machine or in another release."""
        elements = get_value(read_settings(text, self.form), edit.path)
        for element in elements if isinstance(elements, list) else []:
            if edit.replaces(element):
                text = drop_value(text, self.form, edit.path, element) or text
        return text

    @property
    def _note_file(self) -> Path:
        name = blake2b(f"{self.path}\n{self.purpose}".encode(), digest_size=8).hexdigest()
        return self.notes / f"{name}.json"

    def _read_note(self) -> _Note | None:
        text = _read(self._note_file)
        try:
            return msgspec.json.decode(text, type=_Note) if text is not None else None
        except msgspec.MsgspecError:
            return None

    @contextmanager
    def _name_in_errors(self) -> Iterator[None]:
        """Name the file in an error about its content."""
        try:
            yield
        except UneditableSettings as error:
            raise UnusableFile(str(self.path), reason=f"cannot be used: {error}; nothing was changed") from error


def hide_secrets(text: str) -> str:
    """Return a text of settings without the values of keys, tokens and passwords."""
    return _gateway_key.sub("/k/***", _secret.sub(r'\1"***"', text))


def _read(path: Path) -> str | None:
    try:
        # As bytes: reading as text would change the line ends.
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnusableFile(str(path), reason=f"cannot be read: {error.strerror}; nothing was changed") from error
    except UnicodeDecodeError as error:
        raise UnusableFile(str(path), reason="cannot be read: it is not UTF-8; nothing was changed") from error


def write_file(path: Path, body: bytes) -> None:
    """Write a file whole or not at all; one that is there keeps its mode, and a link stays a link.

    Raises:
        UnusableFile: It cannot be written.
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
        raise UnusableFile(
            str(path), reason=f"cannot be written: {error.strerror}; check its permissions and the disk"
        ) from error
