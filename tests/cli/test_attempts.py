"""What asking models for compactions cost, as the command line tells it, whether anything came of them or not."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.cli.stories import Cli, grown, stored
from tests.drafting.replies import SUMMARY
from tests.drafting.test_paid_in_vain import HANDOFF
from tests.histories import said

from threadkeep import Thread, Threadkeep
from threadkeep.cli.compact import format_bill
from threadkeep.cli.output import print_error
from threadkeep.errors import NothingToCompact
from threadkeep.testing.scripted_model import ScriptedModel, Step, refuses, says
from threadkeep.threads import Attempt, AttemptCost
from threadkeep.viewer.record_lines import describe_bill

ROOM = 200_000
HUGE = "Review this text: " + "lorem ipsum dolor " * 4_000
REFUSAL = replace(
    refuses(), reply=replace(refuses().reply, input_tokens=50_000, output_tokens=9, cached_tokens=48_000, cost_usd=0.1)
)
PAID = msgspec.structs.replace(HANDOFF, took_ms=2_100)
UNAIDED = Attempt(strategy="extractive", outcome="nothing_to_compact", took_ms=12_500)


async def ask(thread: Thread, *steps: Step) -> None:
    async with ScriptedModel(list(steps), dialect=thread.dialect.name, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)


def fell_back(name: str) -> Callable[[Threadkeep], Coroutine[None, None, None]]:
    async def story(tk: Threadkeep) -> None:
        await ask(await grown(tk, name), REFUSAL)

    return story


async def in_vain(tk: Threadkeep) -> None:
    thread = await grown(tk, "huge", turns=1)
    await thread.record([said(HUGE)])
    paid = says(SUMMARY, input_tokens=50_000, output_tokens=900, cached_tokens=40_000, cost_usd=0.2)
    with pytest.raises(NothingToCompact):
        await ask(thread, paid)


def row_of(name: str, lines: list[str]) -> list[str]:
    (row,) = [line.split() for line in lines if line.split()[:1] == [name]]
    return row


def without_time(row: list[str]) -> list[str]:
    """Return a row without how long it took, which is not the same twice."""
    return row[:-2]


def test_an_overview_names_what_models_were_asked_and_what_it_cost(home: Path, cli: Cli) -> None:
    """What it fell back from, what the cache held, dollars; and the same of what came to nothing."""
    path = stored(stored(home / "paid.db", fell_back("fell")), in_vain)
    fell = cli("show", "fell", "--store", path).out.splitlines()
    at = fell.index("Models asked to compact  cost and outcome")
    assert fell[at + 1].split() == ["record", "tried", "outcome", "calls", "in", "cached", "out", "cost", "took"]
    assert without_time(fell[at + 2].split()) == [
        "#21",
        "handoff,",
        "extractive",
        "checkpoint",
        "1",
        "50,000",
        "48,000",
        "9",
        "$0.1000",
    ]
    assert row_of("#21", fell[:at])[:5] == ["#21", "4", "extractive", "after", "handoff"]
    vain = cli("show", "huge", "--store", path).out.splitlines()
    told = ["#8", "handoff,", "extractive", "nothing_to_compact", "1", "50,000", "40,000", "900", "$0.2000"]
    assert without_time(row_of("#8", vain)) == told


def test_a_thread_that_asked_nobody_says_nothing_of_models(on_store: Cli) -> None:
    """Neither before a compaction nor after one without a model."""
    assert "Models asked" not in on_store("show", "ship-it").out
    on_store("compact", "ship-it")
    assert "Models asked" not in on_store("show", "ship-it").out


def test_records_name_a_compaction_that_came_to_nothing(home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """For people by what it cost; for machines as the record that it is."""
    monkeypatch.setenv("COLUMNS", "300")
    path = stored(home / "vain.db", in_vain)
    (line,) = [line for line in cli("show", "huge", "--records", "--store", path).out.splitlines() if "not compacted" in line]
    assert "nothing_to_compact: 1 call, $0.2000, 50,000 tokens in, 40,000 of them from the cache, 900 out, " in line
    assert line.endswith("; tried handoff (nothing_to_compact), then extractive (nothing_to_compact)")
    record = cli("show", "huge", "--records", "--json", "--store", path).json["records"][-1]
    assert (record["ordinal"], record["kind"], record["body"]["outcome"]) == (8, "reply", "nothing_to_compact")
    assert [attempt["strategy"] for attempt in record["body"]["attempts"]] == ["handoff", "extractive"]


def test_a_failure_says_what_was_tried_and_what_it_cost(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each strategy, for people; the same figures in the JSON, for machines."""
    error = NothingToCompact("t", reason="it is small")
    error.attempts = (PAID, UNAIDED)
    print_error(error, as_json=False)
    assert capsys.readouterr().err.splitlines() == [
        "threadkeep: thread 't' has nothing to compact: it is small",
        "  tried handoff with scripted:model: nothing_to_compact; 1 call, $0.2000, 50,000 tokens in, "
        "40,000 of them from the cache, 900 out, 2,100 ms",
        "  tried extractive: nothing_to_compact; no model asked, 12.5 s",
    ]
    print_error(error, as_json=True)
    sentence, told = capsys.readouterr().err.splitlines()
    assert msgspec.json.decode(told) == {
        "error": "nothing_to_compact",
        "message": "thread 't' has nothing to compact: it is small",
        "attempts": msgspec.to_builtins([PAID, UNAIDED]),
    }
    assert sentence.startswith("threadkeep: ")


def test_what_nobody_told_is_said_to_be_unknown() -> None:
    """A dash in a table, words in a sentence; where nobody was asked, an empty cell."""
    untold = AttemptCost(calls=2, input_tokens=None, output_tokens=None, cached_tokens=None, cost_micro_usd=None, took_ms=5)
    free = AttemptCost(calls=1, input_tokens=7, output_tokens=1, cached_tokens=0, cost_micro_usd=0, took_ms=5)
    nobody = replace(untold, calls=0)
    assert [describe_bill(bill) for bill in (untold, free, nobody)] == [
        "2 calls, cost unknown, tokens unknown, 5 ms",
        "1 call, $0.0000, 7 tokens in, 0 of them from the cache, 1 out, 5 ms",
        "no model asked, 5 ms",
    ]
    cells = [[cell if isinstance(cell, str) else cell[0] for cell in format_bill(bill)] for bill in (untold, free, nobody)]
    assert cells == [["2", "–", "–", "–", "–", "5 ms"], ["1", "7", "0", "1", "$0.0000", "5 ms"], ["", "", "", "", "", "5 ms"]]
