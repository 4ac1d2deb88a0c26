"""The processes of a run: the gateway, the user's running one or one of its own, and the client in the foreground."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from threadkeep.errors import CannotLaunch, GatewayNotStarted
from threadkeep.gateway.control.identity import Identity, ask_identity
from threadkeep.launch.plan import Start

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 5.0
ASK_SECONDS: Final = 5.0
HEALTH_SECONDS: Final = 2.0
MOST_LOG_BYTES: Final = 1_000_000
SHOWN_LOG_LINES: Final = 5
# Sent to this process alone, by `kill` or a service manager, so the client must be told.
FORWARDED: Final = (signal.SIGTERM, signal.SIGHUP)
# Typed in a terminal, which sends them to the client too.
TYPED: Final = (signal.SIGINT, signal.SIGQUIT)
# The exit code of a process that a signal ended is this and the signal's number.
SIGNALLED: Final = 128

# A gateway on this machine is reached without a proxy.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of a run; see `threadkeep.gateway.http.metrics`."""

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

    def read_figures(self, run_id: str) -> Figures | None:
        """Return the figures of a run so far; None where the gateway does not answer any more."""
        request = urllib.request.Request(
            f"{self.url}/threadkeep/v1/runs/{run_id}", headers={"Authorization": f"Bearer {self.token}"}
        )
        try:
            with _direct.open(request, timeout=ASK_SECONDS) as answer:
                return msgspec.json.decode(answer.read(), type=Figures)
        except (OSError, HTTPException, msgspec.MsgspecError):
            return None


def is_answering(url: str) -> bool:
    """Whether a gateway is up at `url`, which may have a key in its path."""
    try:
        with _direct.open(f"{url.partition('/k/')[0]}/healthz", timeout=HEALTH_SECONDS) as response:
            return bool(response.status == 200)
    except (HTTPException, OSError, ValueError):
        return False


def find_gateway(url: str, *, token: str) -> Identity | None:
    """Return the identity of the gateway at `url`; None unless it holds this token, so that it serves the same store."""

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
    """Run `threadkeep serve` on a free port of this machine inside the block, its log in a file.

    It leads a session of its own, so that keys typed in the terminal are for the client alone, and ends with its standard input,
    so that it does not outlive this process.

    Raises:
        GatewayNotStarted: It ended, or printed nothing for a minute.
    """
    with _open_log(log) as handle:
        log_start = os.fstat(handle).st_size
        process = subprocess.Popen(
            # With -P a module in the working folder cannot take the place of ours.
            (sys.executable, "-P", "-m", "threadkeep.cli", "serve", "--json", "--port", "0", "--host", "127.0.0.1", *flags),
            env={**environ, "THREADKEEP_CONTROL_TOKEN": token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=handle,
            start_new_session=True,
        )
    try:
        yield Gateway(url=_read_url(process, log=log, log_start=log_start), token=token)
    finally:
        _stop_gateway(process)


def _read_url(process: subprocess.Popen[bytes], *, log: Path, log_start: int) -> str:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    line = process.stdout.readline() if readable else b""
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(line, type=_Ready).url
    process.kill()
    reason = _read_log_end(log, start=log_start) or f"it printed nothing for {START_SECONDS:.0f} s"
    raise GatewayNotStarted(reason=reason, log=str(log))


def _stop_gateway(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    # A client's helpers may still hold a stream open. A second signal ends the wait for it, and a kill any other.
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
    truncate = os.O_TRUNC if path.is_file() and path.stat().st_size > MOST_LOG_BYTES else 0
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | truncate, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def _read_log_end(log: Path, *, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode("utf-8", "replace").splitlines()
    return " / ".join(line.removeprefix("threadkeep: ") for line in lines[-SHOWN_LOG_LINES:] if line.strip())


def run_client(start: Start) -> int:
    """Run a client to its end and return its exit code; 128 and the signal's number where one ended it.

    It shares standard input, output and error, the terminal and the process group, so that keys, resizing and job control work
    as without threadkeep.

    Raises:
        CannotLaunch: The program cannot be started.
    """
    with _forward_signals() as client:
        try:
            client.process = subprocess.Popen(start.words, env=dict(start.environment))
        except OSError as error:
            raise CannotLaunch(start.words[0], reason=error.strerror or str(error)) from error
        client.forward_early()
        code = client.process.wait()
    return code if code >= 0 else SIGNALLED - code


class _Client:
    """The process signals are forwarded to, once there is one."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def forward(self, number: int, frame: FrameType | None) -> None:
        """Forward a signal, unless the terminal has sent it to the client as well."""
        if self.process is None:
            self._early.append(number)
        elif number not in TYPED or not _has_terminal():
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    def forward_early(self) -> None:
        """Forward the signals that came before the process was there."""
        for number in self._early:
            self.forward(number, None)


@contextmanager
def _forward_signals() -> Iterator[_Client]:
    client = _Client()
    # A signal that is ignored here, as under nohup, stays ignored in the client.
    numbers = [number for number in (*FORWARDED, *TYPED) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, client.forward) for number in numbers}
    try:
        yield client
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _has_terminal() -> bool:
    """Whether this process group is in the foreground of a terminal, which then sends typed signals to all of it."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
