"""Runs over the cases: prepared once, forked for every question, resumable, and the same every time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from benchmarks.cases.aggregates import build_tables, compute_aggregates, list_facts
from benchmarks.cases.lab import lab_store, make_scripted_model
from benchmarks.cases.manifest import Manifest, load_manifest
from benchmarks.cases.probes import Probe
from benchmarks.cases.readers import Answered, LiteralReader
from benchmarks.cases.run import CHAIN, PROGRESS, CasesRun, Terms, run_cases, stretches
from benchmarks.retention.wire_items import Json
from threadkeep import Threadkeep, __version__
from threadkeep.errors import BadInput, ModelUnavailable

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
TERMS = Terms(chain=True, variants=CHAIN, asked_at=(1, 5))

FAITHFUL = make_scripted_model("faithful", seed=1)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return load_manifest().only(["ferry"])


def unheard(text: str) -> None:
    """Where nobody listens."""


@pytest.fixture(scope="module")
async def chain(anyio_backend: str, manifest: Manifest, tmp_path_factory: pytest.TempPathFactory) -> tuple[CasesRun, Path]:
    lab = tmp_path_factory.mktemp("lab")
    summariser = make_scripted_model("faithful", seed=1)
    run = await run_cases(manifest, TERMS, reader=LiteralReader(), summariser=summariser, say=unheard, lab=lab)
    return run, lab


def scored(run: CasesRun) -> list[tuple[object, ...]]:
    return [(each.variant, each.hop, each.case, each.reply, each.score) for each in run.answered]


async def test_every_cell_is_there_and_the_control_knows_more_than_nothing(chain: tuple[CasesRun, Path]) -> None:
    """Every variant is asked the same cases after the same hops; no history scores below all of it."""
    told = compute_aggregates(chain[0])
    asked = {variant: {hop: cell["asked"] for hop, cell in found["hops"].items()} for variant, found in told["variants"].items()}
    assert asked == {name: {1: 5, 5: 11} for name in ("chain_control", "session", "handoff", "extractive", "none")}
    right = {variant: found["hops"][5]["exact"] for variant, found in told["variants"].items()}
    assert right["none"] < min(right["session"], right["extractive"]) <= right["chain_control"]
    assert told["baseline"] == "chain_control"


async def test_windows_of_what_is_compacted_shrink_and_the_controls_does_not(chain: tuple[CasesRun, Path]) -> None:
    """Five compactions a variant, none refused, odd ones between turns and even ones in one."""
    made = [each for each in chain[0].prepared if each.variant in ("session", "handoff", "extractive")]
    assert [(each.took, each.refused) for each in made if each.took != each.variant] == []
    assert all((each.tokens_after or 0) < (each.tokens_before or 0) for each in made)
    assert [each.phase for each in made if each.variant == "session"] == ["between turns", "in a turn"] * 2 + ["between turns"]
    control = [each.window_tokens for each in chain[0].prepared if each.variant == "chain_control"]
    assert control == sorted(control)


async def test_a_question_leaves_the_thread_it_is_asked_of_as_it_was(chain: tuple[CasesRun, Path]) -> None:
    """Probes live in forks: the prepared thread has no question in it, and one fork a question."""
    run, lab = chain
    async with lab_store(lab, window_tokens=TERMS.window_tokens) as tk:
        ready = next(each for each in run.prepared if (each.variant, each.hop) == ("session", 5))
        window = await (await tk.find(ready.thread)).window()
        assert window.tokens == ready.window_tokens
        assert "A question about this session." not in str(list(window))
        assert await forks_of(tk, ready.thread) == 11


async def forks_of(tk: Threadkeep, parent: str) -> int:
    return sum(each.parent == parent for each in await tk.threads(limit=10_000))


async def test_a_run_that_broke_off_goes_on_where_it_was(
    chain: tuple[CasesRun, Path], manifest: Manifest, tmp_path: Path
) -> None:
    """Half of its progress and half a line: what is known is not asked again, and the result is that of a whole run."""
    whole, _ = chain
    with pytest.raises(KeyboardInterrupt):
        await run_cases(manifest, TERMS, reader=Tiring(40), summariser=FAITHFUL, say=unheard, lab=tmp_path)
    with (tmp_path / PROGRESS).open("ab") as out:
        out.write(b'{"type":"answ')
    rest = Tiring(1_000)
    again = await run_cases(manifest, TERMS, reader=rest, summariser=FAITHFUL, say=unheard, lab=tmp_path)
    assert rest.asked == len(whole.answered) - 40
    assert sorted(scored(again), key=str) == sorted(scored(whole), key=str)
    third = Tiring(0)
    await run_cases(manifest, TERMS, reader=third, summariser=FAITHFUL, say=unheard, lab=tmp_path)
    assert third.asked == 0


async def test_a_lab_with_another_run_in_it_is_refused(chain: tuple[CasesRun, Path], manifest: Manifest) -> None:
    """With what differs."""
    other = Terms(chain=True, variants=CHAIN, asked_at=(1, 5), seed=2)
    with pytest.raises(BadInput, match="another run"):
        await run_cases(
            manifest, other, reader=LiteralReader(), summariser=make_scripted_model("faithful", seed=2), say=unheard, lab=chain[1]
        )


async def test_a_lab_that_other_code_filled_is_gone_on_with_only_where_that_is_wanted(
    chain: tuple[CasesRun, Path], manifest: Manifest, tmp_path: Path
) -> None:
    """A number belongs to the code that made it; a run of several codes says which, also when it is read again."""
    file = tmp_path / PROGRESS
    now = chain[0].terms["code"]
    file.write_bytes((chain[1] / PROGRESS).read_bytes().replace(now.encode(), b"0123456789abcdef"))
    summariser = make_scripted_model("faithful", seed=1)

    async def gone_on(*, mixed: bool) -> CasesRun:
        return await run_cases(manifest, TERMS, reader=Tiring(0), summariser=summariser, say=unheard, lab=tmp_path, mixed=mixed)

    with pytest.raises(BadInput, match=f"made with code 0123456789abcdef, and this is {now}; .* --mixed"):
        await gone_on(mixed=False)
    runs = [await gone_on(mixed=mixed) for mixed in (True, True, False)]
    assert [run.codes for run in runs] == [("0123456789abcdef", now)] * 3
    assert list_facts(runs[0])[-1] == f"NOT ONE RUN: begun with code 0123456789abcdef, gone on with code {now}"
    assert list_facts(chain[0])[-1] == f"threadkeep {__version__}, code {now}"


async def test_a_single_run_asks_everything_after_one_compaction(manifest: Manifest) -> None:
    """Source, session and none; the reader's failures are counted as such and end nothing."""
    terms = Terms(chain=False, variants=("source", "extractive", "none"))
    run = await run_cases(manifest, terms, reader=Failing(), summariser=None, say=unheard)
    assert [(each.variant, each.hop) for each in run.prepared] == [("source", 5), ("extractive", 5), ("none", 5)]
    assert {(each.verdict, each.error) for each in run.answered} == {("run_error", "model_unavailable")}
    assert run.prepared[1].took == "extractive"
    assert len(run.answered) == 3 * 11


