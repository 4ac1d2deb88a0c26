"""`verify` finds what was tampered with, names where, and never falls over."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.histories import said, turns

from threadkeep import Config, Threadkeep
from threadkeep.items import digest_body
from threadkeep.store import RecordKind
from threadkeep.store.sqlite.operations import Form, pack_body, unpack_body

pytestmark = pytest.mark.anyio


class Tampering:
    """A store file with one compacted thread `t` and a fork `c`, and a hand in it."""

    def __init__(self, file: Path) -> None:
        self.file = file

    async def prepare(self) -> None:
        async with Threadkeep(Config(store=str(self.file), model_context_window=4_000)) as tk:
            thread = await tk.thread("t")
            await thread.record([said("Never push to main."), *turns(1, 5, words=200)])
            await thread.compact()
            await thread.record(turns(6, 7))
            await (await thread.fork(new_id="c")).record(turns(8, 8))
            assert (await tk.verify()).problems == ()

    def execute(self, sql: str, *values: object) -> None:
        connection = sqlite3.connect(self.file)
        try:
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute("PRAGMA foreign_keys = OFF")
            assert connection.execute(sql, values).rowcount > 0
            connection.commit()
        finally:
            connection.close()

    def stored(self, ordinal: int) -> tuple[int, int, bytes]:
        """Return the row, form and data of a body of thread `t`."""
        connection = sqlite3.connect(self.file)
        try:
            row, form, data = connection.execute(
                "SELECT body.id, body.form, body.data FROM record JOIN body ON body.id = record.body"
                " JOIN thread ON thread.id = record.thread WHERE thread.name = 't' AND ordinal = ?",
                (ordinal,),
            ).fetchone()
        finally:
            connection.close()
        return row, form, data

    def rewrite(self, ordinal: int, old: bytes, new: bytes, *, honest: bool = False) -> None:
        """Change bytes of a body of thread `t`; `honest` gives it the digest of its new bytes."""
        row, form, data = self.stored(ordinal)
        body = unpack_body(form, data)
        assert old in body
        changed = body.replace(old, new)
        form, data = pack_body(changed)
        self.execute("UPDATE body SET form = ?, data = ? WHERE id = ?", form, data, row)
        if honest:
            self.execute("UPDATE body SET digest = ? WHERE id = ?", digest_body(changed), row)

    async def found(self) -> set[tuple[str, str]]:
        """Return what `verify` says, as pointer and code."""
        async with Threadkeep(Config(store=str(self.file), model_context_window=4_000)) as tk:
            verdict = await tk.verify()
        assert verdict.ok == (not verdict.problems)
        return {(str(problem.pointer), problem.code) for problem in verdict.problems}

    async def ordinal(self, kind: RecordKind) -> int:
        async with Threadkeep(Config(store=str(self.file), model_context_window=4_000)) as tk:
            return [record.ordinal for record in await (await tk.thread("t")).records() if record.kind is kind][-1]


@pytest.fixture
async def tampering(store_file: Path) -> Tampering:
    prepared = Tampering(store_file)
    await prepared.prepare()
    return prepared


async def test_an_untouched_store_is_clean(tampering: Tampering) -> None:
    """Both threads, every record."""
    assert await tampering.found() == set()


async def test_a_flipped_byte_is_found(tampering: Tampering) -> None:
    """`verify` names the record with the damaged byte."""
    tampering.rewrite(2, b"Never push", b"Always push")
    assert ("t#2", "bad_digest") in await tampering.found()


async def test_a_flipped_byte_in_a_large_body_is_found_and_hides_no_other_damage(tampering: Tampering) -> None:
    """A body too damaged to be unpacked is one problem among others, not the end of the check."""
    row, form, data = tampering.stored(7)
    assert form == Form.DEFLATED
    tampering.execute("UPDATE body SET data = ? WHERE id = ?", data[:-9] + bytes([data[-9] ^ 0x55]) + data[-8:], row)
    tampering.rewrite(2, b"Never push", b"Always push")
    found = await tampering.found()
    assert {pointer for pointer, _ in found} >= {"t#2", "t#7"}


async def test_a_changed_body_with_a_matching_digest_breaks_the_chain(tampering: Tampering) -> None:
    """Who changes bytes and their digest still has the tenant's key against them."""
    tampering.rewrite(2, b"Never push", b"Always push", honest=True)
    assert ("t#2", "bad_chain") in await tampering.found()


async def test_a_changed_chain_digest_is_found(tampering: Tampering) -> None:
    """The link that does not follow is named."""
    tampering.execute(
        "UPDATE record SET chain = zeroblob(16) WHERE ordinal = 5 AND thread = (SELECT id FROM thread WHERE name = 't')"
    )
    assert ("t#5", "bad_chain") in await tampering.found()


async def test_a_missing_record_is_a_gap(tampering: Tampering) -> None:
    """The first missing ordinal is named."""
    tampering.execute("DELETE FROM record WHERE ordinal IN (4, 5) AND thread = (SELECT id FROM thread WHERE name = 't')")
    assert ("t#4", "gap") in await tampering.found()


async def test_a_layout_that_leads_nowhere_is_a_dangling_pointer(tampering: Tampering) -> None:
    """A checkpoint whose kept record is gone is found before a model misses it."""
    checkpoint = await tampering.ordinal(RecordKind.CHECKPOINT)
    tampering.rewrite(checkpoint, b'"sources":["t#2"]', b'"sources":["t#9000"]', honest=True)
    assert ("t#9000", "dangling_pointer") in await tampering.found()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'{"strategy"', b'["strategy"'),
        (b'"layout":[', b'"layout":7,"x":['),
        (b'"sources":["t#2"]', b'"sources":["t 2"]'),
        (b'"next_number":', b'"next_number":"x","y":'),
    ],
)
@pytest.mark.parametrize("honest", [False, True])
async def test_a_damaged_checkpoint_is_reported_and_does_not_stop_the_rest(
    tampering: Tampering, old: bytes, new: bytes, *, honest: bool
) -> None:
    """The report names the checkpoint; every other record is still looked at."""
    checkpoint = await tampering.ordinal(RecordKind.CHECKPOINT)
    tampering.rewrite(checkpoint, old, new, honest=honest)
    found = await tampering.found()
    assert any(pointer == f"t#{checkpoint}" for pointer, _ in found)


async def test_verify_looks_at_one_thread_when_asked(tampering: Tampering) -> None:
    """The counts say what was looked at."""
    async with Threadkeep(Config(store=str(tampering.file))) as tk:
        fork = await tk.thread("c")
        one, every = await tk.verify(fork), await tk.verify()
        assert (one.threads, one.records) == (1, len(await fork.records()))
        assert (every.threads, every.records) == (2, one.records + len(await (await tk.thread("t")).records()))
