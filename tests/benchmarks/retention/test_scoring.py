"""What a window is credited with, told from its text alone."""

from __future__ import annotations

import pytest

from benchmarks.retention.facts import Fact, FactKind
from benchmarks.retention.probes import Probe, make_probes
from benchmarks.retention.windows import Judged, Piece, judge, make_piece, make_summary_piece, open_book
from threadkeep.compaction.state_text import TAG
from threadkeep.dialects import find_dialect
from threadkeep.dialects.values import STATE_OPENING

CHAT = find_dialect("chat")
STATE = """{opening}

<{tag}>
Objective:
- {objective}

Active Memory:
- {active}

Inactive Changes:
- {inactive}

Current Handoff:
- {handoff}

Evidence Pointers:
- none
</{tag}>"""


def fact(*, kind: FactKind = FactKind.BINDING, stale: str | None = None) -> Fact:
    likes = ("4402", "4403", "4404")
    return Fact(key="port", kind=kind, value="4401", text="", question="Which port?", due=0, likes=likes, stale=stale)


def probe(*, kind: FactKind = FactKind.BINDING, stale: str | None = None) -> Probe:
    return make_probes([fact(kind=kind, stale=stale)], seed=1)[0]


def says(text: str, *, role: str = "user") -> Piece:
    return make_piece(CHAT.parse({"role": role, "content": text}), dialect=CHAT)


def state(*, objective: str = "none", active: str = "none", inactive: str = "none", handoff: str = "none") -> Piece:
    text = STATE.format(opening=STATE_OPENING, tag=TAG, objective=objective, active=active, inactive=inactive, handoff=handoff)
    return make_piece(CHAT.make_user_message(text), dialect=CHAT)


KEPT = Judged(kept=True, beside=False, stale=False, outdated=False, credit=1.0)
GUESSED = Judged(kept=False, beside=False, stale=False, outdated=False, credit=0.25)
STALE = Judged(kept=False, beside=False, stale=True, outdated=False, credit=0.0)
OUTDATED = Judged(kept=False, beside=False, stale=True, outdated=True, credit=0.0)


@pytest.mark.parametrize(
    ("window", "verdict"),
    [
        ([], GUESSED),
        ([says("it is 4401")], KEPT),
        ([says("it is 44011, see #4401")], GUESSED),
        ([says("it is 4402")], Judged(kept=False, beside=False, stale=False, outdated=False, credit=0.0)),
        ([says("4401 or 4402")], Judged(kept=False, beside=True, stale=False, outdated=False, credit=0.5)),
        ([says("it is 4401", role="assistant")], GUESSED),
        ([state(active="[a1] it is 4401 (#12)")], KEPT),
        ([state(inactive="[a1] it is 4401 (#12)")], GUESSED),
        ([state(handoff="it is 4401")], GUESSED),
        ([make_summary_piece("it is 4401", dialect=CHAT)], KEPT),
    ],
)
def test_a_users_value_counts_where_it_is_told_to_hold(window: list[Piece], verdict: Judged) -> None:
    """In Objective, Active Memory, a summary or a message; one of several is worth its share, none is worth a guess."""
    assert judge(probe(), open_book(window)) == verdict


@pytest.mark.parametrize("window", [[state(handoff="it is 4401")], [says("it is 4401", role="assistant")]])
def test_work_counts_wherever_it_is_shown(window: list[Piece]) -> None:
    """What is under way may stand in the handoff or in what the agent said."""
    assert judge(probe(kind=FactKind.WORKING), open_book(window)) == KEPT


@pytest.mark.parametrize(
    ("window", "verdict"),
    [
        ([says("it is 4400"), says("now 4401, not 4400")], KEPT),
        ([says("now 4401"), says("it is 4400")], STALE),
        ([says("it is 4400")], OUTDATED),
        ([state(active="[1] it is 4400 (#3)\n- [2] now 4401 (#9)")], KEPT),
        ([state(active="[2] now 4401 (#3)\n- [1] it is 4400 (#9)")], STALE),
        ([state(objective="it is 4400", active="now 4401, not 4400")], KEPT),
        ([state(active="it is 4400"), says("now 4401")], KEPT),
        ([state(active="now 4401", inactive="it is 4400")], KEPT),
        ([says("now 4401"), make_summary_piece("it is 4400", dialect=CHAT)], STALE),
    ],
)
def test_a_value_taken_back_is_stale_unless_the_newer_one_decides(window: list[Piece], verdict: Judged) -> None:
    """What comes later in reading order decides; in a summary the newer value must stand right beside the older."""
    assert judge(probe(stale="4400"), open_book(window)) == verdict
