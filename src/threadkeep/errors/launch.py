"""Failures of `threadkeep run`, before the client is started."""

from __future__ import annotations

from threadkeep.errors.root import ThreadkeepError


class LaunchError(ThreadkeepError):
    """A client was not started."""

    code = "launch_error"


class ClientMissing(LaunchError):
    code = "client_missing"

    def __init__(self, command: str, *, install: str | None = None) -> None:
        what_next = f"install it with `{install}`" if install else "check the name, or install it"
        super().__init__(f"there is no command {command!r} on your PATH; {what_next}")
        self.command = command


class CannotLaunch(LaunchError):
    code = "cannot_launch"

    def __init__(self, client: str, *, reason: str) -> None:
        super().__init__(f"{client} was not started: {reason}")
        self.client = client
        self.reason = reason


class GatewayNotStarted(LaunchError):
    code = "gateway_not_started"

    def __init__(self, *, reason: str, log: str) -> None:
        super().__init__(f"the gateway did not start: {reason}; its log is {log}")
        self.reason = reason
        self.log = log
