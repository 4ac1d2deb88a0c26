"""Sessions to be compacted, as provider JSON with the questions to ask afterwards.

`frozen` and `story` come from the retention benchmark. `agent` and `corrections` plant other facts into the work of `frozen`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.frozen import frozen_session
from benchmarks.readers.agent_facts import plant_agent_facts
from benchmarks.readers.corrections import plant_corrections
from benchmarks.readers.questions import CORRECTION, TOOL_ONCE, TOOL_REUSED, USER, WORK, Question
from benchmarks.readers.text import find_boundaries
from benchmarks.retention.facts import TOOL_KINDS, WORK_KINDS, Fact, FactKind
from benchmarks.retention.planted_session import Planted
from benchmarks.retention.sessions import planted_session
from benchmarks.retention.wire_items import opening_json, turn_json

# Every other compaction comes in the middle of a turn, when about this share of its items is there.
MID_TURN_SHARE = 0.6
DIALECT = "responses"
CHANGED = frozenset({FactKind.CORRECTION, FactKind.WITHDRAWAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session cut into spans; a compaction follows each span.

    Attributes:
        said: Every message of the user up to the last compaction, as provider JSON.
    """

    family: str
    seed: int
    spans: tuple[tuple[dict[str, Any], ...], ...]
    said: tuple[dict[str, Any], ...]
    questions: tuple[Question, ...]

    @property
    def items(self) -> list[dict[str, Any]]:
        return [item for span in self.spans for item in span]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How long the sessions of a family are by default."""

    turns: int
    compactions: int


def make_session(family: str, *, seed: int, size: Size | None = None) -> Session:
    """Return the session of a family and a seed; the same arguments always give the same session.

    Raises:
        ValueError: There is no such family, or the session is too short for it.
    """
    if family not in FAMILIES:
        raise ValueError(f"no family is called {family!r}; use one of {', '.join(FAMILIES)}")
    make, default = FAMILIES[family]
    return make(seed=seed, size=size or default)


def _retention(family: str, plant: Callable[..., Planted]) -> Callable[..., Session]:
    def make(*, seed: int, size: Size) -> Session:
        planted = plant(seed=seed, turns=size.turns, hops=size.compactions)
        asked = planted.asked(size.compactions)
        return _session(family, planted, [_question(fact) for fact in asked], interjections={})

    return make


def _agent(*, seed: int, size: Size) -> Session:
    planted = frozen_session(seed=seed, turns=size.turns, hops=size.compactions)
    facts = plant_agent_facts(planted.turns, seed=seed)
    return _session(
        "agent", planted, facts.questions, interjections=facts.interjections, answers=facts.answers, facts_due=facts.turns
    )


def _corrections(*, seed: int, size: Size) -> Session:
    planted = frozen_session(seed=seed, turns=size.turns, hops=size.compactions)
    changes = plant_corrections(planted.turns, seed=seed)
    return _session("corrections", planted, changes.questions, interjections={}, users=changes.users)


def _session(
    family: str,
    planted: Planted,
    questions: Sequence[Question],
    *,
    interjections: Mapping[int, str],
    answers: Mapping[int, str] | None = None,
    users: Mapping[int, str] | None = None,
    facts_due: Sequence[int] = (),
) -> Session:
    """Lay the turns out as spans. An interjection is said by the agent between two tool calls of its turn."""
    spans: list[tuple[dict[str, Any], ...]] = []
    rest: list[dict[str, Any]] = list(opening_json(planted.opening, dialect=DIALECT))
    said: list[dict[str, Any]] = []
    for number, turns in enumerate(planted.spans(), start=1):
        span = rest
        rest = []
        for turn in turns:
            items: list[dict[str, Any]] = list(turn_json(planted.turns[turn], number=turn, dialect=DIALECT))
            if users and turn in users:
                items[0] = make_message("user", users[turn])
            if answers and turn in answers:
                items[-1] = make_message("assistant", answers[turn])
            said.append(items[0])
            items = _with_interjection(items, interjections.get(turn))
            if turn == turns[-1] and number % 2 == 0 and turn not in facts_due:
                cut = _mid_turn(items, planted_steps=planted.planted_steps[turn])
                items, rest = items[:cut], items[cut:]
            span += items
        spans.append(tuple(span))
    return Session(family=family, seed=planted.seed, spans=tuple(spans), said=tuple(said), questions=tuple(questions))


def _with_interjection(items: list[dict[str, Any]], text: str | None) -> list[dict[str, Any]]:
    if text is None:
        return items
    inner = [at for at in find_boundaries(items) if 1 < at < len(items) - 1] or [len(items) - 1]
    at = inner[len(inner) // 2]
    return [*items[:at], make_message("assistant", text), *items[at:]]


def _mid_turn(items: Sequence[dict[str, Any]], *, planted_steps: int) -> int:
    """Return where a turn can be interrupted: no call open, everything that was planted in it already shown."""
    least = len(items) * MID_TURN_SHARE
    for at in find_boundaries(items):
        outputs = sum(str(item.get("type")).endswith("_output") for item in items[:at])
        if at >= least and outputs >= planted_steps:
            return at
    return len(items)


def make_message(role: str, text: str) -> dict[str, Any]:
    """Return a message of the user or the agent as provider JSON."""
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _question(fact: Fact) -> Question:
    wrong = fact.likes if fact.stale is None else (fact.stale, *fact.likes[:2])
    first, second, third = wrong
    return Question(kind=_kind(fact.kind), text=fact.question, right=fact.value, wrong=(first, second, third), stale=fact.stale)


def _kind(kind: FactKind) -> str:
    if kind in CHANGED:
        return CORRECTION
    if kind in WORK_KINDS:
        return WORK
    if kind in TOOL_KINDS:
        return TOOL_REUSED if kind is FactKind.TOOL_REUSED else TOOL_ONCE
    return USER


FAMILIES: Mapping[str, tuple[Callable[..., Session], Size]] = {
    "frozen": (_retention("frozen", frozen_session), Size(turns=250, compactions=50)),
    "story": (_retention("story", planted_session), Size(turns=250, compactions=50)),
    "agent": (_agent, Size(turns=80, compactions=3)),
    "corrections": (_corrections, Size(turns=120, compactions=12)),
}
