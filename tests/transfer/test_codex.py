"""Codex rollouts: what Codex would send again is the window, and no line is lost."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
import zstandard
from tests.transfer.rollouts import (
    FORK,
    STAMP_MS,
    THREAD,
    answer,
    bodies,
    bring_in,
    call,
    event,
    item,
    kinds,
    line,
    meta,
    output,
    put,
    spoken,
    texts,
    turn,
    user,
    window,
    written,
)

from threadkeep import Threadkeep
from threadkeep.errors import BadInput
from threadkeep.store import RecordKind
from threadkeep.threads import Checkpoint, KeepEntry, LiteralEntry, RollbackBody, decode_body

pytestmark = pytest.mark.anyio

CONTEXT = user("<environment_context>\n  <cwd>/project</cwd>\n</environment_context>")
WORLD = [
    line("world_state", {"full": True, "state": {"cwd": "/project"}}),
    line("turn_context", {"cwd": "/project", "model": "m"}),
]


async def test_items_keep_their_bytes_and_every_other_line_is_a_note(tk: Threadkeep, tmp_path: Path) -> None:
    """An item is its payload as it was written; metas, contexts, world states and events are notes with the whole line."""
    odd = '{"type": "message","role":"assistant",  "content":[{"type":"output_text","text":"caf\\u00e9 \\ud83d"}]}'
    raw = f'{{"timestamp":"2026-01-02T03:04:05.678Z","type":"response_item","payload":{odd}}}'
    rollout = put(tmp_path / "r.jsonl", meta(), *WORLD, *turn(1), raw)
    report = await bring_in(tk, rollout)
    assert [(thread.id, thread.dialect, thread.items, thread.records, thread.added) for thread in report.threads] == [
        (THREAD, "responses", 5, 13, 12)
    ]
    assert report.problems == ()
    assert await bodies(tk, THREAD, RecordKind.ITEM) == [json.dumps(each).encode() for each in spoken(1)] + [odd.encode()]
    others = [each for each in (meta(), *WORLD, *turn(1)) if each["type"] != "response_item"]
    assert await bodies(tk, THREAD, RecordKind.NOTE) == [json.dumps(each).encode() for each in others]
    records = await (await tk.find(THREAD)).records()
    assert {record.at_ms for record in records[1:]} == {STAMP_MS}
    assert [record.turn for record in records if record.kind is RecordKind.TURN] == [1]
    assert (await tk.verify()).ok


async def test_a_rollback_takes_back_turns_and_the_context_right_before_them(tk: Threadkeep, tmp_path: Path) -> None:
    """Two turns are taken back, with what the host said before the older of them; their records stay readable."""
    rollout = put(
        tmp_path / "r.jsonl",
        meta(),
        item(CONTEXT),
        *turn(1),
        item(CONTEXT),
        *WORLD,
        *turn(2),
        *turn(3),
        event("thread_rolled_back", num_turns=2),
        *turn(4),
    )
    await bring_in(tk, rollout)
    assert await window(tk, THREAD) == [CONTEXT, *spoken(1), *spoken(4)]
    assert [decode_body(body, RollbackBody).turns for body in await bodies(tk, THREAD, RecordKind.ROLLBACK)] == [2]
    assert len(await bodies(tk, THREAD, RecordKind.ITEM)) == 18
    assert (await tk.verify()).ok


async def test_more_turns_than_there_are_leave_what_came_before_the_first(tk: Threadkeep, tmp_path: Path) -> None:
    """A rollback of everything keeps the opening context, as Codex does; one with nothing to take back is said."""
    rollback = event("thread_rolled_back", num_turns=9)
    await bring_in(tk, put(tmp_path / "r.jsonl", meta(), item(CONTEXT), *turn(1), *turn(2), rollback))
    assert await window(tk, THREAD) == [CONTEXT]
    report = await bring_in(tk, put(tmp_path / "other.jsonl", meta(FORK), rollback))
    assert [problem.text for problem in report.problems] == ["a rollback of 9 turns, but there is no turn before it"]


async def test_a_compaction_is_a_checkpoint_whose_window_is_its_replacement(tk: Threadkeep, tmp_path: Path) -> None:
    """What repeats a record points at it, what repeats a person's words names their record, the rest is held by itself."""
    again = {**user("question 1"), "id": "msg_new"}
    summary = user("Another language model started to solve this problem and produced a summary: all well")
    compacted = line(
        "compacted",
        {"message": "all well", "replacement_history": [CONTEXT, again, summary], "window_number": 1, "ghost": 2},
    )
    await bring_in(tk, put(tmp_path / "r.jsonl", meta(), item(CONTEXT), *turn(1), compacted, *turn(2)))
    assert await window(tk, THREAD) == [CONTEXT, again, summary, *spoken(2)]
    checkpoint = decode_body((await bodies(tk, THREAD, RecordKind.CHECKPOINT))[0], Checkpoint)
    records = await (await tk.find(THREAD)).records()
    ordinal = next(record.ordinal for record in records if record.kind is RecordKind.CHECKPOINT)
    asked = next(record.ordinal for record in records if record.body == json.dumps(user("question 1")).encode())
    first, second, third = checkpoint.layout
    assert (checkpoint.strategy, checkpoint.cut, checkpoint.covers) == ("imported", ordinal, 5)
    assert first == KeepEntry(thread=THREAD, ordinal=2, depth=1)
    assert isinstance(second, LiteralEntry)
    assert (second.issuer, second.thread, second.ordinal) == ("codex", THREAD, asked)
    assert isinstance(third, LiteralEntry)
    assert (third.issuer, third.thread, third.ordinal) == ("codex", None, None)
    rest = line("compacted", {"message": "all well", "window_number": 1, "ghost": 2})
    assert json.loads(records[ordinal - 1].body) == rest
    assert (await tk.verify()).ok


