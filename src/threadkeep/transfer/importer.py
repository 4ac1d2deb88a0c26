"""Imports files and folders, one thread per conversation; importing again adds only new items."""

from __future__ import annotations

import asyncio
import re
import stat
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import find_dialect
from threadkeep.errors import OrdinalConflict, ThreadExists, UnknownFormat, UnreadableTranscript
from threadkeep.transfer.import_formats import ENDINGS, Format, Source, choose_source
from threadkeep.transfer.json_rows import get_number, parse_row
from threadkeep.transfer.recorded_session import find_recorded_threads
from threadkeep.transfer.thread_builder import ThreadBuilder
from threadkeep.transfer.transcript_form import Base, Lane, LineReader, Step, Trouble
from threadkeep.transfer.transcript_lines import Line, is_packed, read_lines

BATCH_LINES = 128
BATCH_BYTES = 1 << 20
# How many base rollouts are followed back.
MOST_BASES = 64

Progress = Callable[[Path, int], None]
"""Called with a file and the number of bytes read so far."""

Signature = tuple[int, int, int]
"""A file's inode, size and modification time."""

Locate = Callable[[str, Path], Path | None]
"""Returns the file of a rollout by its id; the path is the file that refers to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedThread:
    """A thread of an imported file.

    `records` counts the thread's own records, `items` the items of the file, and `added` the new records.
    """

    id: str
    source: str
    dialect: str
    records: int
    items: int
    added: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProblem:
    """Something in a file that could not be read as expected. `line` is 0 if it concerns no single line."""

    source: str
    line: int
    text: str


class FileImport:
    """The import of one file. After a conflict, only `restart` may be called."""

    def __init__(
        self,
        backend: Backend,
        path: Path,
        *,
        form: str | None,
        locate: Locate,
        growing: bool,
        within: tuple[Path, ...] = (),
        added: Counter[str] | None = None,
    ) -> None:
        """Name the file.

        Args:
            growing: The file is still being written: a last line without its end is left for the next run.
            within: The rollouts that have this one as their base.
            added: Counts new records by thread.
        """
        self.path = path
        self._backend = backend
        self._form = form
        self._locate = locate
        self._growing = growing
        self._within = within
        self._signature: Signature | None = None
        self._landings: dict[str, ThreadBuilder] = {}
        self._source: Source | None = None
        self._current: ThreadBuilder | None = None
        self._problems: list[ImportProblem] = []
        self._added = Counter() if added is None else added
        self._offset = 0
        self._line = 0
        self._packed = False

    def restart(self) -> FileImport:
        """Return a new import of the same file that keeps this one's count of added records."""
        return FileImport(
            self._backend,
            self.path,
            form=self._form,
            locate=self._locate,
            growing=self._growing,
            within=self._within,
            added=self._added,
        )

    async def can_go_on(self, signature: Signature) -> bool:
        """Whether the file only grew, and no other writer changed its threads."""
        same_file = self._signature is not None and signature[0] == self._signature[0] and signature[1] >= self._offset
        readable = self._source is not None and not callable(self._source) and not self._packed
        return same_file and readable and all([await landing.is_alone() for landing in self._landings.values()])

    async def run(
        self, signature: Signature | None = None, *, progress: Progress | None = None, before_ordinal: int | None = None
    ) -> None:
        """Import what is new; `before_ordinal` stops at that line of a paginated rollout.

        Raises:
            UnreadableTranscript: The file cannot be opened, or nothing of it can be read.
            UnknownFormat: The content has no known format.
            OrdinalConflict: Another writer changed a thread of the file.
            ThreadExists: Another writer created a thread of the file.
        """
        self._signature = signature
        if self._source is None:
            self._source = await asyncio.to_thread(choose_source, self.path, self._form)
            self._packed = await asyncio.to_thread(is_packed, self.path)
        if callable(self._source):
            for step in self._source():
                await self._take(step)
        else:
            await self._run_lines(self._source, progress=progress, before_ordinal=before_ordinal)
        for landing in self._landings.values():
            await landing.finish()

    async def _run_lines(self, reader: LineReader, *, progress: Progress | None, before_ordinal: int | None) -> None:
        lines = read_lines(self.path, start=self._offset, number=self._line)
        if before_ordinal is not None:
            lines = _stop_before(lines, before_ordinal)
        while batch := await asyncio.to_thread(self._read_batch, lines, reader):
            for number, steps in batch:
                self._line = number
                for step in steps:
                    await self._take(step)
            if progress is not None:
                progress(self.path, self._offset)
        for step in reader.finish():
            await self._take(step)

    def _read_batch(self, lines: Iterator[Line], reader: LineReader) -> list[tuple[int, list[Step]]]:
        """Return the steps of the next lines; nothing at the end."""
        batch: list[tuple[int, list[Step]]] = []
        number, size = self._line, 0
        try:
            for line in islice(lines, BATCH_LINES):
                if self._growing and not line.whole and (line.raw is None or parse_row(line.raw) is None):
                    break
                number, self._offset = line.number, line.stop
                too_long: list[Step] = [Trouble(text="a line too long to be one; it is not kept")]
                batch.append((number, too_long if line.raw is None else reader.feed(line.raw)))
                size += len(line.raw or b"")
                if size >= BATCH_BYTES:
                    break
        except UnreadableTranscript as error:
            batch.append((number, [Trouble(text=str(error))]))
        return batch

    async def _take(self, step: Step) -> None:
        if isinstance(step, Lane):
            if step.thread_id not in self._landings:
                self._landings[step.thread_id] = await self._make_builder(step)
            self._current = self._landings[step.thread_id]
        elif self._current is not None:
            await self._current.take(step, line=self._line)
        elif isinstance(step, Trouble):
            self._add_problem(step.text)

    async def _make_builder(self, lane: Lane) -> ThreadBuilder:
        before: ThreadBuilder | None = None
        is_recorded = bool(lane.session) and await find_recorded_threads(self._backend, lane, (), find_dialect(lane.dialect))
        if lane.base is not None and (self._within or not is_recorded):
            before = await self._import_base(lane.base)
        elif lane.continued_from is not None:
            before = self._landings.get(lane.continued_from)
        if before is None:
            # What begins in the middle of another rollout needs that one's own records.
            return ThreadBuilder(self._backend, lane, added=self._added, joins_recorded=not self._within)
        await before.finish()
        return ThreadBuilder(self._backend, lane, origin=await before.origin(), after=before, added=self._added)

    async def _import_base(self, base: Base) -> ThreadBuilder | None:
        """Import the base of a rollout up to the line where the rollout begins."""
        path = await asyncio.to_thread(self._locate, base.rollout_id, self.path)
        if path is None:
            self._add_problem(f"it begins in rollout {base.rollout_id}, which is not here; import both to have all of it")
            return None
        chain = (*self._within, self.path)
        if path in chain or len(chain) > MOST_BASES:
            self._add_problem(f"it begins in rollout {base.rollout_id}, too far back or in a circle; its own lines are here")
            return None
        parent = FileImport(self._backend, path, form=Format.CODEX, locate=self._locate, growing=self._growing, within=chain)
        try:
            await parent.run(before_ordinal=base.end_ordinal)
        except (UnreadableTranscript, UnknownFormat) as error:
            self._add_problem(f"it begins in rollout {base.rollout_id}: {error}")
            return None
        finally:
            self._problems += parent.take_problems()
        return parent._current

    def _add_problem(self, text: str) -> None:
        self._problems.append(ImportProblem(source=str(self.path), line=self._line, text=text))

    def take_problems(self) -> list[ImportProblem]:
        """Return the problems since the last call, those of base rollouts included."""
        taken, self._problems = self._problems, []
        for landing in self._landings.values():
            taken += [ImportProblem(source=str(self.path), line=line, text=text) for line, text in landing.problems]
            landing.problems.clear()
        return sorted(taken, key=lambda problem: problem.line)

    async def list_threads(self) -> list[ImportedThread]:
        """Return the threads of this file."""
        return [await self._describe_thread(landing) for landing in self._landings.values() if landing.begun]

    async def _describe_thread(self, landing: ThreadBuilder) -> ImportedThread:
        row = await self._backend.store.get(landing.thread_id)
        return ImportedThread(
            id=row.id,
            source=str(self.path),
            dialect=row.dialect,
            records=row.next - row.start,
            items=landing.items,
            added=self._added.pop(row.id, 0),
        )


