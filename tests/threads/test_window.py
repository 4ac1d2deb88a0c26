"""The window: a pure function of a checkpoint and what came after its cut."""

from __future__ import annotations

import msgspec
import pytest
from tests.histories import RESPONSES, Rollout, answered, call, output, said

from threadkeep.errors import RecordNotFound
from threadkeep.threads import Checkpoint, EntryKind, KeepEntry, LiteralEntry, Pointer, StateEntry, StubEntry, assemble

STATE = RESPONSES.make_user_message("state")


def checkpoint(*layout: KeepEntry | StubEntry | StateEntry | LiteralEntry, cut: int) -> Checkpoint:
    empty = msgspec.Raw(b"{}")
    return Checkpoint(strategy="s", cut=cut, covers=0, layout=list(layout), state=empty, audit=empty, figures={})


def test_the_layout_stands_first_and_the_path_from_the_cut_follows() -> None:
    """Kept records keep their bytes, a stub has its own, and each says where it comes from."""
    rollout = Rollout([said("go"), call("c"), output("c", "long"), answered("done")])
    stub = RESPONSES.parse(output("c", "[short]"))
    rollout.checkpoint = checkpoint(
        StateEntry(item=msgspec.Raw(STATE.raw)),
        KeepEntry(thread="t", ordinal=1),
        KeepEntry(thread="t", ordinal=2),
        StubEntry(thread="t", ordinal=3, item=msgspec.Raw(stub.raw)),
        cut=4,
    )
    history = rollout.history()
    recorded = [RESPONSES.parse(value) for value in (said("go"), call("c"), answered("done"))]
    assert history.items == [STATE, recorded[0], recorded[1], stub, recorded[2]]
    assert [(entry.kind, entry.source, entry.after_cut) for entry in history.entries] == [
        (EntryKind.STATE, None, False),
        (EntryKind.KEEP, Pointer("t", 1), False),
        (EntryKind.KEEP, Pointer("t", 2), False),
        (EntryKind.STUB, Pointer("t", 3), False),
        (EntryKind.KEEP, Pointer("t", 4), True),
    ]


def test_a_literal_stands_for_itself() -> None:
    """No record is asked for it; who wrote it, and whose words it repeats, are known."""
    rollout = Rollout([said("go")])
    summary, repeated = (RESPONSES.parse(said(text)) for text in ("so far", "go"))
    rollout.checkpoint = checkpoint(
        LiteralEntry(item=msgspec.Raw(summary.raw), issuer="codex"),
        LiteralEntry(item=msgspec.Raw(repeated.raw), issuer="codex", thread="t", ordinal=1),
        cut=9,
    )
    assert [(entry.kind, entry.item, entry.source, entry.issuer) for entry in rollout.history().entries] == [
        (EntryKind.LITERAL, summary, None, "codex"),
        (EntryKind.LITERAL, repeated, Pointer("t", 1), "codex"),
    ]


def test_a_layout_that_names_a_record_that_is_not_there_is_an_error() -> None:
    """A window is never silently shorter than its checkpoint says."""
    with pytest.raises(RecordNotFound):
        assemble(checkpoint=checkpoint(KeepEntry(thread="t", ordinal=9), cut=0), checkpoint_ordinal=0, kept={}, after=[])
