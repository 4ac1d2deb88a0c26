"""What the pages say, compared with what the store holds."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.cli.stories import damaged
from tests.conftest import ManualClock
from tests.histories import said
from tests.viewer.conftest import Opened, compaction_ordinals
from tests.viewer.stories import HOSTILE, STEPS, appended, hostile, long_thread, worked

from threadkeep import Threadkeep
from threadkeep.memory.memory import Memories
from threadkeep.store import NewRecord, RecordKind
from threadkeep.threads import MetaBody, encode_body
from threadkeep.viewer.renderer import reveal
from threadkeep.viewer.size_history import MOST_POINTS, read_size_history
from threadkeep.viewer.timeline import MOST_FOLLOWED, PAGE


def words(page: str) -> str:
    """Return what a page says, without its markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def rows(page: str) -> list[int]:
    """Return the ordinals of a timeline's lines."""
    return [int(found) for found in re.findall(r'<li class="record[^"]*" id="r(\d+)"', page)]


def groups(page: str) -> dict[str, Sequence[str]]:
    """Return what a compaction's page says about the ledger: per group, the words of what people said."""
    found: dict[str, Sequence[str]] = {}
    for part in page.split('<details class="group ')[1:]:
        name = part.split('"', 1)[0]
        found[name] = [
            words(entry.split('<p class="marks">')[0])
            for entry in part.split(f'<li class="entry {name}">')[1:]
            if "a person&#39;s words" in entry or "a person's words" in entry
        ]
    return found


@pytest.mark.anyio
async def test_the_list_finds_threads_by_title_and_by_what_was_said(opened: Opened, work: Threadkeep) -> None:
    """A word of the title finds the thread, a word said in it finds the record."""
    async with opened() as looker:
        everything = words((await looker.get("/ui/")).text)
        assert "billing-with-replica" in everything
        tokens = (await (await work.find("billing")).history()).tokens
        assert f"billing responses 12 turns 102 records 3 compactions {tokens:,} tokens" in everything
        by_title = (await looker.get("/ui/?q=postgresql")).text
        assert re.findall(r'class="card-link" href="([^"]+)"', by_title) == ["/ui/t/billing"]
        by_words = (await looker.get("/ui/?q=gapless")).text
        assert re.findall(r'class="card-link"', by_words) == []
        assert re.findall(r'class="row-link" href="([^"]+)"', by_words) == ["/ui/t/billing/r/18"]


@pytest.mark.anyio
async def test_filters_narrow_the_list(opened: Opened, work: Threadkeep) -> None:
    """Forks, compacted ones, a dialect, and those put away."""
    await (await work.thread("old", dialect="chat")).archive()

    async with opened() as looker:

        async def listed(query: str) -> list[str]:
            page = (await looker.get(f"/ui/?{query}")).text
            return sorted(re.findall(r'class="card-link" href="/ui/t/([^"]+)"', page))

        assert await listed("") == ["billing", "billing-with-replica"]
        assert await listed("only=forks") == ["billing-with-replica"]
        assert await listed("only=compacted") == ["billing"]
        assert await listed("only=archived") == ["old"]
        assert await listed("dialect=messages") == []


@pytest.mark.anyio
async def test_a_compaction_says_what_it_lost_and_where_that_is(opened: Opened, work: Threadkeep) -> None:
    """In the second one a model quoted a correction: both messages are there, each linked to its record."""
    thread = await work.find("billing")
    second = (await compaction_ordinals(work, thread))[1]
    async with opened() as looker:
        page = (await looker.get(f"/ui/t/billing/c/{second}")).text
    assert groups(page) == {
        "superseded": ["Staging listens on port 4610."],
        "added": [STEPS[3][0], STEPS[4][0], STEPS[5][0]],
    }
    superseded = page.split('id="g-superseded"')[1].split("</details>")[0]
    assert re.findall(r'class="pointer" href="/ui/t/billing/r/(\d+)"', superseded) == ["10", "35"]
    assert "5 of 5 required things are in the window" in words(page)
    assert "11 items , " in words(page)


