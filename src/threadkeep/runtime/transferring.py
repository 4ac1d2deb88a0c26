"""Transcripts in: files and folders, once or again and again, each conversation as a thread.

An import can be broken off at any moment and run again: it goes on where it stopped, and adds nothing twice. Several may take
in the same files at the same time. What one holds in memory does not grow with a rollout's length.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from threadkeep.errors import OrdinalConflict, ThreadExists, UnknownFormat, UnreadableTranscript
from threadkeep.runtime.backend import Backend
from threadkeep.runtime.file_import import FileImport, ImportedThread, ImportProblem, Progress, Signature, signature_of
from threadkeep.transfer.choosing import ENDINGS
from threadkeep.transfer.detecting import Format

__all__ = ["ImportProblem", "ImportReport", "ImportedThread", "Importer", "Progress", "transcripts_in"]

KEPT_OPEN = 8
# How often a file is begun anew because others wrote to its threads; each time they got on, so it ends.
MOST_ATTEMPTS = 32
CODEX_FOLDERS = ("sessions", "archived_sessions")
_rollout_id = re.compile(r"([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})\.jsonl(?:\.zst)?$")
# What a rollout calls another is looked for among file names, so it must be none that leads elsewhere.
_plain_name = re.compile(r"[0-9A-Za-z_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    threads: tuple[ImportedThread, ...]
    problems: tuple[ImportProblem, ...]


class Importer:
    """Imports files into a store; called again, it reads only what changed."""

    def __init__(self, backend: Backend, *, form: Format | None = None, growing: bool = False) -> None:
        """Name the store, and the format of the files where it is known.

        Args:
            growing: Others are still writing the files: a last line without its end is left for the next time.
        """
        self._backend = backend
        self._form = form
        self._growing = growing
        self._read: dict[Path, Signature] = {}
        self._open: OrderedDict[Path, FileImport] = OrderedDict()
        self._known: dict[str, Path] = {}
        self._failed: dict[Path, str] = {}
        self._began = False

    async def run(self, paths: Iterable[Path], *, progress: Progress | None = None) -> ImportReport:
        """Import every file of `paths`, folders with all they hold, and return what is new since the last call.

        Where others are still writing, a file that fails later than in the first call is among the problems, once, and taken up
        again when it is there.

        Raises:
            UnreadableTranscript: A file that was named cannot be read.
            UnknownFormat: Nothing in a file that was named says what it is.
            OrdinalConflict, ThreadExists: Others wrote to the threads of a file that was named whenever it was tried.
        """
        named = list(paths)
        files = await asyncio.to_thread(lambda: [path for each in named for path in transcripts_in(each)])
        self._known.update({found[1]: path for path in files if (found := _rollout_id.search(path.name))})
        threads: list[ImportedThread] = []
        problems: list[ImportProblem] = []
        for path in files:
            try:
                work = await self._advance(path, progress)
            except (UnreadableTranscript, UnknownFormat, OrdinalConflict, ThreadExists) as error:
                if path in named and not (self._growing and self._began):
                    raise
                if self._failed.get(path) != str(error):
                    problems.append(ImportProblem(source=str(path), line=0, text=str(error)))
                self._failed[path] = str(error)
                continue
            self._failed.pop(path, None)
            if work is not None:
                threads.extend(await work.threads())
                problems.extend(work.taken_problems())
        self._began = True
        # What is wrong in a rollout that others begin in is met again with each of them.
        return ImportReport(threads=tuple(threads), problems=tuple(dict.fromkeys(problems)))

    async def _advance(self, path: Path, progress: Progress | None) -> FileImport | None:
        signature = await asyncio.to_thread(signature_of, path)
        if self._read.get(path) == signature:
            return None
        work = self._open.pop(path, None)
        if work is None or not await work.can_go_on(signature):
            work = FileImport(self._backend, path, form=self._form, locate=self._locate, growing=self._growing)
        work = await _settled(work, signature, progress=progress)
        self._read[path] = signature
        if self._growing:
            # Few files grow at a time; one that is opened anew is read from its beginning, and adds the same.
            self._open[path] = work
            if len(self._open) > KEPT_OPEN:
                self._open.popitem(last=False)
        return work

    def _locate(self, rollout_id: str, near: Path) -> Path | None:
        """Return the file of a rollout: among those imported, else beside one that refers to it, where Codex keeps them."""
        if not _plain_name.fullmatch(rollout_id):
            return None
        known = self._known.get(rollout_id)
        if known is not None and known.exists():
            return known
        folder = near.absolute().parent
        sessions = next((parent for parent in (folder, *folder.parents) if parent.name in CODEX_FOLDERS), None)
        looked = [sessions.parent / name for name in CODEX_FOLDERS] if sessions is not None else [folder]
        found = (path for each in looked for path in sorted(each.rglob(f"rollout-*{rollout_id}.jsonl*")))
        path = next(found, None)
        if path is not None:
            self._known[rollout_id] = path
        return path


async def _settled(work: FileImport, signature: Signature, *, progress: Progress | None) -> FileImport:
    """Run `work`, begun anew as often as others write to its threads meanwhile; returns the one that came to its end."""
    for _ in range(MOST_ATTEMPTS - 1):
        try:
            await work.run(signature, progress=progress)
        except (OrdinalConflict, ThreadExists):
            work = work.anew()
        else:
            return work
    await work.run(signature, progress=progress)
    return work


def transcripts_in(path: Path) -> Sequence[Path]:
    """Return `path`, or the transcripts of a folder; a packed one beside its plain form is left out."""
    if not path.is_dir():
        return (path,)
    found = [each for each in sorted(path.rglob("*")) if each.name.endswith(ENDINGS) and each.is_file()]
    return [each for each in found if not (each.suffix == ".zst" and each.with_suffix("") in found)]
