"""Transcripts that were cut, shuffled, doubled and garbled: what can be imported is, what cannot is said, nothing breaks."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.transfer.rollouts import THREAD, Json, answer, call, event, item, line, meta, output, turn, user, written

from threadkeep import Config, Threadkeep
from threadkeep.dialects import DIALECTS
from threadkeep.transfer.export import ExportFormat, export_thread
from threadkeep.transfer.import_formats import FORMATS, Format
from threadkeep.transfer.importer import Importer, ImportReport
from threadkeep.transfer.json_rows import parse_row

ROLLOUT = written(
    meta(),
    line("world_state", {"full": True, "state": {}}),
    item(user("<environment_context>\n<cwd>/p</cwd>\n</environment_context>")),
    *turn(1),
    *turn(2),
    line("compacted", {"message": "s", "replacement_history": [user("question 1"), user("s")]}),
    *turn(3),
    event("thread_rolled_back", num_turns=1),
    meta("01a1e0f0-fc48-7710-b868-3f047a60f8e9"),
    item({"type": "agent_message", "author": "/agents/a", "recipient": "/agents", "content": []}),
    *turn(4),
    line("compacted", {"message": "old form"}),
    item({"type": "reasoning", "summary": [], "encrypted_content": "SEALED"}),
    item(call("c9")),
    item(output("c9", "é" * 50)),
    item(answer("bye"), metadata={"a": 1}),
).splitlines(keepends=True)

CLAUDE = [
    json.dumps(row).encode() + b"\n"
    for row in (
        {"type": "summary", "summary": "s", "leafUuid": "a1"},
        {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "s", "message": {"role": "user", "content": "hi"}},
        {
            "type": "assistant",
            "uuid": "a1",
            "parentUuid": "u1",
            "sessionId": "s",
            "message": {"role": "assistant", "content": []},
        },
        {"type": "user", "uuid": "x1", "parentUuid": "a1", "isSidechain": True, "message": {"role": "user", "content": "go"}},
        {"type": "system", "subtype": "compact_boundary", "uuid": "b1", "parentUuid": None, "logicalParentUuid": "a1"},
        {"type": "user", "uuid": "u2", "parentUuid": "b1", "isCompactSummary": True, "message": {"role": "user", "content": "s"}},
        {"type": "user", "uuid": "u3", "parentUuid": "u1", "message": {"role": "user", "content": "again"}},
    )
]

PI = [
    json.dumps(row).encode() + b"\n"
    for row in (
        {"type": "session", "id": "p", "timestamp": "2026-01-01T00:00:00Z"},
        {"type": "message", "id": "1", "parentId": None, "message": {"role": "user", "content": "hi"}},
        {
            "type": "message",
            "id": "2",
            "parentId": "1",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "yo"}]},
        },
        {"type": "compaction", "id": "3", "parentId": "2", "summary": "s", "firstKeptEntryId": "2"},
        {"type": "message", "id": "4", "parentId": "1", "message": {"role": "toolResult", "toolCallId": "t", "content": []}},
    )
]


@st.composite
def mutated(draw: st.DrawFn, lines: list[bytes]) -> bytes:
    """Return a transcript after a few accidents."""
    made = list(lines)
    for _ in range(draw(st.integers(1, 6))):
        if not made:
            break
        at = draw(st.integers(0, len(made) - 1))
        match draw(st.sampled_from(["cut", "double", "move", "garble", "drop", "nul", "join"])):
            case "cut":
                made[at] = made[at][: draw(st.integers(0, len(made[at])))]
            case "double":
                made.insert(at, made[draw(st.integers(0, len(made) - 1))])
            case "move":
                made.insert(draw(st.integers(0, len(made) - 1)), made.pop(at))
            case "garble":
                place = draw(st.integers(0, len(made[at])))
                made[at] = made[at][:place] + draw(st.binary(min_size=1, max_size=6)) + made[at][place + 2 :]
            case "drop":
                made.pop(at)
            case "nul":
                made[at] = made[at].replace(draw(st.sampled_from([b"type", b"payload", b'"', b"0"])), b"\0")
            case _:
                made[at] = made[at].rstrip(b"\n")
    return b"".join(made)


@st.composite
def referring(draw: st.DrawFn) -> list[bytes]:
    """Return rollouts that begin in each other, or copy each other, in any way: in a row, in a circle, in themselves."""
    count = draw(st.integers(1, 4))
    made: list[list[Json]] = []
    for number in range(count):
        first = draw(st.integers(0, 8))
        end = draw(st.integers(0, 14))
        fields: Json = {}
        match draw(st.sampled_from(["none", "base", "base", "copy"])):
            case "base":
                base = {"thread_id": rollout_id(draw(st.integers(0, count))), "end_ordinal_exclusive": end, "end_byte_offset": 1}
                fields = {"history_mode": "paginated", "history_base": base}
            case "copy":
                fields = {"forked_from_id": rollout_id(draw(st.integers(0, count)))}
            case _:
                pass
        copied = draw(st.sampled_from(made))[: draw(st.integers(0, 4))] if made and "forked_from_id" in fields else []
        lines = [meta(rollout_id(number), **fields), *copied, *draw(st.lists(st.sampled_from(SHARED), min_size=1, max_size=8))]
        made.append([{**each, "ordinal": first + at} for at, each in enumerate(lines)])
    return [written(*lines) for lines in made]


SHARED = [
    *turn(1)[1:4],
    item(user("said by all")),
    item(answer("heard")),
    line("compacted", {"message": "s", "replacement_history": [user("said by all")]}),
    line("compacted", {"message": "old form"}),
    event("thread_rolled_back", num_turns=1),
    event("thread_rolled_back", num_turns=3),
    meta("01a1e0f0-fc48-7710-b868-000000000009"),
]


def rollout_id(number: int) -> str:
    return f"01a1e0f0-fc48-7710-b868-{number:012}"


async def brought_in_together(contents: list[bytes], order: list[int]) -> None:
    """Import rollouts of one folder, each alone and then all; the store proves itself and nothing is added twice."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"rollout-2026-01-01T00-00-00-{rollout_id(number)}.jsonl" for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        async with Threadkeep(Config(store="memory:")) as tk:
            for number in order:
                await Importer(tk.backend).run([paths[number % len(paths)]])
            report = await Importer(tk.backend).run([Path(folder)])
            assert {problem.code for problem in (await tk.verify()).problems} <= {"orphan_output"}
            again = await Importer(tk.backend).run([Path(folder)])
            assert [thread.added for thread in again.threads] == [0] * len(report.threads)
            assert again.problems == report.problems
            for thread in report.threads:
                await comes_back(tk, thread.id, Path(folder) / "exported.txt")


