"""Who is served at all: this machine or the holder of a key, no page from elsewhere, nothing that could not be passed on."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from threadkeep.gateway.conversation.proxy_interface import Refused
from threadkeep.gateway.http.exchange import Call
from threadkeep.gateway.http.headers import every, make_upstream_headers

NO_KEY = Refused(
    status=401,
    code="gateway_key_required",
    message="this gateway needs a key of its own: send it as X-Threadkeep-Key, or put /k/KEY before the path of the base URL",
)
KEY_IN_PATH = Refused(
    status=400,
    code="gateway_key_in_path",
    message="the path holds a key of this gateway where the provider would see it; /k/KEY is allowed before the path only",
)
NO_TOKEN = Refused(
    status=401,
    code="control_token_required",
    message="the control API needs Authorization: Bearer TOKEN; `threadkeep serve` says where the token is",
)
UNKNOWN_PATH = Refused(
    status=404,
    code="unknown_path",
    message="nothing is served at this path; the API is under /v1, and /healthz tells whether the gateway is up",
)

NO_WEBSOCKET = Refused(
    status=426,
    code="no_websocket",
    message="no WebSocket is opened at this path, or for this provider; ask again without the upgrade",
)
NO_NONCE = Refused(status=400, code="invalid_request", message="ask with ?nonce= and 16 to 64 letters, digits, '-' or '_'")


def find_refusal(call: Call, *, hosts: Collection[str] | None) -> Refused | None:
    """Return why a request is not served at all, if so; `hosts` may be named besides this machine (None: any host)."""
    named = every(call.headers, b"host")
    if len(named) != 1 or (hosts is not None and not is_host_allowed(named[0], allowed=hosts)):
        message = "the Host header does not name this machine; call the gateway as 127.0.0.1 or localhost"
        return Refused(status=403, code="host_not_allowed", message=message)
    if not all(map(is_origin_allowed, every(call.headers, b"origin"))):
        message = "the request comes from a web page that this machine does not serve"
        return Refused(status=403, code="origin_not_allowed", message=message)
    try:
        call.target(call.path.decode("ascii"))
        make_upstream_headers(call.headers, readable_answer=False)
    except UnicodeDecodeError:
        message = "the URL or a header holds bytes that cannot be passed on unchanged"
        return Refused(status=400, code="invalid_request", message=message)
    if call.has_parent_segment:
        message = "the path holds a segment that leads out of it"
        return Refused(status=400, code="invalid_request", message=message)
    return None


def is_loopback(host: str) -> bool:
    """Whether `host`, a name or an address without brackets and port, can only be this machine."""
    name = host.lower().removesuffix(".")
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def is_host_allowed(header: str, *, allowed: Collection[str]) -> bool:
    """Whether a Host header names this machine or one of `allowed`, whatever port it adds."""
    host = _hostname(f"//{header}")
    return host is not None and (is_loopback(host) or host in allowed)


def is_origin_allowed(header: str) -> bool:
    """Whether an Origin header names a page served by this machine; an opaque origin (`null`) does not."""
    host = _hostname(header) if header.startswith(("http://", "https://")) else None
    return host is not None and is_loopback(host)


def _hostname(url: str) -> str | None:
    # `urlsplit` drops tabs and line breaks, so that two texts would name one host.
    if not url.isascii() or not url.isprintable():
        return None
    try:
        parts = urlsplit(url)
        # Reading the port validates it. User information before a host, or anything behind it, dresses one name as another.
        is_plain = parts.port != 0 and "@" not in parts.netloc and not (parts.path or parts.query or parts.fragment)
        return parts.hostname if is_plain and not url.endswith(("?", "#")) else None
    except ValueError:
        return None
