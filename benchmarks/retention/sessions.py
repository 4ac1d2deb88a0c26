"""The story family: a long session of the story with more facts planted in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from benchmarks.retention.blindness import gives_away
from benchmarks.retention.facts import OF_DEMAND, Fact, FactKind, Printed, load_lines, printed_output
from benchmarks.retention.open_work import make_open_work
from benchmarks.retention.planted_session import Planted, hop_ends
from benchmarks.story.generator import generate_session
from benchmarks.story.lines import Value, find_line
from benchmarks.story.session import CWD, Demand, Step, Turn, build_context_items
from benchmarks.story.words import exit_text

MOST_DRAWS = 400
# Tickets that were set aside are numbered from here on; no session has as many hops.
ASIDE_FROM = 500
ONE_OFF_TURNS = 3
LATE_SHARES = (0.6, 0.9)
PRINTED_SHARES = (0.04, 0.5)
REUSED_AFTER_SHARES = (0.06, 0.25)


def planted_session(*, seed: int, turns: int, hops: int) -> Planted:
    """Return the session of this seed; the same arguments always give the same bytes.

    Raises:
        ValueError: Fewer turns than hops, or than a long session has.
    """
    ends = hop_ends(turns=turns, hops=hops)
    story = generate_session(seed=seed, turns=turns)
    planting = _Planting(story.turns, seed=seed)
    planting.add_demands(story.demands)
    planting.add_spoken()
    planting.add_work(ends)
    planting.add_printed()
    facts = sorted(planting.facts, key=lambda fact: (fact.due, fact.key))
    steps = tuple(planting.planted[turn] for turn in range(turns))
    return Planted(
        seed=seed,
        turns=tuple(planting.turns),
        facts=tuple(facts),
        ends=ends,
        planted_steps=steps,
        opening=tuple(build_context_items()),
    )


class _Planting:
    def __init__(self, turns: Sequence[Turn], *, seed: int) -> None:
        self.turns = list(turns)
        self.facts: list[Fact] = []
        self.planted: Counter[int] = Counter()
        self._rng = Random(f"{seed}:planted")
        said = (turn.user for turn in turns)
        done = (f"{step.arguments}\n{step.output}" for turn in turns for step in turn.steps)
        self._user_text = "\n".join(said)
        self._taken = "\n".join((self._user_text, *done, *(turn.answer for turn in turns)))

    def add_demands(self, demands: Sequence[Demand]) -> None:
        for number, demand in enumerate(demands):
            line = find_line(demand.said)
            drawn = _draws(line.value, self._rng)
            likes = self._likes(demand.needle, (*line.decoys, *drawn), line.question, stale=demand.stale, within=self._user_text)
            self.facts.append(
                Fact(
                    key=f"demand {number}",
                    kind=OF_DEMAND[demand.kind],
                    value=demand.needle,
                    text=demand.said,
                    question=line.question,
                    due=demand.turn,
                    likes=likes,
                    stale=demand.stale,
                )
            )

    def add_spoken(self) -> None:
        for number, line in enumerate(load_lines().spoken):
            value = self._drawn(line.value)
            early = line.kind is FactKind.ONE_OFF
            turn = self._rng.randrange(ONE_OFF_TURNS) if early else self._turn_between(*LATE_SHARES)
            text = line.said.format(v=value)
            self.turns[turn] = replace(self.turns[turn], user=f"{self.turns[turn].user}\n\n{text}")
            self._plant(f"spoken {number}", line.kind, value, text, line.question, turn, line.value)

    def add_printed(self) -> None:
        for number, printed in enumerate(load_lines().printed):
            value = self._drawn(printed.value)
            turn = self._turn_between(*PRINTED_SHARES)
            text = printed.line.format(v=value)
            self._front(turn, _command(printed.command, printed_output(self._rng, text)))
            due, kind = turn, FactKind.TOOL_UNUSED
            if printed.reused_by is not None:
                due, kind = self._reuse(printed, value, after=turn), FactKind.TOOL_REUSED
            self._plant(f"printed {number}", kind, value, text, printed.question, due, printed.value)

    def add_work(self, ends: Sequence[int]) -> None:
        """Plant what is under way when a hop ends: a ticket set aside in its first turn, and the one in hand in its last."""
        begin = 0
        for hop, end in enumerate(ends, start=1):
            self._under_way(FactKind.SET_ASIDE, number=ASIDE_FROM + hop, turn=begin, end=end)
            self._under_way(FactKind.WORKING, number=hop, turn=end, end=end)
            begin = end + 1

    def _under_way(self, kind: FactKind, *, number: int, turn: int, end: int) -> None:
        work = make_open_work(self._rng, number=number)
        # A plan made later in the turn would say something else, and rightly so.
        rest = [step for step in self.turns[turn].steps[self.planted[turn] :] if step.tool != "update_plan"]
        steps = (*work.steps, *self.turns[turn].steps[: self.planted[turn]], *rest)
        self.turns[turn] = replace(self.turns[turn], steps=steps)
        self.planted[turn] += len(work.steps)
        for part in work.parts:
            self.facts.append(
                Fact(
                    key=f"work {number} {part.name}",
                    kind=kind,
                    value=part.value,
                    text=f"{work.ticket}, {part.name}: {part.value}",
                    question=part.question,
                    due=end,
                    last=end,
                    likes=part.likes,
                )
            )

    def _reuse(self, printed: Printed, value: str, *, after: int) -> int:
        """Let a later call take the value, which its output does not repeat; return the turn of that call."""
        low, high = (max(1, int(len(self.turns) * share)) for share in REUSED_AFTER_SHARES)
        turn = min(after + self._rng.randrange(low, high + 1), len(self.turns) - 1)
        command = (printed.reused_by or "").format(v=value)
        self._front(turn, _command(command, exit_text("done", code=0, took=f"{self._rng.uniform(0.2, 2):.1f} s")))
        return turn

    def _front(self, turn: int, step: Step) -> None:
        self.turns[turn] = replace(self.turns[turn], steps=(step, *self.turns[turn].steps))
        self.planted[turn] += 1

    def _plant(self, key: str, kind: FactKind, value: str, text: str, question: str, due: int, shape: Value) -> None:
        likes = self._likes(value, _draws(shape, self._rng), question, stale=None, within=self._taken)
        self._taken = "\n".join((self._taken, text, *likes))
        self.facts.append(Fact(key=key, kind=kind, value=value, text=text, question=question, due=due, likes=likes))

    def _drawn(self, shape: Value) -> str:
        return next(value for value in _draws(shape, self._rng) if value not in self._taken)

    def _turn_between(self, low: float, high: float) -> int:
        return self._rng.randrange(int(len(self.turns) * low), max(int(len(self.turns) * high), int(len(self.turns) * low) + 1))

    def _likes(
        self, value: str, candidates: Sequence[str], question: str, *, stale: str | None, within: str
    ) -> tuple[str, str, str]:
        """Return three of the candidates that occur nowhere in `within` and leave the question blind."""
        apart = [like for like in dict.fromkeys(candidates) if like not in within and like not in value and value not in like]
        for _ in range(MOST_DRAWS):
            first, second, third = self._rng.sample(apart, 3)
            wrong = (first, second, third) if stale is None else (stale, first, second)
            if not gives_away(question, right=value, wrong=wrong):
                return first, second, third
        raise AssertionError(f"no blind options for {value!r}: {question}")


def _draws(shape: Value, rng: Random) -> list[str]:
    return [shape.draw(rng) for _ in range(MOST_DRAWS // 4)]


def _command(text: str, output: str) -> Step:
    return Step(tool="exec_command", arguments={"cmd": text, "workdir": CWD}, output=output)
