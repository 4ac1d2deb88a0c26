"""A compressed request is read, bounded, and sent on decoded."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, Any

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.gateway.http.compression import FIRST_PIECE, DecodeFailure, decode_body, parse_codings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.conftest import Proxy

BODY = b'{"model": "m", "input": [{"role":"user","content":"hi"}]}'
LIMIT = 1_000_000


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
    "br": brotli.compress,
}


@given(body=st.binary(max_size=5_000), codings=st.lists(st.sampled_from(sorted(PACKERS)), max_size=3))
def test_whatever_was_packed_comes_back(body: bytes, codings: list[str]) -> None:
    """Any encodings, one after the other, are undone in reverse."""
    packed = body
    for coding in codings:
        packed = PACKERS[coding](packed)
    assert decode_body(packed, codings, limit=LIMIT) == body


@given(body=st.binary(max_size=500), coding=st.sampled_from(sorted(PACKERS)))
def test_hostile_bytes_are_damaged_and_nothing_worse(body: bytes, coding: str) -> None:
    """Bytes that no packer wrote are read as far as they are whole, or said to be damaged; nothing is raised."""
    read = decode_body(body, [coding], limit=LIMIT)
    assert isinstance(read, bytes) or read is DecodeFailure.DAMAGED


@pytest.mark.parametrize("coding", [*PACKERS, "x-gzip"])
@pytest.mark.parametrize("length", [LIMIT, LIMIT + 1, pytest.param(200_000_000, marks=pytest.mark.slow)])
def test_a_bomb_stops_at_the_limit(coding: str, length: int) -> None:
    """A body may become as long as the limit, and not a byte longer, however small it was."""
    packed = PACKERS[coding.removeprefix("x-")](bytes(length))
    read = decode_body(packed, [coding], limit=LIMIT)
    assert read == bytes(LIMIT) if length == LIMIT else read is DecodeFailure.TOO_LARGE


def test_what_breaks_off_is_damaged() -> None:
    """Half a body is not a body."""
    assert {decode_body(pack(BODY)[:-3], [coding], limit=LIMIT) for coding, pack in PACKERS.items()} == {DecodeFailure.DAMAGED}


def test_gzip_in_members_and_bare_deflate_are_read() -> None:
    """Several gzip files in one, and deflate without its header, are what some senders write."""
    assert decode_body(gzip.compress(b"a") + gzip.compress(b"b"), ["gzip"], limit=LIMIT) == b"ab"
    assert decode_body(raw_deflate(BODY), ["deflate"], limit=LIMIT) == BODY


def test_an_unknown_encoding_is_said_to_be() -> None:
    """What cannot be undone here is left to others."""
    assert decode_body(b"x", ["compress"], limit=LIMIT) is DecodeFailure.UNKNOWN


@pytest.mark.parametrize(
    ("header", "codings"), [("", []), ("identity", []), ("GZIP", ["gzip"]), ("gzip, identity ,zstd", ["gzip", "zstd"])]
)
def test_the_header_is_read_as_it_may_be_written(header: str, codings: list[str]) -> None:
    """Case, spaces and `identity` make no difference."""
    assert parse_codings(header) == codings


@pytest.mark.anyio
@pytest.mark.parametrize("coding", sorted(PACKERS))
async def test_a_compressed_request_is_read_and_sent_decoded(proxy: Proxy, coding: str) -> None:
    """The conversation gets the plain request, and the provider gets it without the encoding it came with."""
    headers = {"Content-Encoding": coding, "Content-Type": "application/json"}
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=PACKERS[coding](BODY), headers=headers) as answer:
        assert answer.status == 200
    [seen], [incoming] = proxy.provider.seen, proxy.script.opened
    assert (seen.body, incoming.body) == (BODY, BODY)
    assert seen.named(b"content-encoding", b"content-length", b"content-type") == [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(BODY)).encode()),
    ]


@pytest.mark.anyio
async def test_an_encoding_nobody_here_knows_passes_through_unread(proxy: Proxy) -> None:
    """The request goes on as it is, its answer comes back as it is, no conversation is opened, and that is counted."""
    headers = {"Content-Encoding": "compress", "Accept-Encoding": "br"}
    async with proxy.client.post(f"{proxy.url}/v1/responses", data=b"packed", headers=headers) as answer:
        assert answer.status == 200
    [seen] = proxy.provider.seen
    assert (seen.body, seen.named(b"content-encoding", b"accept-encoding")) == (
        b"packed",
        [(b"content-encoding", b"compress"), (b"accept-encoding", b"br")],
    )
    assert (proxy.script.opened, proxy.app.failures) == ([], {"open.unknown_encoding": 1})


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [(gzip.compress(bytes(4_000_000)), 413, "request_too_large"), (b"not gzip", 400, "invalid_request")],
)
async def test_a_body_that_cannot_be_undone_is_refused(proxy: Proxy, body: bytes, status: int, code: str) -> None:
    """A bomb is too large, garbage is invalid; neither reaches the conversation or the provider."""
    async with proxy.client.post(f"{proxy.url}/v1/messages", data=body, headers={"Content-Encoding": "gzip"}) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (status, code)
    assert (proxy.script.opened, proxy.provider.seen) == ([], [])


class Counted:
    """A decompressor that counts what it is given: bytes beyond the end of a member are given again."""

    given = 0

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def decompress(self, data: bytes | memoryview, *limits: int) -> bytes:
        Counted.given += len(data)
        unpacked: bytes = self._stream.decompress(data, *limits)
        return unpacked

    def decompressobj(self) -> Counted:
        return Counted(self._stream.decompressobj())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@pytest.mark.parametrize("body", [b"", b"x" * 300], ids=["empty", "short"])
@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_twice_the_members_are_twice_the_work(monkeypatch: pytest.MonkeyPatch, coding: str, body: bytes) -> None:
    """A body of many members, or frames, is read once and not again for each of them."""
    inflater, decoder = zlib.decompressobj, zstandard.ZstdDecompressor
    monkeypatch.setattr(zlib, "decompressobj", lambda **options: Counted(inflater(**options)))
    monkeypatch.setattr(zstandard, "ZstdDecompressor", lambda **options: Counted(decoder(**options)))
    member = PACKERS[coding](body)
    given = []
    for members in (200, 400, 800):
        monkeypatch.setattr(Counted, "given", 0)
        assert decode_body(member * members, [coding], limit=LIMIT) == body * members
        given.append(Counted.given / members)
    assert max(given) <= FIRST_PIECE + 2 * len(member)