@pytest.mark.anyio
async def test_two_compactions_can_be_compared(opened: Opened, work: Threadkeep) -> None:
    """From the first to the third, what both in between added is new."""
    thread = await work.find("billing")
    first, _, third = await compaction_ordinals(work, thread)
    async with opened() as looker:
        page = (await looker.get(f"/ui/t/billing/c/{third}?from={first}")).text
    compared = groups(page)
    assert compared["superseded"] == ["Staging listens on port 4610."]
    assert [STEPS[turn][0] for turn in (3, 4, 5, 6)] == list(compared["added"])[:4]


@pytest.mark.anyio
async def test_windows_stand_side_by_side(opened: Opened, work: Threadkeep) -> None:
    """Every position before has its fate; only rows of one fate are shown when that is asked for."""
    thread = await work.find("billing")
    second = (await compaction_ordinals(work, thread))[1]
    async with opened() as looker:
        everything = (await looker.get(f"/ui/t/billing/c/{second}")).text
        left = (await looker.get(f"/ui/t/billing/c/{second}?fate=left")).text
    fates = re.findall(r'<tr class="(left|kept|shortened|rewritten|new)">', everything)
    assert {fate: fates.count(fate) for fate in dict.fromkeys(fates)} == {"rewritten": 1, "kept": 16, "left": 11, "shortened": 3}
    assert set(re.findall(r'<tr class="(\w+)">', left)) == {"left"}


@pytest.mark.anyio
async def test_the_series_falls_where_a_compaction_was(work: Threadkeep) -> None:
    """The plotted sizes are those the checkpoints recorded, and the cache misses right after each are in it."""
    thread = await work.find("billing")
    series = await read_size_history(work, thread)
    checkpoints = [record for record in await thread.records() if record.kind is RecordKind.CHECKPOINT]
    assert [(ordinal, after) for ordinal, _, _, after in series.compactions] == [
        (record.ordinal, record.tokens) for record in checkpoints
    ]
    at = {ordinal: size for ordinal, size in zip(series.ordinals, series.window, strict=True) if size is not None}
    assert [at[record.ordinal] for record in checkpoints] == [record.tokens for record in checkpoints]
    assert at[max(at)] == (await thread.history()).tokens
    cached = [value for value in series.cached if value is not None]
    assert [index + 1 for index, value in enumerate(cached) if value == 900] == [4, 7, 10]


@pytest.mark.anyio
async def test_an_undone_compaction_gives_the_size_back(work: Threadkeep) -> None:
    """After an undo the line is where it would have been without the compaction."""
    thread = await work.find("billing")
    await thread.undo()
    series = await read_size_history(work, thread)
    sizes = [size for size in series.window if size is not None]
    assert sizes[-1] == (await thread.history()).tokens


@pytest.mark.anyio
async def test_the_plot_ends_at_the_size_of_the_window(work: Threadkeep) -> None:
    """After new items, a compaction, an undo and a rollback."""
    thread = await work.find("billing")
    for change in ("record", "compact", "record", "undo", "rollback", "record", "compact"):
        match change:
            case "record":
                await thread.record(worked(99, "Once more.", "ls"))
            case "compact":
                await thread.compact(target="40%")
            case "undo":
                await thread.undo()
            case "rollback":
                await thread.rollback(turns=4)
        history = await read_size_history(work, thread)
        assert [size for size in history.window if size is not None][-1] == (await thread.history()).tokens


