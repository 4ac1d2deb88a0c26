"""A peer at work: its driver's process, and an arm of the retention benchmark in front of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

from holdfast.bench.compactors.driver import COMPACTORS
from holdfast.bench.retention.arms import Moment
from holdfast.bench.retention.summarisers import SUMMARISERS, Note, Shown, Summariser
from holdfast.bench.retention.windows import Piece, Place, piece_of, summary_piece
from holdfast.compaction.state_text import TAG
from holdfast.dialects.base import STATE_OPENING
from holdfast.errors import BadInput

DRIVER = Path(__file__).with_name("driver.py")
# Those that ask no model: one of each is enough.
MODEL_FREE = frozenset({"headroom", *(name for name in COMPACTORS if name.startswith("holdfast-"))})
# So much of a summary tells whether an item holds it.
TELLING_CHARS = 40


class PeerMissing(Exception):
    """A peer that cannot be run; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A peer as a person names it: `NAME`, or `NAME=INTERPRETER` where another environment has it."""

    name: str
    python: str


def named_peer(text: str) -> Named:
    """Return the peer that `text` names.

    Raises:
        BadInput: There is none of that name.
    """
    name, _, python = text.partition("=")
    if name not in COMPACTORS:
        raise BadInput(f"there is no peer {name!r}; there are {', '.join(COMPACTORS)}")
    return Named(name=name, python=python or sys.executable)


class PeerProcess:
    """A driver that is running; use it as a context manager.

    Raises:
        PeerMissing: On entering: its interpreter cannot be started, or does not have the peer.
    """

    def __init__(self, peer: Named) -> None:
        self.name = peer.name
        self.version = ""
        self._peer = peer
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        # It is told nothing of ours: no key, no configuration of the user's.
        environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        try:
            self._process = subprocess.Popen(
                [self._peer.python, "-I", str(DRIVER), self.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                env={**environ, "HEADROOM_TELEMETRY": "off", "OPENAI_API_KEY": "none", "OPENAI_AGENTS_DISABLE_TRACING": "1"},
            )
        except OSError as error:
            raise PeerMissing(f"{self._peer.python} cannot be started: {error.strerror}") from error
        told = self._heard()
        if "ready" not in told:
            self._ended()
            raise PeerMissing(str(told.get("cannot", "its driver did not start")))
        self.version = str(told["ready"])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended()

    def begin(self) -> None:
        """Begin a new session."""
        self._tell({"begin": True})

    def compacted(
        self, new: Sequence[dict[str, Any]], *, budget_tokens: int, summarise: Callable[[str], str]
    ) -> list[dict[str, Any]] | None:
        """Return the window after `new` messages and a compaction; None where the peer failed.

        Whatever it asks is answered by `summarise`, a function from the prompt to the summary.
        """
        self._tell({"new": list(new), "budget": budget_tokens})
        while True:
            told = self._heard()
            if "ask" not in told:
                window: list[dict[str, Any]] | None = told.get("window")
                return window
            self._tell({"answer": summarise(told["ask"])})

    def _tell(self, told: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told, ensure_ascii=False) + "\n")
        self._process.stdin.flush()

    def _heard(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        told: dict[str, Any] = json.loads(line) if line else {"failed": "its process ended"}
        return told

    def _ended(self) -> None:
        if self._process is not None:
            with self._process as process:
                process.kill()
            self._process = None


@dataclass(slots=True, kw_only=True)
class PeerArm:
    """A peer as an arm: at each hop it is given what is new, a budget, and a scripted summariser to ask."""

    process: PeerProcess
    summarise: Summariser
    rng: Random
    failures: int = 0
    asked: int = 0
    _summary: str = ""
    _key: list[Note] = field(default_factory=list)
    _window: list[Piece] = field(default_factory=list)

    def window(self, moment: Moment) -> list[Piece]:
        """Return the peer's window; where it fails, the one before with what is new behind it."""
        new = moment.history[moment.begin :]
        before = self._summary
        # A peer may keep a message now and have it summarised later: what mattered in it is still known then.
        self._key += moment.key

        def summarised(prompt: str) -> str:
            self.asked += 1
            key = [note for note in self._key if note.text not in before]
            shown = Shown(before=before, messages="", span=prompt, whole=True, key=key)
            self._summary = self.summarise(shown, self.rng)
            return self._summary

        messages = [json.loads(piece.item.raw) for piece in new]
        found = self.process.compacted(messages, budget_tokens=moment.budget_tokens, summarise=summarised)
        if found is None:
            self.failures += 1
            self._window = [*self._window, *new]
        else:
            self._window = [piece for message in found for piece in self._pieces(message, moment)]
        return self._window

    def _pieces(self, message: dict[str, Any], moment: Moment) -> list[Piece]:
        """Return what a message is to whoever reads it; a state that was joined to a person's words is two pieces."""
        dialect = moment.dialect
        piece = piece_of(dialect.parse(message), dialect=dialect)
        content = message.get("content")
        told = self._summary.strip()[:TELLING_CHARS]
        if piece.place is Place.OUTPUT or not isinstance(content, str):
            return [piece]
        if told and told in content:
            return [summary_piece(content, dialect=dialect)]
        before, opened, rest = content.partition(f"{STATE_OPENING}")
        block, closed, after = rest.partition(f"\n</{TAG}>")
        if not opened or not closed or piece.place is Place.STATE:
            return [piece]
        spoken = [{"role": "user", "content": text.strip()} for text in (before, after) if text.strip()]
        state = piece_of(dialect.state_item(f"{opened}{block}{closed}"), dialect=dialect)
        return [state, *(piece_of(dialect.parse(each), dialect=dialect) for each in spoken)]


class Peers:
    """Everyone who takes part, a process for each peer and summariser; use it as a context manager.

    Attributes:
        missing: Who was named and cannot be run, and why.
    """

    def __init__(self, peers: Sequence[Named], *, summarisers: Sequence[str] = ("faithful", "lossy")) -> None:
        self.missing: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self.arms_made: list[tuple[str, PeerArm]] = []
        self._named = peers
        self._summarisers = summarisers
        self._processes: dict[str, tuple[PeerProcess, Summariser]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for peer in self._named:
            for name in self._summarisers[:1] if peer.name in MODEL_FREE else self._summarisers:
                try:
                    process = self._stack.enter_context(PeerProcess(peer))
                except PeerMissing as reason:
                    self.missing[peer.name] = str(reason)
                    break
                self.versions[peer.name] = process.version
                arm = peer.name if peer.name in MODEL_FREE else f"{peer.name}, {name}"
                self._processes[arm] = (process, SUMMARISERS[name])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def arms(self, seed: int) -> list[tuple[str, PeerArm]]:
        """Return an arm for each, with a new session before it."""
        made: list[tuple[str, PeerArm]] = []
        for name, (process, summarise) in self._processes.items():
            process.begin()
            made.append((name, PeerArm(process=process, summarise=summarise, rng=Random(f"{seed}:{name}"))))
        self.arms_made += made
        return made

    @property
    def told(self) -> list[str]:
        """Who took part, with its version, and who did not, with the reason; a line each."""
        failed = Counter(name for name, arm in self.arms_made for _ in range(arm.failures))
        size = ["peers are asked for the size extractive had; what they take stands in the table"] if self.versions else []
        return [
            *size,
            *(f"{name} {there}, asked in its own interpreter" for name, there in self.versions.items()),
            *(f"{name} takes no part: {why}" for name, why in self.missing.items()),
            *(f"{name} failed {count} times and went on with what it had" for name, count in failed.items()),
        ]
