"""Runs a compactor's driver in a process of its own, in the interpreter that has the compactor."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from types import TracebackType
from typing import IO, Any, Self

DRIVER = Path(__file__).with_name("driver.py")
# A peer that has not come to the end of a hop by then never will; the slowest measured take seconds.
LONGEST_HOP_S = 300
# An interpreter that has not ended by then, after its conversation did, is ended.
LONGEST_ENDING_S = 10
# What a peer wrote last is looked for in so much of the end of its standard error.
LAST_BYTES = 400


class PeerMissing(Exception):
    """A peer that cannot be run; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A peer as a person names it: `NAME`, or `NAME=INTERPRETER` where another environment has it."""

    name: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question to the model; `instruction` is its end where it wants to hear what changes, and not everything anew."""

    prompt: str
    instruction: str | None = None


class PeerProcess:
    """A driver that is running; use it as a context manager.

    One that ends, or does not answer in time and is ended, fails its hops until a session is begun, with a process of its own.

    Raises:
        PeerMissing: On entering: its interpreter cannot be started, or does not have the peer.
    """

    def __init__(self, peer: Named) -> None:
        self.name = peer.name
        self.version = ""
        self.trouble: str | None = None
        self._peer = peer
        self._process: subprocess.Popen[str] | None = None
        self._stderr: IO[bytes] | None = None
        self._late = False
        self._end: str | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def begin(self, *, has_model: bool) -> None:
        """Begin a new session, with a model to ask or without; only threadkeep can do without one it was given."""
        if self._end is not None:
            self._stop()
            try:
                self._start()
            except PeerMissing as reason:
                self._end = str(reason)
        with self._in_time():
            self._tell({"begin": True, "model": has_model})

    def compacted(
        self, new: Sequence[dict[str, Any]], *, budget_tokens: int, summarise: Callable[[Asked], str]
    ) -> list[dict[str, Any]] | None:
        """Return the window after `new` messages and a compaction; None where the peer failed, and `trouble` says how.

        Whatever it asks is answered by `summarise`.
        """
        with self._in_time():
            self._tell({"new": list(new), "budget": budget_tokens})
            told = self._heard()
            while "ask" in told:
                self._tell({"answer": summarise(Asked(prompt=told["ask"], instruction=told.get("instruction")))})
                told = self._heard()
        self.trouble = told.get("failed")
        window: list[dict[str, Any]] | None = told.get("window")
        return window

    def _start(self) -> None:
        # It gets no key and no configuration of the user.
        environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        self._stderr = TemporaryFile(prefix="threadkeep-peer-")  # noqa: SIM115  # closed when the process is stopped
        try:
            self._process = subprocess.Popen(
                [self._peer.python, "-I", str(DRIVER), self.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                text=True,
                encoding="utf-8",
                env={**environ, "HEADROOM_TELEMETRY": "off", "OPENAI_API_KEY": "none", "OPENAI_AGENTS_DISABLE_TRACING": "1"},
            )
        except OSError as error:
            self._stop()
            raise PeerMissing(f"{self._peer.python} cannot be started: {error.strerror}") from error
        self._late, self._end = False, None
        with self._in_time():
            told = self._heard()
        if "ready" not in told:
            self._stop()
            raise PeerMissing(str(told.get("cannot") or told.get("failed")))
        self.version = str(told["ready"])

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """End the process where it takes too long; nothing is read from it afterwards."""

        def late(process: subprocess.Popen[str]) -> None:
            self._late = True
            process.kill()

        timer = Timer(LONGEST_HOP_S, late, args=[self._process]) if self._process is not None else None
        if timer is not None:
            timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
                timer.join()

    def _tell(self, told: dict[str, Any]) -> None:
        """Send a message; if the process is gone, the next answer says so."""
        if self._process is None or self._end is not None:
            return
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(told, ensure_ascii=False) + "\n")
            self._process.stdin.flush()

    def _heard(self) -> dict[str, Any]:
        if self._process is None or self._end is not None:
            return {"failed": self._end}
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        # The end of its output; without a line's end, in the middle of a line.
        if not line.endswith("\n"):
            self._end = self._last_words(self._process)
            return {"failed": self._end}
        told: dict[str, Any] = json.loads(line)
        return told

    def _last_words(self, process: subprocess.Popen[str]) -> str:
        """Return how a process ended that closed its output, and what it wrote last to standard error."""
        code = _waited(process)
        if self._late:
            return f"it did not answer within {LONGEST_HOP_S} s and was ended"
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        assert self._stderr is not None
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - LAST_BYTES))
        lines = self._stderr.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"its process {how}{': ' if last else ''}{''.join(each if each.isprintable() else ' ' for each in last)}"

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            # It ends by itself when its input closes, and removes its folder and servers.
            with process:
                with suppress(BrokenPipeError):
                    process.stdin.close()
                _waited(process)
        if self._stderr is not None:
            self._stderr.close()


def _waited(process: subprocess.Popen[str]) -> int:
    """Return the exit code of a process that is ending; one that takes its time is ended."""
    try:
        return process.wait(LONGEST_ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