@pytest.mark.anyio
async def test_a_long_thread_is_shown_a_page_at_a_time(opened: Opened, work: Threadkeep) -> None:
    """First, last, middle, by kind: never more lines than a page, and a plot with no more points than it can show."""
    thread = await long_thread(work, records=9_000)
    last = (await work.backend.store.get(thread.id)).next - 1
    async with opened() as looker:
        newest = rows((await looker.get("/ui/t/long/timeline")).text)
        assert newest == list(range(last - PAGE + 1, last + 1))
        older = rows((await looker.get(f"/ui/t/long/timeline?before={newest[0]}")).text)
        assert older == list(range(newest[0] - PAGE, newest[0]))
        assert rows((await looker.get("/ui/t/long/timeline?at=0")).text) == list(range(PAGE))
        turns = rows((await looker.get("/ui/t/long/timeline?side=turns&at=4000")).text)
        assert len(turns) == PAGE
        assert turns[:3] == [4000, 4003, 4006]
    assert len((await read_size_history(work, thread)).ordinals) <= 2 * MOST_POINTS + 2


@pytest.mark.anyio
async def test_whatever_a_transcript_says_is_text(opened: Opened, work: Threadkeep) -> None:
    """No page of a hostile thread holds a tag of its making, nor a character that moves others."""
    thread = await hostile(work)
    (made,) = await compaction_ordinals(work, thread)
    async with opened(allow_changes=True) as looker:
        for path in ("", "/timeline", "/state", "/window", f"/c/{made}", "/r/2", "/find?q=keep", "/r/2?part=body"):
            page = (await looker.get(f"/ui/t/hostile{path}")).text
            assert re.findall(r"<script>|<img src=x|<svg|<b>|onerror='|\x1b|\x07|\u202e|49 ", page) == []
            assert "gnp.exe" in page
        listed = (await looker.get("/ui/?q=%3Cscript%3Ealert(1)%3C/script%3E&dialect=%22%3E%3Cscript%3E")).text
        assert "<script>" not in listed


def test_cleaning_writes_out_what_cannot_be_seen() -> None:
    """Colours go, line ends stay, everything else that hides or moves text is named."""
    assert reveal("a\x1b[1;31mb\x1b[0m\r\nc\td\u202ee\x07\ud800") == "ab\nc\td⟨U+202E⟩e⟨U+0007⟩?"


@pytest.mark.anyio
async def test_a_record_comes_back_byte_for_byte(opened: Opened, work: Threadkeep) -> None:
    """Saved, it is what was recorded, as a file no browser renders."""
    thread = await hostile(work)
    record = (await thread.records())[2]
    async with opened() as looker:
        seen = await looker.get(f"/ui/t/hostile/r/{record.ordinal}/raw")
    assert seen.text.encode() == record.body
    assert seen.headers["content-type"] == "application/octet-stream"
    assert seen.headers["content-disposition"].startswith("attachment")


@pytest.mark.anyio
async def test_changes_are_records_and_lead_to_what_they_made(opened: Opened, work: Threadkeep) -> None:
    """A note, a compaction, its undo, a fork and a rollback, each through its form."""
    async with opened(allow_changes=True) as looker:

        async def did(what: str, **form: str) -> str:
            seen = await looker.post(f"/ui/t/billing/{what}", form)
            assert seen.status == 303, words(seen.text)
            page = await looker.get(seen.headers["location"])
            assert page.status == 200
            return seen.headers["location"]

        offered = re.findall(r"<option>(\w+)</option>", (await looker.get("/ui/t/billing")).text)
        assert offered == ["session", "handoff", "remote", "extractive"]
        start = (await work.backend.store.get("billing")).next
        assert await did("note", text=HOSTILE) == f"/ui/t/billing?done=note&at={start}"
        assert await did("compact", strategy="extractive") == f"/ui/t/billing?done=compact&at={start + 1}"
        assert await did("undo") == f"/ui/t/billing?done=undo&at={start + 1}"
        assert await did("fork", at="50", name="again") == "/ui/t/again?done=fork"
        assert (await did("rollback", turns="2")).startswith("/ui/t/billing?done=rollback&at=")
        far = await looker.post("/ui/t/billing/rollback", {"turns": "999"})
        assert (far.status, "so 999 cannot be taken back; name a number up to" in words(far.text)) == (400, True)
        wrong = await looker.post("/ui/t/billing/fork", {"at": "many"})
        assert (wrong.status, "at must be a number" in words(wrong.text)) == (400, True)
    kinds = [record.kind for record in (await (await work.find("billing")).records())[start:]]
    assert kinds == [RecordKind.NOTE, RecordKind.CHECKPOINT, RecordKind.UNDO, RecordKind.ROLLBACK]