async def test_a_compaction_without_replacement_keeps_what_people_said(tk: Threadkeep, tmp_path: Path) -> None:
    """Rollouts of the oldest form hold a summary alone: the window is people's messages and the summary, as Codex rebuilds it."""
    text = "Another language model started to solve this problem and produced a summary\nall well"
    compacted = line("compacted", {"message": text})
    await bring_in(tk, put(tmp_path / "r.jsonl", meta(), item(CONTEXT), *turn(1), *turn(2), compacted, *turn(3), compacted))
    said = [user("question 1"), user("question 2"), user("question 3")]
    assert await window(tk, THREAD) == [*said, user(text)]
    assert (await tk.verify()).ok


async def test_what_people_said_is_kept_under_codex_budget(tk: Threadkeep, tmp_path: Path) -> None:
    """Newest first within 20,000 tokens: whole messages, none that is older than one without room."""
    lines = [item(user("first")), item(user("x" * 120_000)), item(user("last")), line("compacted", {"message": ""})]
    await bring_in(tk, put(tmp_path / "r.jsonl", meta(), *lines))
    assert await window(tk, THREAD) == [user("last"), user("(no summary available)")]
    assert (await tk.verify()).ok


async def test_a_thread_codex_compacted_can_be_compacted_here(tk: Threadkeep, tmp_path: Path) -> None:
    """What Codex kept of people's words, whole or shortened, is in the new state with its source; its summary stays in view."""
    summary = user("Another language model started to solve this problem and produced a summary\nall well")
    shortened = user("Never touch vendor/. …400 tokens truncated… Staging listens on 7443.")
    again = {**user("question 1"), "id": "msg_new"}
    compacted = line("compacted", {"message": "", "replacement_history": [again, shortened, summary]})
    later = [each for number in range(2, 30) for each in turn(number)]
    await bring_in(tk, put(tmp_path / "r.jsonl", meta(), *turn(1), compacted, *later))
    thread = await tk.find(THREAD)
    report = await thread.compact(target="30%")
    state = "\n".join(texts(await window(tk, THREAD)))
    records = await thread.records()
    checkpoint = next(record.ordinal for record in records if record.kind is RecordKind.CHECKPOINT)
    asked = next(record.ordinal for record in records if record.body == json.dumps(user("question 1")).encode())
    assert report.tokens_after < report.tokens_before
    assert summary in await window(tk, THREAD)
    assert f"question 1 (#{asked})" in state
    assert f"Never touch vendor/. …400 tokens truncated… Staging listens on 7443. (#{checkpoint})" in state
    assert (await tk.verify()).ok


async def test_a_rollback_behind_a_compaction_brings_the_history_before_it_back(tk: Threadkeep, tmp_path: Path) -> None:
    """A compaction inside a turn that is taken back no longer counts: every turn before it is seen again."""
    compacted = line("compacted", {"message": "s", "replacement_history": [user("s")]})
    third = turn(3)
    lines = [meta(), *turn(1), *turn(2), *third[:3], compacted, *third[3:], event("thread_rolled_back", num_turns=1), *turn(4)]
    await bring_in(tk, put(tmp_path / "r.jsonl", *lines))
    assert await window(tk, THREAD) == [*spoken(1), *spoken(2), *spoken(4)]
    assert (await tk.verify()).ok


async def test_mail_between_agents_is_history_and_counts_as_a_turn(tk: Threadkeep, tmp_path: Path) -> None:
    """The newer form is an item already; the legacy line becomes the item Codex makes of it; both begin a turn for a rollback."""
    mail = {
        "type": "agent_message",
        "author": "/agents/worker",
        "recipient": "/agents",
        "content": [{"type": "input_text", "text": "a"}],
    }
    legacy = line("inter_agent_communication", {"author": "/agents/worker", "recipient": "/agents", "content": "b"})
    made = {**mail, "content": [{"type": "input_text", "text": "b"}]}
    lines = [meta(), *turn(1), line("inter_agent_communication_metadata", {"trigger_turn": True}), item(mail), legacy]
    await bring_in(tk, put(tmp_path / "r.jsonl", *lines))
    assert await window(tk, THREAD) == [*spoken(1), mail, made]
    await bring_in(tk, put(tmp_path / "r.jsonl", *lines, event("thread_rolled_back", num_turns=1)))
    assert await window(tk, THREAD) == [*spoken(1), mail]


