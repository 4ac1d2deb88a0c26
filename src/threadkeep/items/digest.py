"""The two digests.

`b1` is over stored bytes: it addresses a body within its tenant and lets `verify` prove it. `c1` is a chain over
canonical forms, keyed per tenant: it recognises a history that a client resends, whatever its key order or item ids.
The prefix names the construction, so that a later form can live beside this one.
"""

from __future__ import annotations

from hashlib import blake2b

BODY_BYTES = 20
CHAIN_BYTES = 16


def body_digest(body: bytes) -> bytes:
    """Return the `b1` digest of a body."""
    return blake2b(body, digest_size=BODY_BYTES).digest()


def chain_seed(key: bytes, *, dialect: str, agent: str = "") -> bytes:
    """Return the chain's first link: the tenant's key, the dialect and the sub-agent, never a credential or a model."""
    return blake2b(f"c1\0{dialect}\0{agent}".encode(), key=key, digest_size=CHAIN_BYTES).digest()


def chain_link(key: bytes, previous: bytes, canonical: bytes) -> bytes:
    """Return the `c1` digest of a history whose last item has this canonical form and whose earlier part is `previous`."""
    return blake2b(previous + canonical, key=key, digest_size=CHAIN_BYTES).digest()


def written(digest: bytes) -> str:
    """Return a digest as people and logs see it: its form, then its bytes."""
    form = "b1" if len(digest) == BODY_BYTES else "c1"
    return f"{form}:{digest.hex()}"