@pytest.mark.anyio
async def test_a_note_is_in_the_state_at_once_and_the_window_does_not_move(opened: Opened, work: Threadkeep) -> None:
    """The timeline, the state and the record show it; what is sent to the model is the same until the next compaction."""
    thread = await work.find("billing")
    before = await thread.window()
    async with opened(allow_changes=True) as looker:
        seen = await looker.post("/ui/t/billing/note", {"text": "looked at by the auditors", "pinned": "yes"})
        at = seen.headers["location"].partition("at=")[2]
        assert "note, pinned looked at by the auditors" in words((await looker.get("/ui/t/billing/timeline?side=changes")).text)
        assert "looked at by the auditors" in (await looker.get("/ui/t/billing/state")).text
        assert "looked at by the auditors" in words((await looker.get(f"/ui/t/billing/r/{at}")).text)
    assert list(await thread.window()) == list(before)
    assert [entry.text for entry in (await thread.state()).entries if entry.pinned] == ["looked at by the auditors"]


@pytest.mark.anyio
async def test_an_entry_is_pinned_and_let_go_where_changes_are_allowed(opened: Opened, work: Threadkeep) -> None:
    """The state page has the forms, the answer leads back to the entry, and the timeline says what was done."""
    thread = await work.find("billing")
    first = (await thread.state()).entries[0]
    async with opened() as looker:
        assert '<form class="pin"' not in (await looker.get("/ui/t/billing/state")).text
        assert (await looker.post("/ui/t/billing/pin", {"entry": first.id})).status == 403
    async with opened(allow_changes=True) as looker:
        done = await looker.post("/ui/t/billing/pin", {"entry": first.id})
        assert done.headers["location"] == f"/ui/t/billing/state?done=pin&entry={first.id}#entry-{first.id}"
        page = (await looker.get(done.headers["location"].partition("#")[0])).text
        assert f"Pinned: no compaction may drop or change entry {first.id}." in words(page)
        assert f'class="entry pinned" id="entry-{first.id}"' in page
        assert [entry.id for entry in (await thread.state()).entries if entry.pinned] == [first.id]
        await looker.post("/ui/t/billing/unpin", {"entry": first.id})
        told = words((await looker.get("/ui/t/billing/timeline?side=changes")).text)
        assert f"a person pinned entry {first.id} of the session state" in told
        assert f"a person unpinned entry {first.id} of the session state" in told
        wrong = await looker.post("/ui/t/billing/pin", {"entry": HOSTILE})
        assert (wrong.status, "has no entry" in words(wrong.text), "<script>window" in wrong.text) == (404, True, False)
    assert [entry.id for entry in (await thread.state()).entries if entry.pinned] == []


@pytest.mark.anyio
async def test_relatives_mail_and_agents_are_shown(opened: Opened) -> None:
    """The fork under its parent, as the sub-agent that it is, with its state and its letter."""
    async with opened() as looker:
        page = words((await looker.get("/ui/t/billing")).text)
    assert "billing-with-replica from #59 reviewer open Try the replica after all." in page
    assert "Mail #101 reviewer trigger" in page