def read_signature(path: Path) -> Signature:
    """Return a signature that changes when the file does.

    Raises:
        UnreadableTranscript: There is no such file, or it is a pipe or a device, which cannot be read twice.
    """
    try:
        known = path.stat()
    except OSError as error:
        raise UnreadableTranscript(str(path), error.strerror or str(error)) from error
    if not stat.S_ISREG(known.st_mode):
        raise UnreadableTranscript(str(path), "it is no regular file; save what it holds as a file, and import that")
    return known.st_ino, known.st_size, known.st_mtime_ns


def _stop_before(lines: Iterator[Line], ordinal: int) -> Iterator[Line]:
    for line in lines:
        row = parse_row(line.raw) if line.raw is not None else None
        found = get_number(row, "ordinal") if row is not None else None
        if found is not None and found >= ordinal:
            return
        yield line


KEPT_OPEN = 8
# How often a file is restarted because other writers changed its threads.
MOST_ATTEMPTS = 32
CODEX_FOLDERS = ("sessions", "archived_sessions")
_rollout_id = re.compile(r"([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})\.jsonl(?:\.zst)?$")
# A rollout id is part of a file name, so it must not contain path characters.
_plain_name = re.compile(r"[0-9A-Za-z_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    threads: tuple[ImportedThread, ...]
    problems: tuple[ImportProblem, ...]


class Importer:
    """Imports files into a store; called again, it reads only what changed."""

    def __init__(self, backend: Backend, *, form: str | None = None, growing: bool = False) -> None:
        """Name the store, and the format of the files where it is known.

        Args:
            growing: The files are still being written: a last line without its end is left for the next run.
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
        """Import all files of `paths`, folders included, and return what is new since the last call.

        With `growing`, a file that fails after the first call is reported once as a problem and tried again.

        Raises:
            UnreadableTranscript: A file given by name cannot be read.
            UnknownFormat: A file given by name has no known format.
            OrdinalConflict, ThreadExists: Other writers changed the threads of a file given by name at every attempt.
        """
        named = list(paths)
        files = await asyncio.to_thread(lambda: [path for each in named for path in find_transcripts(each)])
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
                threads.extend(await work.list_threads())
                problems.extend(work.take_problems())
        self._began = True
        # Problems of a base are reported by every rollout that has it.
        return ImportReport(threads=tuple(threads), problems=tuple(dict.fromkeys(problems)))

    async def _advance(self, path: Path, progress: Progress | None) -> FileImport | None:
        signature = await asyncio.to_thread(read_signature, path)
        if self._read.get(path) == signature:
            return None
        work = self._open.pop(path, None)
        if work is None or not await work.can_go_on(signature):
            work = FileImport(self._backend, path, form=self._form, locate=self._locate, growing=self._growing)
        work = await _run_until_done(work, signature, progress=progress)
        self._read[path] = signature
        if self._growing:
            # Few files grow at a time; a file that is not kept open is read again from its beginning.
            self._open[path] = work
            if len(self._open) > KEPT_OPEN:
                self._open.popitem(last=False)
        return work

    def _locate(self, rollout_id: str, near: Path) -> Path | None:
        """Return the file of a rollout: one that was imported, else one near the file that refers to it."""
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


async def _run_until_done(work: FileImport, signature: Signature, *, progress: Progress | None) -> FileImport:
    """Run `work`, restarting it after each conflict, and return the import that finished."""
    for _ in range(MOST_ATTEMPTS - 1):
        try:
            await work.run(signature, progress=progress)
        except (OrdinalConflict, ThreadExists):
            work = work.restart()
        else:
            return work
    await work.run(signature, progress=progress)
    return work


def find_transcripts(path: Path) -> Sequence[Path]:
    """Return `path`, or the transcripts of a folder, without compressed copies of plain files."""
    if not path.is_dir():
        return (path,)
    found = [each for each in sorted(path.rglob("*")) if each.name.endswith(ENDINGS) and each.is_file()]
    return [each for each in found if not (each.suffix == ".zst" and each.with_suffix("") in found)]
