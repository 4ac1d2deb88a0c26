"""What keeps the gateway from serving."""

from __future__ import annotations

from threadkeep.errors.root import ThreadkeepError


class GatewayError(ThreadkeepError):
    code = "gateway_error"


class UnsafeBind(GatewayError):
    code = "unsafe_bind"

    def __init__(self, host: str) -> None:
        super().__init__(f"refusing to listen on {host}: anyone there could read every thread; use 127.0.0.1 or ::1, or --keys")
        self.host = host


class PortTaken(GatewayError):
    code = "port_taken"

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"{host}:{port} is in use; stop what listens there or choose another --port")
        self.host = host
        self.port = port


class CannotListen(GatewayError):
    code = "cannot_listen"

    def __init__(self, host: str, port: int, *, reason: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {reason}; choose another --host or --port")
        self.host = host
        self.port = port


class CannotKeepToken(GatewayError):
    code = "cannot_keep_token"

    def __init__(self, path: str, *, reason: str) -> None:
        super().__init__(f"the control API's token cannot be kept in {path}: {reason}; give one with THREADKEEP_CONTROL_TOKEN")
        self.path = path
        self.reason = reason


class NoServiceManager(GatewayError):
    code = "no_service_manager"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the gateway cannot be installed as a service: {reason}; run `threadkeep serve` yourself instead")
        self.reason = reason


class ServiceFailed(GatewayError):
    code = "service_failed"

    def __init__(self, command: str, *, reason: str) -> None:
        super().__init__(f"`{command}` failed: {reason or 'it said nothing'}; `threadkeep service status` shows what is there")
        self.command = command
        self.reason = reason
