"""Recognises a provider's refusal of a request that does not fit its model's window.

What the words of a refusal mean is known to `threadkeep.llm.failures`. Here it is told from the status 413, and from rate limits,
which speak of tokens too and are none: sending less now does not lift them.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import MsgspecError, Struct, field
from msgspec.json import Decoder

from threadkeep.llm.failures import is_overflow

TOO_LARGE = 413
REFUSED = frozenset({400, TOO_LARGE, 422})
# A refusal is short. What is longer is not read, and relayed.
REFUSAL_BYTES = 256 * 1024

NOT_BY_SIZE = frozenset({"rate_limit_exceeded", "rate_limit_error", "insufficient_quota"})
# The events a stream may open with before anything was said, by type.
OPENING_EVENTS = frozenset({"response.created", "response.in_progress", "response.queued", "ping"})
FAILED_EVENTS = frozenset({"response.failed", "error"})


class _Error(Struct):
    type: str | None = None
    code: str | int | None = None
    message: str | None = None


class _Response(Struct):
    error: _Error | None = None


class _Refusal(Struct):
    """An error body or event of any dialect, as far as it matters here."""

    type: str | None = None
    error: _Error | str | None = None
    code: str | int | None = None
    message: str | None = None
    response: _Response = field(default_factory=_Response)

    def said(self) -> _Error | None:
        """Return the error it carries, wherever the dialect puts it."""
        if isinstance(self.error, str):
            return _Error(message=self.error)
        if self.error is not None:
            return self.error
        if self.response.error is not None:
            return self.response.error
        return _Error(code=self.code, message=self.message) if self.message is not None else None


_REFUSAL = Decoder(_Refusal)


class Opening(Enum):
    """What the beginning of a stream tells."""

    UNDECIDED = auto()
    UNDER_WAY = auto()
    OVERFLOW = auto()


def refused_for_size(status: int, body: bytes) -> bool:
    """Whether an answer with this status and body says that the request was too large for the model."""
    if status not in REFUSED:
        return False
    error = _error_in(body)
    return _speaks_of_size(error) if error is not None else status == TOO_LARGE


def opening_of(stream: bytes) -> Opening:
    """Return what the first bytes of an event stream tell: nothing yet, an answer under way, or a refusal for its size."""
    events = stream.replace(b"\r\n", b"\n").split(b"\n\n")
    for event in events[:-1]:
        data = b"\n".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
        if not data:
            continue
        refusal = _decoded(data)
        if refusal is None:
            return Opening.UNDER_WAY
        if refusal.type in OPENING_EVENTS:
            continue
        failed = refusal.type in FAILED_EVENTS or (refusal.type is None and refusal.error is not None)
        error = refusal.said() if failed else None
        return Opening.OVERFLOW if error is not None and _speaks_of_size(error) else Opening.UNDER_WAY
    return Opening.UNDECIDED


def _speaks_of_size(error: _Error) -> bool:
    codes = frozenset(str(code) for code in (error.code, error.type) if code is not None)
    return codes.isdisjoint(NOT_BY_SIZE) and is_overflow(codes=codes, message=error.message or "")


def _error_in(body: bytes) -> _Error | None:
    refusal = _decoded(body)
    return refusal.said() if refusal is not None else None


def _decoded(data: bytes) -> _Refusal | None:
    try:
        return _REFUSAL.decode(data)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None
