"""Leases on a connection."""

from __future__ import annotations

import sqlite3

from threadkeep.store.sqlite.queries import QUERIES


def acquire(connection: sqlite3.Connection, *, key: str, holder: str, now_ms: int, ttl_ms: int, tenant: int) -> bool:
    values = {"tenant": tenant, "key": key, "holder": holder, "ttl_ms": ttl_ms, "now_ms": now_ms}
    connection.execute(QUERIES["hold_lease_to_its_term"], values)
    return connection.execute(QUERIES["take_lease"], values).rowcount == 1


def release(connection: sqlite3.Connection, *, key: str, holder: str, tenant: int) -> None:
    connection.execute(QUERIES["give_back_lease"], {"tenant": tenant, "key": key, "holder": holder})
