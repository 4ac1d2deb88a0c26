"""The gateway beside a client: one of the user's that already runs, or a process of its own for as long as the client runs."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.errors import GatewayNotStarted
from threadkeep.gateway.control.identity import Identity, ask_identity

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 5.0
ASK_SECONDS: Final = 5.0
MOST_LOG_BYTES: Final = 1_000_000
SHOWN_LOG_LINES: Final = 5

# A proxy for the rest of the world is none for this machine.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a run sent; see `threadkeep.gateway.http.metrics`."""

    requests: int = 0
    client_tokens: int = 0
    provider_tokens: int = 0
    compactions: int = 0
    threads: tuple[str, ...] = ()


class _Ready(msgspec.Struct):
    """The line `threadkeep serve --json` prints once it listens."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A gateway that listens. `token` opens its control API."""

    url: str
    token: str = field(repr=False)

    def figures(self, run_id: str) -> Figures | None:
        """Return what a run has sent so far; None where the gateway does not answer any more."""
        request = urllib.request.Request(
            f"{self.url}/threadkeep/v1/runs/{run_id}", headers={"Authorization": f"Bearer {self.token}"}
        )
        try:
            with _direct.open(request, timeout=ASK_SECONDS) as answer:
                return msgspec.json.decode(answer.read(), type=Figures)
        except (OSError, HTTPException, msgspec.MsgspecError):
            return None


def find_gateway(url: str, *, token: str) -> Identity | None:
    """Return what the gateway at `url` says about itself; None unless it holds this token, so that it serves the same store."""

    def ask(path: str) -> bytes:
        try:
            with _direct.open(f"{url}{path}", timeout=ASK_SECONDS) as answer:
                body: bytes = answer.read(65_536)
                return body
        except HTTPException as error:
            raise OSError(str(error)) from error

    return ask_identity(ask, token=token)


@contextmanager
def start_gateway(flags: Sequence[str], *, environ: Mapping[str, str], token: str, log: Path) -> Iterator[Gateway]:
    """Run `threadkeep serve` on a free port of this machine inside the block. What it logs goes to a file.

    It leads a session of its own, so that what is typed in the terminal is for the client alone, and ends with its standard
    input, so that it does not outlive this process.

    Raises:
        GatewayNotStarted: It ended, or said nothing for a minute.
    """
    with _open_log(log) as written:
        begins = os.fstat(written).st_size
        process = subprocess.Popen(
            # Without -P a module of the folder that is worked in could take the place of ours.
            (sys.executable, "-P", "-m", "threadkeep.cli", "serve", "--json", "--port", "0", "--host", "127.0.0.1", *flags),
            env={**environ, "THREADKEEP_CONTROL_TOKEN": token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=written,
            start_new_session=True,
        )
    try:
        yield Gateway(url=_ready_url(process, log=log, begins=begins), token=token)
    finally:
        _stop(process)


def _ready_url(process: subprocess.Popen[bytes], *, log: Path, begins: int) -> str:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    line = process.stdout.readline() if readable else b""
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(line, type=_Ready).url
    process.kill()
    said = _last_lines(log, begins=begins) or f"it said nothing for {START_SECONDS:.0f} s"
    raise GatewayNotStarted(reason=said, log=str(log))


def _stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    # A client's helpers may still hold a stream open. A second signal ends the wait for it, and the last resort any other.
    for hurry in (process.terminate, process.kill):
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            hurry()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


@contextmanager
def _open_log(path: Path) -> Iterator[int]:
    path.parent.mkdir(parents=True, exist_ok=True)
    anew = os.O_TRUNC if path.is_file() and path.stat().st_size > MOST_LOG_BYTES else 0
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | anew, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def _last_lines(log: Path, *, begins: int) -> str:
    with log.open("rb") as file:
        file.seek(begins)
        lines = file.read().decode("utf-8", "replace").splitlines()
    return " / ".join(line.removeprefix("threadkeep: ") for line in lines[-SHOWN_LOG_LINES:] if line.strip())
