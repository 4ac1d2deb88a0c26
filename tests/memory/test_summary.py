"""Memory read, cited, edited and forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.memory.conftest import HOUR_MS, say, texts

from threadkeep import Threadkeep
from threadkeep.cli import main
from threadkeep.errors import BadInput
from threadkeep.memory.memory import Memories
from threadkeep.memory.memory_thread import MEMORY_THREAD
from threadkeep.memory.records import find_citations
from threadkeep.memory.settings import DAY_MS, MemorySettings
from threadkeep.store import Span
from threadkeep.tokens import estimate_text

pytestmark = pytest.mark.anyio

RULES = [
    f"Rule {number}: you must never rename the {name} table." for number, name in enumerate(("lot", "bin", "crate", "shelf"))
]


async def remembered(tk: Threadkeep, clock: ManualClock, memories: int = 256, unused_ms: int = 30 * DAY_MS) -> Memories:
    for number, rule in enumerate(RULES):
        await say(tk, f"thread-{number}", rule)
    clock.ms += 7 * HOUR_MS
    memory = Memories(tk.backend, MemorySettings(memories=memories, unused_ms=unused_ms))
    await memory.run()
    assert texts((await memory.state()).memories) == RULES
    return memory


async def stored_bytes(tk: Threadkeep) -> bytes:
    records = await tk.backend.store.read(Span(thread_id=MEMORY_THREAD, start=0, stop=10**6))
    return b"\n".join(record.body for record in records)


@pytest.mark.parametrize("tokens", [0, 40, 80, 100, 5_000])
async def test_a_summary_keeps_its_cap(tk: Threadkeep, clock: ManualClock, tokens: int) -> None:
    """However much is remembered, what a model is shown never costs more than it may; what is left out is counted."""
    await remembered(tk, clock)
    told = await Memories(tk.backend, MemorySettings(summary_tokens=tokens)).summary()
    shown = sum(rule in told for rule in RULES)
    assert estimate_text(told) <= tokens
    assert told == "" if shown == 0 else (f"({4 - shown} more: search the memory)" in told) == (shown < 4)


async def test_what_is_cited_comes_first_and_stays(tk: Threadkeep, clock: ManualClock) -> None:
    """A memory that is of use outranks the others and outlives them; those nobody used for long retire."""
    memories = await remembered(tk, clock, unused_ms=30 * DAY_MS)
    (used,) = await memories.search("may I rename the crate table?", limit=1)
    assert used.text == RULES[2]
    answer = f"No: the rule says so [memory:{used.id}]. [memory: {used.id}, m0000000000]"
    assert find_citations(answer) == [used.id, "m0000000000"]
    clock.ms += 20 * DAY_MS
    await memories.cite(find_citations(answer))
    assert (await memories.state()).memories[0].text == RULES[2]
    clock.ms += 20 * DAY_MS
    await memories.run()
    assert texts((await memories.state()).memories) == [RULES[2]]
    assert (await memories.read(used.id)) == (await memories.state()).memories[0]


async def test_only_the_most_useful_are_kept(tk: Threadkeep, clock: ManualClock) -> None:
    """Over the bound the least useful go, and one in use is not among them."""
    memories = await remembered(tk, clock)
    (used,) = await memories.search("crate", limit=1)
    await memories.cite([used.id])
    await say(tk, "later", "You must never rename the pallet table.")
    clock.ms += 7 * HOUR_MS
    smaller = Memories(tk.backend, MemorySettings(memories=2))
    await smaller.run()
    assert texts((await smaller.state()).memories) == [RULES[2], "You must never rename the pallet table."]


async def test_a_page_can_be_edited(tk: Threadkeep, clock: ManualClock) -> None:
    """An unchanged page changes nothing; a changed line stays as written, a deleted one does not come back, a new one is kept."""
    memories = await remembered(tk, clock)
    page = await memories.page()
    assert (await memories.edit(page)).memories == (await memories.state()).memories
    lines = [line for line in page.splitlines() if "bin table" not in line]
    lines = [line.replace("never rename the lot table", "not rename the lot table on Fridays") for line in lines]
    await memories.edit("\n".join([*lines, "- Ask Ana before a release."]))
    for number, rule in enumerate(RULES):
        await say(tk, f"thread-{number}", rule)
    clock.ms += 7 * HOUR_MS
    await memories.run()
    changed = "Rule 0: you must not rename the lot table on Fridays."
    assert texts((await memories.state()).memories) == sorted([changed, RULES[2], RULES[3], "Ask Ana before a release."])
    assert b"bin table" not in (await stored_bytes(tk)).rpartition(b'"snapshot"')[2]


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("", "this is no page of a memory"),
        ("garbage\n- \n", "this is no page of a memory"),
        ("# Memory\n- stands nowhere", "line 2 stands under none of"),
        ("## Rules\n- x ^m0123456789", "line 2 names m0123456789"),
        ("## Rules\n- " + "x" * 500, "line 2 is longer than 400"),
    ],
)
async def test_a_page_that_cannot_be_read_changes_nothing(tk: Threadkeep, clock: ManualClock, page: str, problem: str) -> None:
    """What is wrong is said with its line, and everything stays as it was."""
    memories = await remembered(tk, clock)
    with pytest.raises(BadInput, match=problem):
        await memories.edit(page)
    assert texts((await memories.state()).memories) == RULES


async def test_a_forgotten_thread_leaves_nothing(tk: Threadkeep, clock: ManualClock) -> None:
    """What only it said is in no record of the memory any more, and it is not read again; what others said too stays."""
    await say(tk, "other", RULES[1])
    memories = await remembered(tk, clock)
    await memories.forget(["thread-0", "thread-1"])
    await say(tk, "thread-0", RULES[0])
    clock.ms += 7 * HOUR_MS
    await memories.run()
    assert texts((await memories.state()).memories) == RULES[1:]
    assert RULES[0].encode() not in await stored_bytes(tk)


async def test_a_reset_begins_anew(tk: Threadkeep, clock: ManualClock) -> None:
    """Nothing remembered can be read any more; the next pass reads every thread again."""
    memories = await remembered(tk, clock)
    await memories.reset()
    await memories.reset()
    assert (await memories.state()).memories == []
    assert b"table" not in await stored_bytes(tk)
    assert (await memories.run()).extracted == 4
    assert texts((await memories.state()).memories) == RULES


def test_the_command_runs_shows_and_edits(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`threadkeep memory` from end to end, without a model or a network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THREADKEEP_STORE", str(tmp_path / "s.db"))
    monkeypatch.setenv("THREADKEEP_MEMORY_IDLE_MINUTES", "0")
    talk = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": RULES[0]}]}]
    Path("talk.json").write_text(json.dumps(talk), encoding="utf-8")
    assert main(["import", "talk.json", "--format", "responses"]) == 0
    assert json.loads(_out(capfd, "memory", "run", "--json"))["memories"] == 1
    page = _out(capfd, "memory", "show")
    assert RULES[0] in page
    Path("page.md").write_text(page, encoding="utf-8")
    assert json.loads(_out(capfd, "memory", "edit", "--file", "page.md", "--json")) == {"memories": 1}
    assert json.loads(_out(capfd, "memory", "show", "lot", "table", "--json"))["memories"][0]["text"] == RULES[0]
    Path("page.md").write_text("## Rules\n- Keep this.\n", encoding="utf-8")
    assert json.loads(_out(capfd, "memory", "edit", "--file", "page.md", "--json")) == {"memories": 1}
    assert "Keep this." in _out(capfd, "memory", "show")
    assert json.loads(_out(capfd, "memory", "reset", "--json")) == {"memories": 0}


def _out(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    capfd.readouterr()
    assert main(list(arguments)) == 0
    return capfd.readouterr().out
