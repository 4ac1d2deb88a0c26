"""What is kept of a thread's records under each mode."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.histories import answered, call, output, said

from threadkeep import Config, Threadkeep
from threadkeep.store import NewRecord, RecordKind
from threadkeep.threads import ReplyBody, encode_body
from threadkeep.threads.records import Persistence, TurnEndBody, read_mail_record, reduce_records

ANSWER = ReplyBody(
    items=[msgspec.Raw(b'{"type":"message"}')],
    outcome="completed",
    estimated_tokens=90,
    input_tokens=100,
    output_tokens=7,
    cached_tokens=50,
    response_id="resp_1",
)


def record(kind: RecordKind, body: bytes = b"{}", *, chain: bytes | None = None) -> NewRecord:
    return NewRecord(kind=kind, at_ms=3, turn=2, tokens=1, body=body, chain=chain, depth=1 if chain else None)


KEPT_WHOLE = [kind for kind in RecordKind if kind not in (RecordKind.REPLY, RecordKind.NOTE)]


def test_extended_keeps_everything_as_it_is() -> None:
    """Under `extended` every kind of record is appended, in order, untouched."""
    records = [record(kind) for kind in RecordKind] + [record(RecordKind.REPLY, encode_body(ANSWER))]
    assert reduce_records(records, Persistence.EXTENDED) == records


@pytest.mark.parametrize("kind", KEPT_WHOLE)
def test_limited_keeps_what_the_thread_is_computed_from(kind: RecordKind) -> None:
    """Windows, forks, rollbacks, audits and recall find the same records under `limited`."""
    assert reduce_records([record(kind)], Persistence.LIMITED) == [record(kind)]


def test_limited_keeps_the_figures_of_a_reply() -> None:
    """Usage, outcome and response id stay, with every column of the record; the items go."""
    figures = msgspec.structs.replace(ANSWER, items=[])
    kept = reduce_records([record(RecordKind.REPLY, encode_body(ANSWER))], Persistence.LIMITED)
    assert kept == [record(RecordKind.REPLY, encode_body(figures))]


def test_limited_keeps_notes_only_where_they_are_links() -> None:
    """A chained note carries the client's history and stays; a remark does not."""
    link, remark = record(RecordKind.NOTE, chain=b"c" * 16), record(RecordKind.NOTE)
    assert reduce_records([remark, link, remark], Persistence.LIMITED) == [link]


@pytest.mark.parametrize("kind", RecordKind)
def test_limited_never_touches_a_link_of_the_chain(kind: RecordKind) -> None:
    """Whatever its kind, a chained record is kept byte for byte: the links after it rest on it."""
    link = record(kind, encode_body(ANSWER), chain=b"c" * 16)
    assert reduce_records([link], Persistence.LIMITED) == [link]


@pytest.mark.parametrize("body", [b"", b"not json", b'{"v":9,"outcome":["new","form"]}'])
def test_a_reply_of_an_unknown_form_is_kept(body: bytes) -> None:
    """What cannot be taken apart is not taken away."""
    reply = record(RecordKind.REPLY, body)
    assert reduce_records([reply], Persistence.LIMITED) == [reply]


def test_keeping_twice_changes_nothing() -> None:
    """What the policy kept, it keeps."""
    records = [record(kind) for kind in RecordKind] + [record(RecordKind.REPLY, encode_body(ANSWER))]
    once = reduce_records(records, Persistence.LIMITED)
    assert reduce_records(once, Persistence.LIMITED) == once


@pytest.mark.anyio
async def test_a_turn_of_the_library_is_told_step_by_step_where_persistence_is_extended(tmp_path: Path) -> None:
    """The same items and the same windows; `limited` leaves out when what was asked and recorded, and is smaller for it."""
    ends: dict[str, TurnEndBody] = {}
    sizes: dict[str, int] = {}
    windows: list[list[dict[str, object]]] = []
    for mode in Persistence:
        async with Threadkeep(Config(store=str(tmp_path / f"{mode}.db"), persistence=mode)) as tk:
            thread = await tk.thread("t", dialect="responses")
            async with thread.turn([said("Go.")], model="gpt") as turn:
                for number in range(3):
                    await turn.window()
                    await turn.record([call(f"c{number}"), output(f"c{number}", "ok")])
                await turn.window()
                await turn.record([answered("Done.")])
            records = await thread.records()
            windows.append(list(await thread.window()))
        (ended,) = [body for record in records if isinstance(body := read_mail_record(record), TurnEndBody)]
        ends[mode], sizes[mode] = ended, sum(len(record.body) for record in records)
    assert [event.what for event in ends["extended"].events] == ["asked", "recorded"] * 4
    assert all(event.tokens > 0 for event in ends["extended"].events)
    assert ends["limited"] == msgspec.structs.replace(ends["extended"], events=[])
    assert windows[0] == windows[1]
    assert sizes["limited"] + 200 < sizes["extended"]
