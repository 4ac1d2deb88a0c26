"""Large bodies lie deflated in the file and come back as they were.

Of one backend alone: how a body lies in a file is nothing the port tells.
"""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from threadkeep.items import digest_body
from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.store.sqlite import SqliteDatabase
from threadkeep.store.sqlite.operations import PACK_FROM_BYTES, Form, pack_body, unpack_body

SMALL = b"x" * (PACK_FROM_BYTES - 1)
LARGE = b"x" * PACK_FROM_BYTES
NOISE = random.Random(1).randbytes(PACK_FROM_BYTES * 4)


@pytest.mark.parametrize(("body", "form"), [(b"", Form.PLAIN), (SMALL, Form.PLAIN), (LARGE, Form.DEFLATED), (NOISE, Form.PLAIN)])
def test_a_body_takes_its_smaller_form(body: bytes, form: Form) -> None:
    """Only a body that is large and shrinks is deflated; each comes back exactly."""
    packed, data = pack_body(body)
    assert (packed, len(data) <= len(body), unpack_body(packed, data)) == (form, True, body)


@pytest.mark.anyio
async def test_the_forms_are_those_the_database_takes_and_damage_shows(tmp_path: Path) -> None:
    """A form nobody knows is refused; bytes that do not inflate are given as they are, and their digest gives them away."""
    database = await SqliteDatabase.open(tmp_path / "s.db", searchable=lambda _, body: body.decode())
    store = await database.open_tenant()
    records = [NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=body) for body in (SMALL, LARGE, NOISE)]
    await store.create(NewThread(id="t", dialect="chat", created_at_ms=0), records)
    everything = Span(thread_id="t", start=0, stop=9)
    assert [record.body for record in await store.read(everything)] == [SMALL, LARGE, NOISE]
    connection = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    assert [form for (form,) in connection.execute("SELECT form FROM body ORDER BY id")] == [
        Form.PLAIN,
        Form.DEFLATED,
        Form.PLAIN,
    ]
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("UPDATE body SET form = ?", (max(Form) + 1,))
    connection.execute("UPDATE body SET data = x'00' WHERE form = 1")
    connection.close()
    found = await store.read(everything)
    assert [digest_body(record.body) == record.digest for record in found] == [True, False, True]
    await database.close()