@pytest.mark.anyio
async def test_a_thread_whose_client_rewrote_its_history_says_where(opened: Opened, work: Threadkeep) -> None:
    """The story goes on in one thread, and a record shows where the client's own history begins anew."""
    thread = await work.thread("after")
    end = (await work.backend.store.get("after")).next
    meta = encode_body(MetaBody(dialect="responses", agent="explorer"))
    await appended(work, thread, [NewRecord(kind=RecordKind.META, at_ms=0, turn=0, tokens=0, body=meta, target=end)])
    async with opened() as looker:
        page = words((await looker.get("/ui/t/after")).text)
        rest = words((await looker.get("/ui/t/after/timeline?kind=changes")).text)
    assert "The thread of sub-agent explorer ." in page
    assert "the client replaced its history by the one that follows" in rest


@pytest.mark.anyio
async def test_a_fork_has_the_compactions_of_its_path(opened: Opened, work: Threadkeep) -> None:
    """Those of its parent before it began, numbered the same, and each opens."""
    first, second, _ = await compaction_ordinals(work, await work.find("billing"))
    async with opened() as looker:
        page = (await looker.get("/ui/t/billing-with-replica")).text
        assert re.findall(r'href="/ui/t/billing-with-replica/c/(\d+)">Compaction (\d)', page) == [
            (f"{second}", "2"),
            (f"{first}", "1"),
        ]
        assert "Compaction 1 of 2" in words((await looker.get(f"/ui/t/billing-with-replica/c/{first}")).text)


@pytest.mark.anyio
async def test_what_was_taken_back_is_still_shown(opened: Opened, work: Threadkeep) -> None:
    """A compaction behind a rollback, its records struck through, and one that was undone."""
    thread = await work.find("billing")
    _, second, third = await compaction_ordinals(work, thread)
    await thread.rollback(turns=6)
    await thread.undo()
    async with opened() as looker:
        assert "Compaction off the live path" in words((await looker.get(f"/ui/t/billing/c/{third}")).text)
        assert f"Compaction 2 of 2 #{second} undone" in words((await looker.get(f"/ui/t/billing/c/{second}")).text)
        lines = (await looker.get(f"/ui/t/billing/timeline?at={third}")).text
    assert re.findall(rf'<li class="record checkpoint( gone)?" id="r{third}"', lines) == [" gone"]


@pytest.mark.anyio
async def test_damage_costs_only_itself(opened: Opened, work: Threadkeep, store_file: Path) -> None:
    """A checkpoint that cannot be read is named where it is; the thread's other pages stay."""
    third = (await compaction_ordinals(work, await work.find("billing")))[2]
    damaged(store_file, thread="billing", ordinal=third, body=b'{"broken')
    async with opened() as looker:
        overview = await looker.get("/ui/t/billing")
        assert (overview.status, "The window cannot be read" in words(overview.text)) == (200, True)
        assert "Compaction 3 #75 9 cannot be read" in words(overview.text)
        assert (await looker.get("/ui/t/billing/timeline")).status == 200
        assert (await looker.get("/ui/")).status == 200
        broken = await looker.get(f"/ui/t/billing/c/{third}")
        assert (broken.status, f"checkpoint #{third} cannot be read" in words(broken.text)) == (500, True)


@pytest.mark.anyio
async def test_what_was_erased_says_so(opened: Opened, work: Threadkeep) -> None:
    """Its line and its page stay, without a word of it."""
    await work.backend.store.erase("billing", [18], at_ms=0)
    async with opened() as looker:
        line = (await looker.get("/ui/t/billing/timeline?at=18")).text
        assert "erased: the record stays, its bytes are gone for good" in line
        assert (await looker.get("/ui/t/billing/r/18")).status == 200


