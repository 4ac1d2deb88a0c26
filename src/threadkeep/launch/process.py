"""A client in the foreground: it has the terminal, and signals reach it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from threadkeep.errors import CannotLaunch
from threadkeep.launch.plan import Start

# Sent to this process alone, by `kill` or a service manager: the client would not hear of them.
FORWARDED: Final = (signal.SIGTERM, signal.SIGHUP)
# Typed in a terminal, and sent to the client by the terminal itself.
TYPED: Final = (signal.SIGINT, signal.SIGQUIT)
SIGNALLED: Final = 128


def run_client(start: Start) -> int:
    """Run a client to its end and return its exit code; 128 and the signal's number where one ended it.

    It shares standard input, output and error, the terminal and the process group, so that keys, resizing and job control work
    as without us.

    Raises:
        CannotLaunch: The program cannot be started.
    """
    with _signals_passed() as client:
        try:
            client.process = subprocess.Popen(start.words, env=dict(start.environment))
        except OSError as error:
            raise CannotLaunch(start.words[0], reason=error.strerror or str(error)) from error
        client.catch_up()
        code = client.process.wait()
    return code if code >= 0 else SIGNALLED - code


class _Client:
    """The process signals are passed to, once there is one."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Pass a signal on, unless the terminal has sent it to the client as well."""
        if self.process is None:
            self._early.append(number)
        elif number not in TYPED or not _has_terminal():
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    def catch_up(self) -> None:
        """Pass on what came before the process was there."""
        for number in self._early:
            self.receive(number, None)


@contextmanager
def _signals_passed() -> Iterator[_Client]:
    client = _Client()
    # A signal that is ignored here, as under nohup, stays ignored in the client.
    numbers = [number for number in (*FORWARDED, *TYPED) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, client.receive) for number in numbers}
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
