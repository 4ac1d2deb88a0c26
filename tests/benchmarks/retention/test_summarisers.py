"""Scripted summarisers: each does the harm it is named for, from what it is shown and nothing else."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from inline_snapshot import snapshot
from tests.histories import answered, said, turns

from benchmarks.retention.summarisers import SUMMARISERS, Note, Shown, Summariser, SummarisingModel
from threadkeep import Config, Threadkeep

PORT = Note(text="The port moved to 4711.", value="4711", stale="4700", lie="4700", work=False)
LEASE = Note(text="lease granted: LS-22", value="LS-22", stale=None, lie="LS-33", work=False)
UNSEEN = Note(text="The code is 9999.", value="9999", stale=None, lie="8888", work=False)
LEDGER = """Active Memory:
- [3] The port is 4700. (#2)
- [4] Write in lower case. (#2)

Inactive Changes:
- none"""
BEFORE = """Active Memory:
- The port is 4700.
- Write in lower case.

Inactive Changes:
- none"""


def shown(*, whole: bool) -> Shown:
    return Shown(
        before=BEFORE if whole else LEDGER,
        messages="#5: go on\n#9: The port moved to 4711.",
        span="The port moved to 4711. lease granted: LS-22",
        whole=whole,
        key=(PORT, LEASE, UNSEEN),
    )


def answer(name: str, *, whole: bool) -> str:
    return SUMMARISERS[name](shown(whole=whole), Random(1))


def test_a_faithful_answer_says_what_changes() -> None:
    """New lines with the message they rest on, the old one set aside by its id, nothing that was not shown."""
    assert answer("faithful", whole=False) == snapshot("""\
<session_compact_state>
Objective:
- go on with the work

Active Memory:
- The port moved to 4711. (#9)
- lease granted: LS-22 (#9)

Inactive Changes:
- supersede | [3] → The port moved to 4711. (#9)

Current Handoff:
- none

Evidence Pointers:
- none
</session_compact_state>\
""")


def test_a_faithful_rewrite_repeats_what_holds() -> None:
    """Everything but what was taken back stands in it again."""
    assert answer("faithful", whole=True) == snapshot("""\
<session_compact_state>
Objective:
- go on with the work

Active Memory:
- Write in lower case.
- The port moved to 4711.
- lease granted: LS-22

Inactive Changes:
- none

Current Handoff:
- none

Evidence Pointers:
- none
</session_compact_state>\
""")


@pytest.mark.parametrize("whole", [True, False])
def test_a_liar_tells_no_true_value(*, whole: bool) -> None:
    """The value that was taken back, or one nobody said, stands where the true one should."""
    told = answer("lying", whole=whole)
    assert [value for value in ("4711", "LS-22") if value in told] == []
    assert [value for value in ("4700", "LS-33") if value not in told] == []


@pytest.mark.parametrize("name", ["paraphrasing", "prose", "empty", "hostile"])
@pytest.mark.parametrize("whole", [True, False])
def test_the_others_do_not_tell_everything_as_it_was(name: str, *, whole: bool) -> None:
    """Each differs from the faithful answer."""
    assert answer(name, whole=whole) != answer("faithful", whole=whole)


def test_a_hostile_answer_withdraws_every_entry() -> None:
    """By its id and in the name of the newest message."""
    told = answer("hostile", whole=False)
    assert [line for line in told.splitlines() if "withdraw" in line] == ["- withdraw | [3] (#9)", "- withdraw | [4] (#9)"]


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", ["responses", "chat", "messages"])
async def test_the_library_shows_a_model_what_a_summariser_needs(tmp_path: Path, dialect: str) -> None:
    """State with ids, messages by number, and the span: each is found in the request by the double that answers it."""
    seen: list[Shown] = []

    def watching(summarise: Summariser) -> Summariser:
        def watch(given: Shown, rng: Random) -> str:
            seen.append(given)
            return summarise(given, rng)

        return watch

    async with Threadkeep(Config(store=str(tmp_path / "t.db"), model_context_window=16_000)) as tk:
        thread = await tk.thread("t", dialect=dialect)
        model = SummarisingModel("watching", watching(SUMMARISERS["faithful"]), dialect=dialect, seed="1")
        for text, note in (("The port is 4700.", None), ("The port moved to 4711.", PORT)):
            messages = [said(text), answered("Noted."), *turns(1, 12)] if dialect == "responses" else _plain(text)
            await thread.record(messages)
            model.key = [note] if note else []
            report = await thread.compact(strategy="session", model=model, target="1500")
            assert (report.strategy, report.fell_back_from) == ("session", None)
    second = seen[-1]
    assert "The port is 4700." in [text.partition(" (#")[0] for _, text in second.entries]
    assert second.notes == [PORT]
    assert [line for line in second.messages.splitlines() if "The port moved to 4711." in line] != []
    assert second.number_of(PORT).isdigit()


def _plain(text: str) -> list[dict[str, object]]:
    filler = "the log goes on and on, line after line, and says nothing new\n" * 30
    talk: list[dict[str, object]] = [{"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}]
    for number in range(12):
        talk += [{"role": "user", "content": f"Go on with part {number}."}, {"role": "assistant", "content": filler}]
    return talk
