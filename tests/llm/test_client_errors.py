"""No exception of the HTTP client leaves as it came."""

from __future__ import annotations

import aiohttp

# Raised by calls that are never made here: reading a cookie by its name, a web socket; or, the last, within the library alone,
# whose iterators take it for the end.
ELSEWHERE = {"CookieConflict", "WebSocketError", "WSMessageTypeError", "EofStream"}


def test_every_exception_of_aiohttp_is_caught() -> None:
    """What it raises in its own name is one of the three kinds a server of ours catches."""
    kinds = {
        value
        for name, value in vars(aiohttp).items()
        if isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, Warning) and name not in ELSEWHERE
    }
    assert len(kinds) > 20
    assert [kind for kind in kinds if not issubclass(kind, (aiohttp.ClientError, OSError, TimeoutError))] == []
