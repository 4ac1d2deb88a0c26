"""Erasing: bodies become tombstones, and no file of the store keeps their bytes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection

from threadkeep.errors import ThreadNotFound
from threadkeep.store.sqlite.queries import QUERIES
from threadkeep.store.sqlite.rows import thread_end


def erase(connection: sqlite3.Connection, thread_id: str, ordinals: Collection[int], *, at_ms: int, tenant: int) -> int:
    """Empty the bodies of these records and return how many records shared them.

    The bytes are overwritten where they lay, because every writing connection has `secure_delete`. What the index knows of
    them cannot be taken out of it alone: it is contentless, so a row is removed by telling it the very words that went in,
    and they would lie in its older segments until those merge. It is emptied instead, and fills again with the next search.
    """
    end = thread_end(connection, thread_id, tenant=tenant)
    if end is None:
        raise ThreadNotFound(thread_id)
    thread, _ = end
    chosen = connection.execute(QUERIES["bodies_to_erase"], {"thread": thread, "ordinals": json.dumps(sorted(set(ordinals)))})
    bodies = [body for (body,) in chosen.fetchall()]
    if not bodies:
        return 0
    count, first_item = connection.execute(QUERIES["records_of_bodies"], {"bodies": json.dumps(bodies)}).fetchone()
    connection.executemany(QUERIES["erase_body"], [{"id": body, "at_ms": at_ms} for body in bodies])
    connection.execute(QUERIES["note_erasure"])
    upto, _, _ = connection.execute(QUERIES["search_lag"]).fetchone()
    if first_item is not None and first_item <= upto:
        connection.execute(QUERIES["empty_search"])
        connection.execute(QUERIES["forget_search"])
    return int(count)


def empty_the_log(connection: sqlite3.Connection) -> bool:
    """Fold the write-ahead log into the file and cut it to nothing: older versions of the pages lie in it.

    False where someone read from the log, or wrote to it, for as long as a connection is patient.
    """
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy
