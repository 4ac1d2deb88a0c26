"""From idle threads to memory: what is read, once, by whoever may, and what is left alone."""

from __future__ import annotations

import asyncio

import pytest
from tests.conftest import ManualClock
from tests.memory.conftest import HOUR_MS, say, texts
from tests.postgres import PostgresServer

from threadkeep import Config, Threadkeep
from threadkeep.memory.memory import Memories
from threadkeep.memory.memory_thread import MEMORY_THREAD
from threadkeep.memory.pipeline import MemoryPass
from threadkeep.memory.records import Extraction, FailedExtraction, decode_record
from threadkeep.memory.settings import MemorySettings
from threadkeep.store import Span
from threadkeep.testing.scripted_model import ScriptedModel, says
from threadkeep.threads.lease import LEASE_MS

pytestmark = pytest.mark.anyio

RULES = ("Never push to the main branch.", "All times are in UTC, always.")
KEY = "sk-" + "a1b2" * 8


async def records(tk: Threadkeep) -> list[object]:
    """Return what the memory thread says, oldest first; what was erased says nothing."""
    stored = await tk.backend.store.read(Span(thread_id=MEMORY_THREAD, start=0, stop=10**6))
    return [said for record in stored if (said := decode_record(record.body)) is not None]


async def test_rules_of_idle_threads_are_remembered(tk: Threadkeep, clock: ManualClock) -> None:
    """People's demands become memories with their sources; tools' output, chatter and a thread still in use do not."""
    await say(tk, "one", RULES[0], "The weather was nice with that breeze from the coast.")
    await say(tk, "two", RULES[1], f"Use the key {KEY} for staging only.")
    clock.ms += 6 * HOUR_MS
    await say(tk, "busy", "You must not read me yet.")
    memories = Memories(tk.backend)
    assert await memories.run() == MemoryPass(extracted=2, empty=0, failed=0, memories=3)
    found = (await memories.state()).memories
    assert texts(found) == sorted([*RULES, "Use the key sk-a…[secret, 35 characters] for staging only."])
    assert {source.partition("#")[0] for memory in found for source in memory.sources} == {"one", "two"}
    assert KEY not in str(await records(tk))


async def test_a_thread_read_twice_gives_one_memory(tk: Threadkeep, clock: ManualClock) -> None:
    """Without anything new a pass does nothing; a thread that grew is read again, and what it said before stays one memory."""
    await say(tk, "one", RULES[0])
    await say(tk, "two", RULES[0].upper())
    clock.ms += 7 * HOUR_MS
    memories = Memories(tk.backend)
    await memories.run()
    before = await records(tk)
    assert await memories.run() == MemoryPass(extracted=0, empty=0, failed=0, memories=1)
    assert await records(tk) == before
    await say(tk, "one", RULES[1])
    clock.ms += 7 * HOUR_MS
    assert await memories.run() == MemoryPass(extracted=1, empty=0, failed=0, memories=2)
    sources = {memory.text: len(memory.sources) for memory in (await memories.state()).memories}
    assert sorted(sources.values()) == [1, 2]


async def test_a_ledger_carries_what_was_compacted_away(tk: Threadkeep, clock: ManualClock) -> None:
    """Of a compacted thread the rules it still holds to are remembered, not the value that was taken back."""
    thread = await tk.thread("long")
    await say(tk, "long", "The staging port is 7001.", *(f"Look at part {number} of the parser, please." for number in range(6)))
    await say(tk, "long", "The staging port is 7002, not 7001.", RULES[0])
    await thread.compact(target="1")
    clock.ms += 7 * HOUR_MS
    memories = Memories(tk.backend)
    await memories.run()
    page = await memories.page()
    assert RULES[0] in page
    assert "7002" in page
    assert [line for line in page.splitlines() if "7001" in line and "7002" not in line] == []


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Never deploy on Fridays.", "Forget the rule about Fridays: deploying on Fridays is fine now."),
        ("Always use tabs in Go files.", "From now on use spaces in Go files, not tabs."),
        ("All times are in UTC, always.", "From now on, show all times in CET instead of UTC."),
    ],
)
async def test_rules_of_threads_stand_beside_each_other(tk: Threadkeep, clock: ManualClock, older: str, newer: str) -> None:
    """Whoever reads the memory finds what a person said last, whichever thread it was said in; code takes nothing else away."""
    await say(tk, "one", older)
    await say(tk, "two", older, RULES[0])
    clock.ms += HOUR_MS
    await say(tk, "three", newer)
    clock.ms += 7 * HOUR_MS
    memories = Memories(tk.backend)
    await memories.run()
    assert texts((await memories.state()).memories) == sorted([older, newer, RULES[0]])


async def test_a_rule_beside_another_stays(tk: Threadkeep, clock: ManualClock) -> None:
    """What another thread demands as well takes nothing back."""
    await say(tk, "one", "Never push to the main branch.", "Only Ana may release.")
    clock.ms += HOUR_MS
    await say(tk, "two", "Never push to the release branch.", "Ben may read the logs.")
    clock.ms += 7 * HOUR_MS
    memories = Memories(tk.backend)
    await memories.run()
    assert len((await memories.state()).memories) == 4


async def test_nothing_to_remember_is_a_fair_answer(tk: Threadkeep, clock: ManualClock) -> None:
    """A thread of small talk is read once, remembered for having been read, and leaves no memory."""
    await say(tk, "talk", "The weather was nice with that breeze from the coast.")
    clock.ms += 7 * HOUR_MS
    memories = Memories(tk.backend)
    assert await memories.run() == MemoryPass(extracted=0, empty=1, failed=0, memories=0)
    assert await memories.run() == MemoryPass(extracted=0, empty=0, failed=0, memories=0)


async def test_a_lease_is_honoured_and_taken_over(tk: Threadkeep, clock: ManualClock) -> None:
    """What another worker holds is left to it; when that worker is gone for as long as its lease, somebody else does it."""
    await say(tk, "one", RULES[0])
    clock.ms += 7 * HOUR_MS
    store = tk.backend.store
    assert await store.acquire("memory:extract:one", holder="gone", now_ms=clock.now_ms(), ttl_ms=LEASE_MS)
    memories = Memories(tk.backend)
    assert await memories.run() == MemoryPass(extracted=0, empty=0, failed=0, memories=0)
    clock.ms += LEASE_MS
    assert await memories.run() == MemoryPass(extracted=1, empty=0, failed=0, memories=1)


async def test_workers_on_many_connections_share_the_work(postgres_server: PostgresServer, clock: ManualClock) -> None:
    """Three workers, each with its own connections to one database: every thread is read once, the memory is one worker's."""
    url = await postgres_server.new_store()
    wanted = [f"Rule {number} is that you must never touch table {number}." for number in range(6)]
    async with (
        Threadkeep(Config(store=url), clock=clock) as one,
        Threadkeep(Config(store=url), clock=clock) as two,
        Threadkeep(Config(store=url), clock=clock) as three,
    ):
        for number, rule in enumerate(wanted):
            await say(one, f"thread-{number}", rule)
        clock.ms += 7 * HOUR_MS
        done = await asyncio.gather(*(Memories(tk.backend).run() for tk in (one, two, three)))
        await Memories(two.backend).run()
        state = await Memories(three.backend).state()
        read = [record.thread for record in await records(one) if isinstance(record, Extraction)]
        assert (await one.verify()).problems == ()
    assert sum(each.extracted for each in done) == 6
    assert sorted(read) == [f"thread-{number}" for number in range(6)]
    assert texts(state.memories) == sorted(wanted)


async def test_tenants_share_no_memory(tk: Threadkeep, clock: ManualClock) -> None:
    """What one tenant's threads say is remembered for that tenant alone."""
    other = await tk.for_tenant("other")
    await say(tk, "one", RULES[0])
    await say(other, "one", RULES[1])
    clock.ms += 7 * HOUR_MS
    for each in (tk, other):
        await Memories(each.backend).run()
    assert texts((await Memories(tk.backend).state()).memories) == [RULES[0]]
    assert texts((await Memories(other.backend).state()).memories) == [RULES[1]]


ANSWER = (
    '{"memories": [{"text": "Pushing to main is forbidden.", "kind": "rule", "source": 0},'
    ' {"text": "Made up.", "kind": "rule", "source": 99}]}'
)


async def test_a_model_chooses_and_code_checks(tk: Threadkeep, clock: ManualClock) -> None:
    """A configured model is shown numbered statements; what it says rests on one of them, or is dropped."""
    await say(tk, "one", RULES[0], RULES[1])
    clock.ms += 7 * HOUR_MS
    async with ScriptedModel([says(ANSWER)], dialect="responses") as model:
        memories = Memories(tk.backend, MemorySettings(model=model))
        assert await memories.run() == MemoryPass(extracted=1, empty=0, failed=0, memories=1)
    assert texts((await memories.state()).memories) == ["Pushing to main is forbidden."]
    assert f"0 [user] {RULES[0]}" in str(model.bodies[0])


async def test_a_model_that_answers_otherwise_is_asked_again_and_then_done_without(tk: Threadkeep, clock: ManualClock) -> None:
    """An answer of another form is no memory: the thread is put off, tried again, and at last read by code alone."""
    await say(tk, "one", RULES[0])
    clock.ms += 7 * HOUR_MS
    wrong = [says("I remember everything!"), says('{"memories": [{"text": "x", "kind": "rule", "source": 0, "extra": 1}]}')]
    async with ScriptedModel([*wrong, says("no")], dialect="responses") as model:
        memories = Memories(tk.backend, MemorySettings(model=model, attempts=2))
        assert (await memories.run()).failed == 1
        assert await memories.run() == MemoryPass(extracted=0, empty=0, failed=0, memories=0)
        clock.ms += HOUR_MS
        assert (await memories.run()).failed == 1
        clock.ms += 2 * HOUR_MS
        assert await memories.run() == MemoryPass(extracted=1, empty=0, failed=0, memories=1)
    said = await records(tk)
    assert [(each.attempt, each.error) for each in said if isinstance(each, FailedExtraction)] == [
        (1, "model_rejected"),
        (2, "model_rejected"),
    ]
    assert [each.fell_back_from for each in said if isinstance(each, Extraction)] == ["model_rejected"]
    assert texts((await memories.state()).memories) == [RULES[0]]
