"""Transcripts in: files and folders, once or again and again, each conversation as a thread.

An import can be broken off at any moment and run again: it goes on where it stopped, and adds nothing twice. What it holds in
memory does not grow with a rollout's length.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from holdfast.errors import UnknownFormat, UnreadableTranscript
from holdfast.runtime.backend import Backend
from holdfast.runtime.landing import Landing, Place
from holdfast.runtime.tracking import Origin
from holdfast.transfer.choosing import ENDINGS, source_of
from holdfast.transfer.detecting import Format
from holdfast.transfer.files import Line, is_packed, read_lines
from holdfast.transfer.rows import number_in, row_of
from holdfast.transfer.steps import Base, Lane, LineReader, Step, Trouble

BATCH_LINES = 128
BATCH_BYTES = 1 << 20
KEPT_OPEN = 8
CODEX_FOLDERS = ("sessions", "archived_sessions")
_rollout_id = re.compile(r"([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})\.jsonl(?:\.zst)?$")

Progress = Callable[[Path, int], None]
"""Told a file, and up to which byte of it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedThread:
    """A thread and what one source holds of it.

    `records` are the thread's own; `items` those of the source, inherited or own; `added` is how many records were new.
    """

    id: str
    source: str
    dialect: str
    records: int
    items: int
    added: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProblem:
    """Something in a source that could not be taken as what it claims to be. `line` is 0 where no line is to blame."""

    source: str
    line: int
    text: str


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
        self._open: OrderedDict[Path, _FileImport] = OrderedDict()
        self._known: dict[str, Path] = {}

    async def run(self, paths: Iterable[Path], *, progress: Progress | None = None) -> ImportReport:
        """Import every file of `paths`, folders with all they hold, and return what is new since the last call.

        Raises:
            UnreadableTranscript: A file that was named cannot be opened.
            UnknownFormat: Nothing in a file that was named says what it is.
        """
        named = list(paths)
        files = await asyncio.to_thread(lambda: [path for each in named for path in transcripts_in(each)])
        self._known.update({found[1]: path for path in files if (found := _rollout_id.search(path.name))})
        threads: list[ImportedThread] = []
        problems: list[ImportProblem] = []
        for path in files:
            try:
                work = await self._advance(path, progress)
            except (UnreadableTranscript, UnknownFormat) as error:
                if path in named:
                    raise
                problems.append(ImportProblem(source=str(path), line=0, text=str(error)))
                continue
            if work is not None:
                threads.extend(await work.threads())
                problems.extend(work.taken_problems())
        return ImportReport(threads=tuple(threads), problems=tuple(problems))

    async def _advance(self, path: Path, progress: Progress | None) -> _FileImport | None:
        signature = await asyncio.to_thread(_signature, path)
        if self._read.get(path) == signature:
            return None
        work = self._open.pop(path, None)
        if work is None or not await work.can_go_on(signature):
            work = _FileImport(self._backend, path, form=self._form, locate=self._locate)
        await work.run(signature, growing=self._growing, progress=progress)
        self._read[path] = signature
        if self._growing:
            # Few files grow at a time; one that is opened anew is read from its beginning, and adds the same.
            self._open[path] = work
            if len(self._open) > KEPT_OPEN:
                self._open.popitem(last=False)
        return work

    def _locate(self, rollout_id: str, near: Path) -> Path | None:
        """Return the file of a rollout: among those imported, else beside one that refers to it, where Codex keeps them."""
        if rollout_id in self._known:
            return self._known[rollout_id]
        folder = near.absolute().parent
        sessions = next((parent for parent in (folder, *folder.parents) if parent.name in CODEX_FOLDERS), None)
        looked = [sessions.parent / name for name in CODEX_FOLDERS] if sessions is not None else [folder]
        found = (path for each in looked for path in sorted(each.rglob(f"rollout-*{rollout_id}.jsonl*")))
        return next(found, None)


Signature = tuple[int, int, int]
Locate = Callable[[str, Path], Path | None]


