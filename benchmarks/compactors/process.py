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
        with self._limit_time():
            self._send_message({"begin": True, "model": has_model})

    def compact(
        self, new: Sequence[dict[str, Any]], *, budget_tokens: int, summarise: Callable[[Asked], str]
    ) -> list[dict[str, Any]] | None:
        """Return the window after `new` messages and a compaction; None where the peer failed, and `trouble` says how.

        Whatever it asks is answered by `summarise`.
        """
        with self._limit_time():
            self._send_message({"new": list(new), "budget": budget_tokens})
            message = self._read_message()
            while "ask" in message:
                self._send_message({"answer": summarise(Asked(prompt=message["ask"], instruction=message.get("instruction")))})
                message = self._read_message()
        self.trouble = message.get("failed")
        window: list[dict[str, Any]] | None = message.get("window")
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
        with self._limit_time():
            message = self._read_message()
        if "ready" not in message:
            self._stop()
            raise PeerMissing(str(message.get("cannot") or message.get("failed")))
        self.version = str(message["ready"])

    @contextmanager
    def _limit_time(self) -> Iterator[None]:
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

    def _send_message(self, message: dict[str, Any]) -> None:
        """Send a message; if the process is gone, the next answer says so."""
        if self._process is None or self._end is not None:
            return
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(message, ensure_ascii=False) + "\n")
            self._process.stdin.flush()

    def _read_message(self) -> dict[str, Any]:
        if self._process is None or self._end is not None:
            return {"failed": self._end}
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        # The end of its output; without a line's end, in the middle of a line.
        if not line.endswith("\n"):
            self._end = self._describe_end(self._process)
            return {"failed": self._end}
        message: dict[str, Any] = json.loads(line)
        return message

    def _describe_end(self, process: subprocess.Popen[str]) -> str:
        """Return how a process ended that closed its output, and what it wrote last to standard error."""
        code = _wait_for_exit(process)
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
                _wait_for_exit(process)
        if self._stderr is not None:
            self._stderr.close()


def _wait_for_exit(process: subprocess.Popen[str]) -> int:
    """Return the exit code of a process that is ending; one that takes its time is ended."""
    try:
        return process.wait(LONGEST_ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