@pytest.mark.anyio
async def test_what_is_remembered_is_linked_to_who_said_it(opened: Opened, work: Threadkeep, clock: ManualClock) -> None:
    """After a pass over idle threads: each memory with its sources, found by its words."""
    async with opened() as looker:
        assert "There are no memories yet" in words((await looker.get("/ui/memory")).text)
        clock.ms += 24 * 3_600_000
        await Memories(work.backend).run()
        kept = (await Memories(work.backend).state()).memories
        assert kept
        # A day has passed, and with it the ticket's time.
        assert (await looker.enter()).status == 303
        page = (await looker.get("/ui/memory")).text
        assert all(" ".join(memory.text.split()) in words(page) for memory in kept)
        for source in {source for memory in kept for source in memory.sources[-1:]}:
            thread, _, ordinal = source.rpartition("#")
            assert f'<a class="pointer" href="/ui/t/{thread}/r/{ordinal}">#{ordinal}</a>' in page
        searched = words((await looker.get(f"/ui/memory?q={quote(kept[0].text)}")).text)
        hits = await Memories(work.backend).search(kept[0].text, limit=200)
        assert all(" ".join(memory.text.split()) in searched for memory in hits)
        assert "No memory matches." in words((await looker.get("/ui/memory?q=zzzzqqq")).text)


@pytest.mark.anyio
async def test_what_is_not_there_gets_a_plain_answer(opened: Opened) -> None:
    """Unknown threads, records, pages and files."""
    async with opened() as looker:
        for path in ("/ui/t/nobody", "/ui/t/billing/r/99999", "/ui/t/billing/nothing", "/ui/elsewhere", "/ui/assets/none.js"):
            assert (await looker.get(path)).status == 404
        assert (await looker.get("/ui/t/billing/c/2")).status == 400
        assert (await looker.get("/ui/t/billing/timeline?at=x")).status == 400


def test_vendored_files_are_what_was_published() -> None:
    """Each has its digest beside it, and its licence."""
    folder = files("threadkeep.viewer").joinpath("assets")
    listed = dict(re.findall(r"^(\S+)\n(?:  .*\n)*?  sha256   (\w+)", folder.joinpath("VENDORED.txt").read_text(), re.MULTILINE))
    real = {name: hashlib.sha256(folder.joinpath(name).read_bytes()).hexdigest() for name in listed}
    assert listed == real
    assert set(listed) == {"uPlot.iife.min.js", "uPlot.min.css"}
    assert "MIT" in folder.joinpath("uPlot.LICENSE.txt").read_text()


@pytest.mark.anyio
async def test_a_followed_timeline_has_every_line_from_its_first_on(opened: Opened, work: Threadkeep) -> None:
    """However much was written at once; when it would grow too long its oldest give way, and the way to them is there."""
    thread = await work.find("billing")
    async with opened() as looker:
        before = rows((await looker.get("/ui/t/billing/timeline")).text)
        await thread.record([said(f"Burst {number}.") for number in range(70)])
        last = (await work.backend.store.get("billing")).next - 1
        grown = rows((await looker.get(f"/ui/t/billing/timeline?since={before[0]}")).text)
        assert grown == list(range(before[0], last + 1))
        await thread.record([said(f"Burst {number}.") for number in range(300)])
        page = (await looker.get(f"/ui/t/billing/timeline?since={before[0]}")).text
        shown = rows(page)
        last = (await work.backend.store.get("billing")).next - 1
        assert shown == list(range(last - MOST_FOLLOWED + 1, last + 1))
        assert f"side=all&amp;before={shown[0]}" in page


@pytest.mark.anyio
async def test_a_line_says_when_it_was_written_and_what_became_of_it(opened: Opened, work: Threadkeep) -> None:
    """A moment on every line; taken back or erased, a line's state changes."""

    async def states() -> dict[int, str]:
        page = (await looker.get("/ui/t/billing/timeline?at=85")).text
        moments = re.findall(r'<time datetime="2023-11-\d\dT[\d:.]+\+00:00">', page)
        assert len(moments) == len(rows(page))
        return {int(at): state for at, state in re.findall(r'id="r(\d+)" data-state="(\w+)"', page)}

    async with opened() as looker:
        before = await states()
        assert set(before.values()) == {"live"}
        await (await work.find("billing")).rollback(turns=1)
        await work.backend.store.erase("billing", [88], at_ms=0)
        after = await states()
        assert after == {at: "erased" if at == 88 else "gone" if 92 <= at <= max(before) else "live" for at in after}
