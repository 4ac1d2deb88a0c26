"""A driver at work in a process of its own, in whichever interpreter has its peer."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

DRIVER = Path(__file__).with_name("driver.py")
# An interpreter that has not ended by then, after its conversation did, is ended.
LONGEST_ENDING_S = 10


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

    Raises:
        PeerMissing: On entering: its interpreter cannot be started, or does not have the peer.
    """

    def __init__(self, peer: Named) -> None:
        self.name = peer.name
        self.version = ""
        self.trouble: str | None = None
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

    def begin(self, *, has_model: bool) -> None:
        """Begin a new session, with a model to ask or without; only holdfast can do without one it was given."""
        self._tell({"begin": True, "model": has_model})

    def compacted(
        self, new: Sequence[dict[str, Any]], *, budget_tokens: int, summarise: Callable[[Asked], str]
    ) -> list[dict[str, Any]] | None:
        """Return the window after `new` messages and a compaction; None where the peer failed, and `trouble` says how.

        Whatever it asks is answered by `summarise`.
        """
        self._tell({"new": list(new), "budget": budget_tokens})
        while True:
            told = self._heard()
            if "ask" not in told:
                self.trouble = told.get("failed")
                window: list[dict[str, Any]] | None = told.get("window")
                return window
            self._tell({"answer": summarise(Asked(prompt=told["ask"], instruction=told.get("instruction")))})

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
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        # It ends by itself where nobody speaks to it any more, and takes its folder and servers along.
        with process, suppress(BrokenPipeError):
            process.stdin.close()
            try:
                process.wait(LONGEST_ENDING_S)
            except subprocess.TimeoutExpired:
                process.kill()
