"""The two digests: bytes prove, canonical chains recognise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from threadkeep.items import digest_body, format_digest, link_chain, seed_chain

KEY = bytes(range(32))


@given(st.binary(max_size=64), st.integers(0, 63), st.integers(1, 255))
def test_a_flipped_byte_gives_another_body_digest(body: bytes, at: int, flip: int) -> None:
    """No byte of a body is beyond its digest."""
    if at < len(body):
        changed = body[:at] + bytes([body[at] ^ flip]) + body[at + 1 :]
        assert digest_body(changed) != digest_body(body)


def test_a_chain_depends_on_its_key_dialect_and_agent() -> None:
    """Tenants, dialects and sub-agents never share a link."""
    seeds = {
        seed_chain(KEY, dialect="responses"),
        seed_chain(bytes(32), dialect="responses"),
        seed_chain(KEY, dialect="chat"),
        seed_chain(KEY, dialect="responses", agent="child"),
    }
    assert len(seeds) == 4


def test_a_link_depends_on_everything_before_it() -> None:
    """Two histories that differ in their first item never meet again."""
    seed = seed_chain(KEY, dialect="responses")
    one = link_chain(KEY, link_chain(KEY, seed, b"a"), b"z")
    other = link_chain(KEY, link_chain(KEY, seed, b"b"), b"z")
    assert one != other


def test_a_written_digest_names_its_form() -> None:
    """Body digests and chain links cannot be mistaken for each other in a log."""
    assert format_digest(digest_body(b"")).startswith("b1:")
    assert format_digest(seed_chain(KEY, dialect="responses")).startswith("c1:")