async def test_what_a_reader_did_not_answer_is_asked_again(manifest: Manifest, tmp_path: Path) -> None:
    """A server that was away scores nothing for good: the run says how many it did not answer, and goes on with them."""
    terms = Terms(chain=False, variants=("source",))
    told: list[str] = []
    await run_cases(manifest, terms, reader=Failing(), summariser=None, lab=tmp_path, say=told.append)
    again = LiteralReader()
    again.name = "failing"
    run = await run_cases(manifest, terms, reader=again, summariser=None, lab=tmp_path, say=told.append)
    assert next(line.rpartition(" in ")[0] for line in told if "right" in line).endswith("0 of 11 right, 11 without an answer,")
    assert {each.error for each in run.answered} == {None}
    assert sum(each.score == 1 for each in run.answered) > 0


async def test_a_variant_that_is_none_is_refused(manifest: Manifest) -> None:
    """Those there are, are named; and so is one that nobody could be asked for."""
    with pytest.raises(BadInput, match="the variant 'handoff' asks a model; name one with --summariser"):
        await run_cases(manifest, Terms(chain=True, variants=("handoff",)), reader=LiteralReader(), summariser=None, say=unheard)
    with pytest.raises(BadInput, match="no variant 'source' of this run; there are chain_control"):
        await run_cases(manifest, Terms(chain=True, variants=("source",)), reader=LiteralReader(), summariser=None, say=unheard)


async def test_what_a_run_prints_can_be_read_back(chain: tuple[CasesRun, Path]) -> None:
    """One object, its facts and tables; a share is told of what it is a share of."""
    told = msgspec.json.decode(msgspec.json.encode({**chain[0].as_json(), "aggregates": compute_aggregates(chain[0])}))
    assert (told["bench"], told["reader"], told["summariser"]) == ("cases", "literal", "faithful@scripted")
    assert [len(row) for table in build_tables(chain[0]) for row in table.rows] == [
        len(table.columns) for table in build_tables(chain[0]) for _ in table.rows
    ]
    assert "reader literal; summariser faithful@scripted; seed 1" in list_facts(chain[0])[1]


def test_without_noise_a_session_is_shorter_and_says_the_same(manifest: Manifest) -> None:
    """As many items, fewer bytes."""
    session = manifest.sessions[0]
    loud, quiet = (stretches(session, Terms(chain=False, variants=(), noisy=noisy))[0].items for noisy in (True, False))
    assert len(loud) == len(quiet)
    assert len(str(quiet)) < len(str(loud))


class Tiring(LiteralReader):
    """Answers so often, and is then interrupted."""

    def __init__(self, most: int) -> None:
        self.asked = 0
        self._most = most

    async def answer(self, messages: Sequence[Json], probe: Probe) -> Answered:
        if self.asked == self._most:
            raise KeyboardInterrupt
        self.asked += 1
        return await super().answer(messages, probe)


class Failing:
    """Never answers."""

    name = "failing"

    async def answer(self, messages: Sequence[Json], probe: Probe) -> Answered:
        raise ModelUnavailable("failing", reason="it never answers")