class _FileImport:
    """One file on its way into threads."""

    def __init__(self, backend: Backend, path: Path, *, form: Format | None, locate: Locate) -> None:
        self.path = path
        self.signature: Signature | None = None
        self.landings: dict[str, Landing] = {}
        self._backend = backend
        self._form = form
        self._locate = locate
        self._source: LineReader | Callable[[], Iterator[Step]] | None = None
        self._current: Landing | None = None
        self._problems: list[ImportProblem] = []
        self._offset = 0
        self._line = 0
        self._packed = False

    async def can_go_on(self, signature: Signature) -> bool:
        """Whether the file only grew, and nobody else wrote to its threads."""
        same_file = self.signature is not None and signature[0] == self.signature[0] and signature[1] >= self._offset
        readable = self._source is not None and not callable(self._source) and not self._packed
        return same_file and readable and all([await landing.is_alone() for landing in self.landings.values()])

    async def run(
        self,
        signature: Signature | None = None,
        *,
        growing: bool = False,
        progress: Progress | None = None,
        before_ordinal: int | None = None,
        within: tuple[Path, ...] = (),
    ) -> None:
        """Read what is new and write it; `before_ordinal` ends at that line of a paginated rollout."""
        self.signature = signature
        if self._source is None:
            self._source = await asyncio.to_thread(source_of, self.path, self._form)
            self._packed = await asyncio.to_thread(is_packed, self.path)
        source = self._source
        chain = (*within, self.path)
        if callable(source):
            for step in source():
                await self._take(step, within=chain)
        else:
            await self._run_lines(source, growing=growing, progress=progress, before_ordinal=before_ordinal, within=chain)
        for landing in self.landings.values():
            await landing.finish()

    async def _run_lines(
        self,
        reader: LineReader,
        *,
        growing: bool,
        progress: Progress | None,
        before_ordinal: int | None,
        within: tuple[Path, ...],
    ) -> None:
        lines = read_lines(self.path, start=self._offset, number=self._line)
        if before_ordinal is not None:
            lines = _before(lines, before_ordinal)
        while batch := await asyncio.to_thread(self._read_batch, lines, reader, growing=growing):
            for number, steps in batch:
                self._line = number
                for step in steps:
                    await self._take(step, within=within)
            if progress is not None:
                progress(self.path, self._offset)
        for step in reader.finish():
            await self._take(step, within=within)

    def _read_batch(self, lines: Iterator[Line], reader: LineReader, *, growing: bool) -> list[tuple[int, list[Step]]]:
        """Return the steps of the next lines; nothing at the end."""
        batch: list[tuple[int, list[Step]]] = []
        size = 0
        try:
            for line in islice(lines, BATCH_LINES):
                if growing and not line.whole and (line.raw is None or row_of(line.raw) is None):
                    break
                self._offset = line.stop
                too_long: list[Step] = [Trouble(text="a line too long to be one")]
                batch.append((line.number, too_long if line.raw is None else reader.feed(line.raw)))
                size += len(line.raw or b"")
                if size >= BATCH_BYTES:
                    break
        except UnreadableTranscript as error:
            batch.append((self._line, [Trouble(text=str(error))]))
        return batch

    async def _take(self, step: Step, *, within: tuple[Path, ...]) -> None:
        if isinstance(step, Lane):
            if step.thread_id not in self.landings:
                self.landings[step.thread_id] = await self._landing(step, within=within)
            self._current = self.landings[step.thread_id]
        elif self._current is not None:
            self._problem(await self._current.take(step))
        elif isinstance(step, Trouble):
            self._problem(step.text)

    async def _landing(self, lane: Lane, *, within: tuple[Path, ...]) -> Landing:
        before: Landing | None = None
        if lane.base is not None:
            before = await self._base(lane.base, within=within)
        elif lane.continued_from is not None:
            before = self.landings.get(lane.continued_from)
        if before is None:
            return Landing(self._backend, lane)
        await before.finish()
        origin, place = await before.origin(), before.place
        return Landing(self._backend, lane, origin=origin, place=_moved(place, origin))

    async def _base(self, base: Base, *, within: tuple[Path, ...]) -> Landing | None:
        """Return where a rollout forked by reference begins: its parent, imported up to that line."""
        path = await asyncio.to_thread(self._locate, base.rollout_id, self.path)
        if path is None or path in within:
            self._problem(f"it begins in rollout {base.rollout_id}, which is not here; import both to have all of it")
            return None
        parent = _FileImport(self._backend, path, form=Format.CODEX, locate=self._locate)
        await parent.run(before_ordinal=base.end_ordinal, within=within)
        return parent._current

    def _problem(self, text: str | None) -> None:
        if text is not None:
            self._problems.append(ImportProblem(source=str(self.path), line=self._line, text=text))

    def taken_problems(self) -> list[ImportProblem]:
        taken, self._problems = self._problems, []
        return taken

    async def threads(self) -> list[ImportedThread]:
        """Return the threads this file is in."""
        return [await self._thread(landing) for landing in self.landings.values() if landing.begun]

    async def _thread(self, landing: Landing) -> ImportedThread:
        row = await self._backend.store.get(landing.thread_id)
        return ImportedThread(
            id=row.id,
            source=str(self.path),
            dialect=row.dialect,
            records=row.next - row.start,
            items=landing.items,
            added=landing.taken_added(),
        )


def transcripts_in(path: Path) -> Sequence[Path]:
    """Return `path`, or the transcripts of a folder; a packed one beside its plain form is left out."""
    if not path.is_dir():
        return (path,)
    found = [each for each in sorted(path.rglob("*")) if each.name.endswith(ENDINGS) and each.is_file()]
    return [each for each in found if not (each.suffix == ".zst" and each.with_suffix("") in found)]


def _signature(path: Path) -> Signature:
    try:
        known = path.stat()
    except OSError as error:
        raise UnreadableTranscript(str(path), error.strerror or str(error)) from error
    return known.st_ino, known.st_size, known.st_mtime_ns


def _before(lines: Iterator[Line], ordinal: int) -> Iterator[Line]:
    for line in lines:
        row = row_of(line.raw) if line.raw is not None else None
        found = number_in(row, "ordinal") if row is not None else None
        if found is not None and found >= ordinal:
            return
        yield line


def _moved(place: Place, origin: Origin) -> Place:
    return replace(place, next=origin.at + 1)
