"""Which headers cross the proxy: all but those that speak of one connection alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from multidict import CIMultiDict

RawHeaders = Sequence[tuple[bytes, bytes]]

# RFC 9110, sections 7.6.1 and 11.7, and what each side's HTTP machinery writes anew: the framing, the target host, and the
# expectation of a 100-continue, which the server has answered by the time a body is read.
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"proxy-connection",
        b"keep-alive",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"host",
        b"content-length",
        b"expect",
    }
)


def drop_hop_by_hop(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers meant for the other end, in order, repeated ones kept, names in lower case."""
    lowered = [(name.lower(), value) for name, value in headers]
    named = {token.strip().lower() for name, value in lowered if name == b"connection" for token in value.split(b",")}
    return [(name, value) for name, value in lowered if name not in HOP_BY_HOP and name not in named]


def make_upstream_headers(headers: RawHeaders, *, readable_answer: bool, decoded_body: bool = False) -> CIMultiDict[str]:
    """Return the headers to send to the provider.

    With `readable_answer` the provider is asked not to compress, so that what it answers can be read as it passes. With
    `decoded_body` the body goes out without the encoding it came with.

    Raises:
        UnicodeDecodeError: A value is not UTF-8 and could not be passed on unchanged.
    """
    passed: CIMultiDict[str] = CIMultiDict()
    for name, value in drop_hop_by_hop(headers):
        if (readable_answer and name == b"accept-encoding") or (decoded_body and name == b"content-encoding"):
            continue
        passed.add(name.decode("ascii"), value.decode())
    if readable_answer:
        passed.add("accept-encoding", "identity")
    return passed


def first(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """Return the first value of a header whose name is written in lower case, or the empty string."""
    for key, value in headers:
        if key.lower() == name:
            return value.decode("latin-1").strip()
    return ""


def every(headers: RawHeaders, name: bytes) -> list[str]:
    """Return all values of a header whose name is written in lower case."""
    return [value.decode("latin-1") for key, value in headers if key == name]


def join_headers(headers: RawHeaders) -> Mapping[str, str]:
    """Return the headers by name, the values of a repeated one joined as RFC 9110 joins them."""
    joined: dict[str, str] = {}
    for name, value in headers:
        key = name.decode("latin-1").lower()
        text = value.decode("utf-8", "replace")
        joined[key] = f"{joined[key]}, {text}" if key in joined else text
    return joined
