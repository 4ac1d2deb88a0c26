"""The files the work changed: one entry a file, however its path is spelled."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Final

import msgspec

from threadkeep.compaction.shell_line import Edit

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
            for path in _same_file(edit.path, files, loose=edit.effect == "deleted"):
                del files[path]
            files[edit.path] = ChangedFile(path=edit.path, source=source, deleted=edit.effect == "deleted")
            if len(files) > CHANGED_KEPT:
                del files[next(iter(files))]
        case "gone" | "reverted":
            # What is no longer there, or is again as it was, is not among the files the work changed.
            same = set(_same_file(edit.path, files, loose=True))
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


def _same_file(path: str, known: dict[str, ChangedFile], *, loose: bool) -> list[str]:
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
