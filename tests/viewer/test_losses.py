"""What a compaction's page answers to: what did it lose? Every answer can be the other one."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from tests.cli.stories import damaged
from tests.viewer.conftest import Opened, compaction_ordinals
from tests.viewer.test_erasure import erased
from tests.viewer.test_pages import words

from threadkeep import Threadkeep
from threadkeep.compaction import AuditReport
from threadkeep.compaction.audit import Fault
from threadkeep.threads import Pointer
from threadkeep.viewer.compaction_diff import WindowDiff
from threadkeep.viewer.compaction_reader import Originals, check_originals, open_compaction
from threadkeep.viewer.renderer import render_macro

NOTHING_LEFT = WindowDiff(rows=(), total=0, start=0, left=(), left_items=0, left_tokens=0, shortened=0)


def judged(archive: Originals, *, audit: AuditReport | None = None) -> list[tuple[str, bool]]:
    """Return each answer of the page, and whether it is marked as bad."""
    values: tuple[object, ...] = (archive, audit or AuditReport(required=0, kept=0), NOTHING_LEFT, {}, "?", None)
    answers = re.findall(r"<dd( class=\"bad\")?>(.*?)</dd>", render_macro("pieces.html", "verdict", *values))
    return [(html.unescape(re.sub("<[^>]+>", "", text)), bool(bad)) for bad, text in answers]


async def found(tk: Threadkeep, number: int) -> Originals:
    """Return what is left of what compaction `number` of `billing` replaced."""
    at = (await compaction_ordinals(tk, await tk.find("billing")))[number - 1]
    return await check_originals(tk.backend.store, await open_compaction(tk.backend.store, "billing", at))


def test_the_record_s_answer_is_what_was_found() -> None:
    """Nothing lost, something erased, something damaged, a pointer to nothing: four sentences, three of them bad."""
    at = [Pointer("billing", ordinal) for ordinal in range(9)]
    archives = (
        Originals(items=18, pointers=1),
        Originals(items=18, pointers=2, erased=(at[3],), to_erased=(at[3],)),
        Originals(items=18, pointers=1, lost=tuple(at)),
        Originals(items=1, pointers=5, to_nothing=(at[4],)),
    )
    answers = [judged(archive)[0] for archive in archives]
    assert answers == [
        ("nothing: all 18 items it replaced can be read back; the one pointer leads to a record", False),
        (
            "17 of 18 items it replaced can be read back; erased on request: #3; 1 of 2 pointers lead to a record"
            "; to erased records: #3",
            True,
        ),
        (
            "9 of 18 items it replaced can be read back; damaged or missing: #0 #1 #2 #3 #4 #5 and 3 more"
            "; the one pointer leads to a record",
            True,
        ),
        ("nothing: the one item it replaced can be read back; 4 of 5 pointers lead to a record; to nothing: #4", True),
    ]


def test_what_people_demanded_is_counted() -> None:
    """Nothing required, all in the window, a false line put right, some left to recall."""
    mended = Fault(kind="fact", text="changed vendor/a.py")
    audits = (
        AuditReport(required=0, kept=0),
        AuditReport(required=5, kept=5),
        AuditReport(required=5, kept=5, repaired=(mended,)),
        AuditReport(required=5, kept=2, left_out=3, repaired=(mended, mended)),
    )
    answers = [judged(Originals(items=0, pointers=0), audit=audit)[1] for audit in audits]
    assert answers == [
        ("nothing was required of this span", False),
        ("5 of 5 required things are in the window", False),
        ("5 of 5 required things are in the window; 1 false line repaired", False),
        (
            "2 of 5 required things are in the window, 3 did not fit and are left to recall; 2 false lines repaired",
            True,
        ),
    ]


@pytest.mark.anyio
async def test_an_archive_is_looked_up_in_the_store(work: Threadkeep, store_file: Path) -> None:
    """Whole at first; then one item is erased and another one's bytes are not those that were recorded."""
    whole = await found(work, 2)
    assert (whole.items, whole.readable, whole.resolving == whole.pointers > 0) == (27, 27, True)
    await work.backend.store.erase("billing", [35], at_ms=0)
    damaged(store_file, thread="billing", ordinal=30, body=b'{"type":"message","role":"user","content":"other words"}')
    left = await found(work, 2)
    assert (left.erased, left.lost, left.readable) == ((Pointer("billing", 35),), (Pointer("billing", 30),), 25)
    assert left.to_erased == (Pointer("billing", 35),)


@pytest.mark.anyio
async def test_the_page_says_what_was_erased_and_nothing_else(opened: Opened, work: Threadkeep) -> None:
    """Before an erasure nothing is lost; the compaction made after it stands on what is left, and says how much that is."""
    thread = await work.find("billing")
    second = (await compaction_ordinals(work, thread))[1]
    async with opened() as looker:
        page = words((await looker.get(f"/ui/t/billing/c/{second}")).text)
        assert "From the record nothing : all 27 items it replaced can be read back" in page
        await erased(work, "billing", 35)
        last = (await compaction_ordinals(work, thread))[-1]
        page = words((await looker.get(f"/ui/t/billing/c/{last}")).text)
        assert "items it replaced can be read back; erased on request: #35" in page