async def test_damage_costs_the_damaged_lines_alone(tk: Threadkeep, tmp_path: Path) -> None:
    """Garbage, a torn tail, unknown lines and payloads of the wrong shape are kept as notes, and each is named."""
    damaged = [
        "not json at all",
        json.dumps(line("brand_new", {"a": 1})),
        json.dumps(line("response_item", "a string")),
        json.dumps(line("response_item", {"no": "type"})),
        json.dumps(event("thread_rolled_back", num_turns="many")),
        json.dumps([1, 2]),
    ]
    rollout = put(tmp_path / "r.jsonl", meta(), *turn(1), *damaged, "", *turn(2))
    torn = written(item(answer("cut")))[:-30]
    rollout.write_bytes(rollout.read_bytes() + torn)
    report = await bring_in(tk, rollout)
    assert await window(tk, THREAD) == [*spoken(1), *spoken(2)]
    kept = await bodies(tk, THREAD, RecordKind.NOTE)
    assert all(each.encode() in kept for each in damaged)
    assert torn in kept
    assert [(problem.line, problem.text) for problem in report.problems] == [
        (9, "not a JSON object"),
        (10, "a line of an unknown type: 'brand_new'"),
        (11, "a response_item without a readable payload"),
        (12, "a response_item without a type"),
        (13, "a rollback that does not say how far"),
        (14, "not a JSON object"),
        (23, "not a JSON object"),
    ]
    assert (await tk.verify()).ok


async def test_a_damaged_session_meta_costs_no_history(tk: Threadkeep, tmp_path: Path) -> None:
    """The thread is named by the damaged line; Codex itself refuses such a rollout."""
    rollout = put(tmp_path / "r.jsonl", "{}garbage", *turn(1))
    report = await bring_in(tk, rollout)
    assert [(thread.id[:6], thread.items) for thread in report.threads] == [("codex-", 4)]
    nameless = "it does not begin with a session_meta that names its thread"
    assert [problem.text for problem in report.problems] == [nameless, "not a JSON object"]
    assert (await tk.verify()).ok


async def test_a_packed_rollout_reads_as_the_plain_one(tk: Threadkeep, tmp_path: Path) -> None:
    """zstd makes no difference, nor does which of the two was imported first; a plain file beside it is taken in its place."""
    packed = tmp_path / "sessions" / "r.jsonl.zst"
    packed.parent.mkdir()
    packed.write_bytes(zstandard.ZstdCompressor().compress(written(meta(), *turn(1))))
    assert [thread.added > 0 for thread in (await bring_in(tk, packed)).threads] == [True]
    put(tmp_path / "sessions" / "r.jsonl", meta(), *turn(1), *turn(2))
    report = await bring_in(tk, tmp_path / "sessions")
    assert [Path(thread.source).name for thread in report.threads] == ["r.jsonl"]
    assert await window(tk, THREAD) == [*spoken(1), *spoken(2)]


async def test_a_packed_rollout_that_breaks_off_gives_what_it_has(tk: Threadkeep, tmp_path: Path) -> None:
    """Damage in the middle is said, and costs what lies behind it; a file that is damage throughout is refused."""
    noise = Random(1)
    filler = [event("noise", text=f"{noise.getrandbits(400_000):x}") for _ in range(20)]
    whole = bytearray(zstandard.ZstdCompressor().compress(written(meta(), *turn(1), *filler, *turn(2))))
    whole[-20_000:-10_000] = bytes(10_000)
    packed = tmp_path / "r.jsonl.zst"
    packed.write_bytes(whole)
    report = await bring_in(tk, packed)
    assert await window(tk, THREAD) == spoken(1)
    assert "cannot be read further" in report.problems[-1].text
    packed.write_bytes(whole[:4] + bytes(400))
    with pytest.raises(BadInput):
        await bring_in(tk, packed)


async def test_what_a_line_says_beside_its_item_is_kept(tk: Threadkeep, tmp_path: Path) -> None:
    """Harness metadata has no place in the item; it stands in a note right after it, without the item again."""
    noted = item(answer("done"), metadata={"client_authored": True})
    await bring_in(tk, put(tmp_path / "r.jsonl", meta(), noted))
    notes = [json.loads(body) for body in await bodies(tk, THREAD, RecordKind.NOTE)]
    assert notes == [meta(), {"timestamp": noted["timestamp"], "type": "response_item", "metadata": {"client_authored": True}}]


async def test_system_messages_and_snapshots_are_no_history(tk: Threadkeep, tmp_path: Path) -> None:
    """Codex stores neither in its history, here or inside a compaction."""
    system = item({"type": "message", "role": "system", "content": []})
    ghost = {"type": "ghost_snapshot", "ghost_commit": {}}
    compacted = line("compacted", {"message": "", "replacement_history": [ghost, user("kept")]})
    await bring_in(tk, put(tmp_path / "r.jsonl", meta(), system, item(ghost), compacted, item(call("c")), item(output("c"))))
    assert texts(await window(tk, THREAD)) == ["kept", "c", "ok"]
    assert "item" in await kinds(tk, THREAD)
