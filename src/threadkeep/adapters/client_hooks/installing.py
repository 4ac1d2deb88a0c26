"""Putting hooks into a client's settings and taking them out again: shown first, then done, and undone to the byte."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from functools import partial
from hashlib import blake2b
from pathlib import Path

from threadkeep.adapters.client_hooks.clients import HookClient, is_ours, wanted_groups
from threadkeep.adapters.client_hooks.settings_text import with_groups, without_groups
from threadkeep.errors import BadInput

OWNER_ONLY = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a file holds, and is to hold; None is no file."""

    path: Path
    before: str | None
    after: str | None

    @property
    def diff(self) -> str:
        """The change as a unified diff; nothing where there is none."""
        old, new = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        names = ("/dev/null" if self.before is None else str(self.path), "/dev/null" if self.after is None else str(self.path))
        lines = unified_diff(old, new, fromfile=names[0], tofile=names[1])
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """One client's settings file, and the folder where it is remembered what stood in it before."""

    client: HookClient
    path: Path
    memory: Path

    def plan(self, program: Sequence[str], *, store: str | None) -> Change:
        """Return what an installation changes; where all of it stands there already, nothing.

        Raises:
            BadInput: The file cannot be read, or is not what it should be.
        """
        before = _read(self.path)
        groups = wanted_groups(program, self.client, store=store)
        with _told_of(self.path):
            after = with_groups(before, groups, is_ours=partial(is_ours, client=self.client))
        known = before is not None and _same(before, after)
        return Change(path=self.path, before=before, after=before if known else after)

    def plan_undo(self) -> Change:
        """Return what taking it back changes: to the byte where nobody wrote since, else our hooks and nothing else.

        Raises:
            BadInput: The file cannot be read, or is not what it should be.
        """
        now = _read(self.path)
        remembered = self._remembered()
        if remembered is not None and remembered.after == now:
            return Change(path=self.path, before=now, after=remembered.before)
        with _told_of(self.path):
            after = now if now is None else without_groups(now, is_ours=partial(is_ours, client=self.client))
        return Change(path=self.path, before=now, after=after)

    def install(self, change: Change) -> None:
        """Write an installation, and remember how to take it back; of several, to before the first.

        Raises:
            BadInput: The file cannot be written.
        """
        earlier = self._remembered()
        first = earlier.before if earlier is not None and earlier.after == change.before else change.before
        _write(self._note, json.dumps({"path": str(self.path), "before": first, "after": change.after}))
        _write(self.path, change.after or "")

    def undo(self, change: Change) -> None:
        """Take it back.

        Raises:
            BadInput: The file cannot be written.
        """
        if change.after is None:
            self.path.unlink(missing_ok=True)
        elif change.after != change.before:
            _write(self.path, change.after)
        self._note.unlink(missing_ok=True)

    @property
    def _note(self) -> Path:
        return self.memory / f"{blake2b(str(self.path).encode(), digest_size=8).hexdigest()}.json"

    def _remembered(self) -> Change | None:
        text = _read(self._note)
        if text is None:
            return None
        try:
            known = json.loads(text)
            return Change(path=self.path, before=known["before"], after=known["after"])
        except (ValueError, KeyError, TypeError):
            return None


@contextmanager
def _told_of(path: Path) -> Iterator[None]:
    """Say which file it is that has something wrong with it."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error


def _same(before: str, after: str) -> bool:
    return bool(json.loads(before) == json.loads(after))


def _read(path: Path) -> str | None:
    try:
        # As bytes: reading as text would turn every line end into one.
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all; one that is there keeps its mode, and a link stays one."""
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else OWNER_ONLY
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
        Path(name).chmod(mode)
        Path(name).replace(target)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
