"""Every strategy keeps the contract, in every dialect; one from outside needs no more than its registration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Raw
from tests.drafting.replies import SUMMARY, block
from tests.drafting.test_branching import opaque
from tests.parity.vocabulary import OFFERED, SPEECHES, Speech

from threadkeep.cli.parser import parse
from threadkeep.compaction import Ledger
from threadkeep.compaction.plan import Plan
from threadkeep.compaction.strategies import (
    SESSION,
    STRATEGIES,
    Brief,
    Draft,
    DraftRefused,
    Strategy,
    Summariser,
    lay_out_state,
    list_names,
    register_strategy,
)
from threadkeep.config import build_config, resolve
from threadkeep.dialects import CHAT, Request, find_dialect
from threadkeep.errors import BadInput
from threadkeep.testing.expectations import run_checks
from threadkeep.testing.scripted_model import Compacts, Step, says
from threadkeep.testing.strategy_checks import CHECKS, Check, StrategySamples
from threadkeep.threads import LayoutEntry, StateEntry


async def draft_aloud(brief: Brief, summariser: Summariser) -> Draft:
    """Ask for one sentence."""
    question = summariser.dialect.make_user_message(f"In one sentence: what has happened in {len(brief.window)} items?")
    reply = await summariser.ask(Request(fields={}, head=(), items=(question,)))
    if not 0 < len(reply.text) < 2_000 or reply.ending != "finished":
        raise DraftRefused("no_sentence")
    return Draft(strategy=SENTENCE, summary=reply.text)


def lay_out_sentence(plan: Plan, state: Ledger, draft: Draft, brief: Brief) -> list[LayoutEntry]:
    """Put the sentence in front of the state."""
    entries = lay_out_state(plan, state, draft, brief)
    at = next(index for index, entry in enumerate(entries) if isinstance(entry, StateEntry))
    sentence = StateEntry(item=Raw(brief.dialect.make_user_message(f"So far: {draft.summary}").raw))
    return [*entries[:at], sentence, *entries[at:]]


# A strategy as somebody else would write it.
SENTENCE = Strategy(name="sentence", draft=draft_aloud, fallback=SESSION, lay_out=lay_out_sentence)


@pytest.fixture
def sentence() -> Iterator[None]:
    register_strategy(SENTENCE)
    yield
    del STRATEGIES[SENTENCE.name]


def good_answer(strategy: str, speech: Speech) -> Step | None:
    answers: dict[str, Step] = {
        "session": says(block(active="Finding 1 (#1)", handoff="go on")),
        "handoff": says(SUMMARY),
        "remote": Compacts(items=(opaque(speech, 1),)),
        "sentence": says("The parts were read one by one."),
    }
    return answers.get(strategy)


CASES = [
    pytest.param(strategy, speech, check, id=f"{strategy.name}-{speech.dialect}-{check.__name__}")
    for strategy in (*STRATEGIES.values(), SENTENCE)
    for speech in SPEECHES
    # Neither Chat Completions nor Gemini's API has a way to ask a provider for a compaction.
    if strategy.name != "remote" or speech in OFFERED
    for check in CHECKS
]


@pytest.mark.anyio
@pytest.mark.usefixtures("sentence")
@pytest.mark.parametrize(("strategy", "speech", "check"), CASES)
async def test_the_strategy_keeps_the_contract(strategy: Strategy, speech: Speech, check: Check) -> None:
    """Each fact of the conformance suite holds for every strategy in every dialect."""
    await check(
        StrategySamples(strategy=strategy, dialect=find_dialect(speech.dialect), answer=good_answer(strategy.name, speech))
    )


@pytest.mark.anyio
async def test_the_checks_find_a_strategy_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layout without the state loses a person's rule, and the checks say so."""

    def forget(plan: Plan, state: Ledger, draft: Draft, brief: Brief) -> list[LayoutEntry]:
        return [entry for entry in lay_out_state(plan, state, draft, brief) if not isinstance(entry, StateEntry)]

    forgetful = Strategy(name="forgetful", lay_out=forget)
    monkeypatch.setitem(STRATEGIES, "forgetful", forgetful)
    with pytest.raises(AssertionError, match="a person's rule is in the window however long ago"):
        await run_checks(CHECKS, StrategySamples(strategy=forgetful, dialect=CHAT))


@pytest.mark.usefixtures("sentence")
def test_a_registered_strategy_is_known_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its name is a setting's value and stands in the help of the command line, and no second one may take it."""
    assert list_names()[-1] == "sentence"
    settings = resolve(flags={"compact_strategy": "sentence"}, environ={}, project=tmp_path)
    assert build_config(settings).compact_strategy == "sentence"
    with pytest.raises(SystemExit):
        parse(["compact", "--help"])
    assert "sentence" in capsys.readouterr().out
    with pytest.raises(BadInput, match="'sentence' already"):
        register_strategy(SENTENCE)