async def imported(content: bytes, form: str) -> tuple[ImportReport, list[bytes]]:
    """Import a file twice and prove the store; returns the first report and every body that is kept."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutated.jsonl"
        path.write_bytes(content)
        async with Threadkeep(Config(store="memory:")) as tk:
            report = await Importer(tk.backend, form=form).run([path])
            again = await Importer(tk.backend, form=form).run([path])
            assert [thread.added for thread in again.threads] == [0] * len(report.threads)
            # A call whose line was lost leaves its output without one: that is what the source says now.
            assert {problem.code for problem in (await tk.verify()).problems} <= {"orphan_output"}
            kept: list[bytes] = []
            for thread in report.threads:
                handle = await tk.find(thread.id)
                kept.extend(record.body for record in await handle.records())
                if form == Format.CODEX:
                    await comes_back(tk, thread.id, path)
            return report, kept


async def comes_back(tk: Threadkeep, thread_id: str, path: Path) -> None:
    """What is exported and imported again shows the same window."""
    thread = await tk.find(thread_id)
    path.write_bytes(b"".join([part async for part in export_thread(tk.backend, thread, ExportFormat.CODEX)]))
    async with Threadkeep(Config(store="memory:")) as other:
        report = await Importer(other.backend).run([path])
        assert report.problems == ()
        copy = await other.find(report.threads[0].id)
        assert (await copy.history()).items == (await thread.history()).items


def lines_of(content: bytes) -> list[bytes]:
    return [each.removesuffix(b"\r") for each in content.split(b"\n") if each.strip()]


def keeps_what_it_cannot_read(content: bytes, form: str) -> None:
    """Import a file: it makes a thread if it has any line, and every line that is no row is kept as it is."""
    report, kept = asyncio.run(imported(content, form))
    lines = lines_of(content)
    assert all(each in kept for each in lines if parse_row(each) is None)
    assert not lines or report.threads


@settings(max_examples=150)
@given(mutated(ROLLOUT))
def test_a_mutated_rollout_is_imported_as_far_as_it_goes(content: bytes) -> None:
    """Every line is kept: as an item, as a checkpoint, or as a note; each that is no line of a rollout is named."""
    report, kept = asyncio.run(imported(content, Format.CODEX))
    lines = lines_of(content)
    unread = [each for each in lines if parse_row(each) is None]
    assert all(each in kept for each in unread)
    assert len({problem.line for problem in report.problems}) >= len(unread)
    payloads = [
        row["payload"]
        for each in lines
        if (row := parse_row(each)) is not None and row.get("type") == b'"response_item"' and "payload" in row
    ]
    assert all(any(payload in body for body in kept) for payload in payloads)


@settings(max_examples=120)
@given(referring(), st.lists(st.integers(0, 3), max_size=2))
def test_rollouts_that_refer_to_each_other_in_any_way_make_a_sound_store(contents: list[bytes], order: list[int]) -> None:
    """In circles too, and whichever is imported first."""
    asyncio.run(brought_in_together(contents, order))


@settings(max_examples=80)
@given(mutated(CLAUDE))
def test_a_mutated_transcript_of_claude_code_breaks_nothing(content: bytes) -> None:
    """Parents that are gone, rows that come twice, roots in the middle."""
    keeps_what_it_cannot_read(content, Format.CLAUDE_CODE)


@settings(max_examples=80)
@given(mutated(PI))
def test_a_mutated_session_of_pi_breaks_nothing(content: bytes) -> None:
    """Entries whose parent is gone, compactions that keep what is not there."""
    keeps_what_it_cannot_read(content, Format.PI)


@settings(max_examples=60)
@given(st.binary(max_size=400), st.sampled_from(FORMATS))
def test_bytes_that_are_no_transcript_break_nothing(content: bytes, form: str) -> None:
    """Whatever format they are said to be."""
    report, _ = asyncio.run(imported(content, form)) if form != Format.HERMES else (ImportReport(threads=(), problems=()), [])
    assert all(thread.items == 0 or form in DIALECTS for thread in report.threads)


def test_the_rollout_that_is_mutated_has_no_fault_itself() -> None:
    """Otherwise the test above would prove less than it says."""
    report, _ = asyncio.run(imported(b"".join(ROLLOUT), Format.CODEX))
    assert (report.problems, [thread.id for thread in report.threads]) == ((), [THREAD])
