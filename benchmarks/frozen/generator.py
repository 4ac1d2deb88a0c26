"""One session of the family: what is said when, the work around it, and what can be asked afterwards.

Frozen: see the package's docstring.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from benchmarks.frozen.lines import DOMAINS, Domain, PrintedLine, SaidLine, load_domain, load_foreign_lines
from benchmarks.frozen.messages import Remark, build_message
from benchmarks.frozen.tools import TOOLSETS, Toolset
from benchmarks.frozen.values import Drawn, Values, find_look_alikes, keep_apart, step_apart
from benchmarks.frozen.work import Card, around, make_card, steps
from benchmarks.retention.facts import Fact, FactKind
from benchmarks.retention.planted_session import Planted, hop_ends
from benchmarks.story.session import Step, Turn

FOREIGN_PER_LANGUAGE = 2
TURN_CHARS = 5_600
LONG_EVERY, LONG_CHARS = 14, 20_000
FEWEST_TURNS = 10
# Shares of the session between which something is said.
EARLY = (0.0, 0.15)
ABROAD_SHARES = (0.02, 0.4)
BURIED_SHARES = (0.05, 0.4)
TAKEN_BACK = (0.45, 0.7)
LATE = (0.6, 0.9)
PRINTED = (0.04, 0.5)
REUSED_AFTER = (0.06, 0.3)
ONE_OFF_TURNS = 3
ASIDE_FROM = 500


def frozen_session(*, seed: int, turns: int, hops: int) -> Planted:
    """Return the session of this seed; the same arguments always give the same bytes. The seed also tells its domain.

    Raises:
        ValueError: Fewer turns than hops, or than a long session has.
    """
    if turns < FEWEST_TURNS:
        raise ValueError(f"a long session has at least {FEWEST_TURNS} turns, not {turns}")
    ends = hop_ends(turns=turns, hops=hops)
    return _Session(load_domain(DOMAINS[seed % len(DOMAINS)]), seed=seed, turns=turns, ends=ends).planted()


class _Session:
    def __init__(self, work: Domain, *, seed: int, turns: int, ends: tuple[int, ...]) -> None:
        self._domain, self._seed, self._length, self._ends = work, seed, turns, ends
        self._tools: Toolset = TOOLSETS[work.client]
        self._rng = Random(f"frozen:{seed}")
        values = Values(self._rng)
        self._said = [values.draw(line) for line in (*work.said, *self._foreign())]
        self._printed = [values.draw(line) for line in (*work.reused, *work.unused)]
        self._reserved = values.reserved()
        self._remarks: list[Remark] = []
        self._languages: dict[int, str] = {}
        self._fronts: defaultdict[int, list[Step]] = defaultdict(list)
        self._due: dict[int, int] = {}

    def planted(self) -> Planted:
        for drawn in self._said:
            self._place_said(drawn)
        cards = list(self._cards())
        for drawn in self._printed:
            self._place_printed(drawn)
        turns = [self._turn(number) for number in range(self._length)]
        facts = sorted((*self._facts(turns), *_card_facts(cards)), key=lambda fact: (fact.due, fact.key))
        likes = {like for fact in facts if fact.kind is FactKind.LOOK_ALIKE for like in fact.likes}
        turns = self._with_look_alikes(turns, sorted(likes))
        planted = Counter({number: len(made) for number, made in self._fronts.items()})
        return Planted(
            seed=self._seed,
            turns=tuple(turns),
            facts=tuple(facts),
            ends=self._ends,
            planted_steps=tuple(planted[number] for number in range(self._length)),
            opening=_opening(self._domain),
        )

    def _foreign(self) -> list[SaidLine]:
        """Choose lines of every language."""
        lines = load_foreign_lines().said
        languages = dict.fromkeys(line.lang for line in lines)
        return [
            line
            for language in languages
            for line in self._rng.sample([each for each in lines if each.lang == language], FOREIGN_PER_LANGUAGE)
        ]

    def _between(self, shares: tuple[float, float]) -> int:
        low, high = (int(self._length * share) for share in shares)
        return self._rng.randrange(low, max(high, low + 1))

    def _place_said(self, drawn: Drawn) -> None:
        line = drawn.line
        assert isinstance(line, SaidLine)
        match line.kind:
            case FactKind.LATE:
                turn = self._between(LATE)
            case FactKind.ONE_OFF:
                turn = self._rng.randrange(ONE_OFF_TURNS)
            case FactKind.BURIED:
                turn = self._between(BURIED_SHARES)
            case FactKind.FOREIGN:
                turn = self._between(ABROAD_SHARES)
            case _:
                turn = self._between(EARLY)
        if line.earlier is not None:
            self._remarks.append(Remark(turn=turn, text=line.earlier.format(old=drawn.old)))
            turn = self._between(TAKEN_BACK)
        last, buried = line.kind is FactKind.AFTERTHOUGHT, line.kind is FactKind.BURIED
        self._remarks.append(Remark(turn=turn, text=line.say.format(v=drawn.value, old=drawn.old), last=last, buried=buried))
        if line.lang != "en" and self._rng.random() < 0.5:
            self._languages[turn] = line.lang
        self._due[id(drawn)] = turn

    def _place_printed(self, drawn: Drawn) -> None:
        line = drawn.line
        assert isinstance(line, PrintedLine)
        turn = self._between(PRINTED)
        text = line.line.format(v=drawn.value)
        noise = keep_apart(around(self._rng, "\x00", slug=self._slug()), self._reserved)
        output = text if line.line == "{v}" else noise.replace("\x00", text)
        self._fronts[turn].append(self._tools.ran(line.run, output))
        if line.again is not None:
            low, high = (max(1, int(self._length * share)) for share in REUSED_AFTER)
            turn = min(turn + self._rng.randrange(low, high + 1), self._length - 1)
            self._fronts[turn].append(self._tools.ran(line.again.format(v=drawn.value), "done"))
        self._due[id(drawn)] = turn

    def _cards(self) -> Iterator[tuple[Card, FactKind, int]]:
        """Plan what is under way when a hop ends: a card set aside in its first turn, and the one in hand in its last."""
        begin = 0
        for hop, end in enumerate(self._ends, start=1):
            for kind, number, turn in ((FactKind.SET_ASIDE, ASIDE_FROM + hop, begin), (FactKind.WORKING, hop, end)):
                made = make_card(self._rng, number=number, work=self._domain, tools=self._tools, slug=self._slug())
                self._fronts[turn] = [*made.steps, *self._fronts[turn]]
                yield made, kind, end
            begin = end + 1

    def _slug(self) -> str:
        return self._rng.choice(self._domain.nouns).replace(" ", "_")

    def _turn(self, number: int) -> Turn:
        rng, work = self._rng, self._domain
        noun = rng.choice(work.nouns)
        slug = noun.replace(" ", "_")
        slots = {"n": noun, "s": slug, "k": rng.randrange(2, 30), "w": rng.choice(work.people)}
        path = rng.choice(work.files).format(**slots)
        ask = self._ask(number).format(p=path, **slots)
        said = [remark for remark in self._remarks if remark.turn == number]
        long_one = number % LONG_EVERY == LONG_EVERY - 1
        made = steps(rng, tools=self._tools, slug=slug, path=path, size=LONG_CHARS if long_one else TURN_CHARS)
        apart = [step_apart(step, self._reserved) for step in made]
        return Turn(
            user=build_message(keep_apart(ask, self._reserved), said, rng=rng, domain=work),
            steps=(*self._fronts[number], *apart),
            answer=rng.choice(work.answers).format(**slots),
        )

    def _ask(self, number: int) -> str:
        if number not in self._languages:
            return self._rng.choice(self._domain.asks)
        languages = list(dict.fromkeys(line.lang for line in load_foreign_lines().said))
        return load_foreign_lines().asks[languages.index(self._languages[number])]

    def _facts(self, turns: Sequence[Turn]) -> Iterator[Fact]:
        whole = _whole(turns)
        taken: set[str] = set()
        for number, drawn in enumerate((*self._said, *self._printed)):
            line = drawn.line
            if isinstance(line, SaidLine):
                kind, text = line.kind, line.say.format(v=drawn.value, old=drawn.old)
            else:
                kind = FactKind.TOOL_UNUSED if line.again is None else FactKind.TOOL_REUSED
                text = line.line.format(v=drawn.value)
            yield Fact(
                key=f"line {number:02d}",
                kind=kind,
                value=drawn.value,
                text=text,
                question=line.ask,
                due=self._due[id(drawn)],
                likes=find_look_alikes(drawn, rng=self._rng, text=whole, taken=taken),
                stale=drawn.old,
            )

    def _with_look_alikes(self, turns: Sequence[Turn], likes: Sequence[str]) -> list[Turn]:
        """Print values that look like a user's among others, all through the session."""
        made = list(turns)
        for number in range(1, len(made), max(2, len(made) // 12)):
            listing = "\n".join(f"{self._slug():16} {like}" for like in self._rng.sample(likes, len(likes)))
            step = self._tools.ran("bin/inventory --all", keep_apart(listing, self._reserved))
            made[number] = replace(made[number], steps=(*made[number].steps, step))
        return made


def _whole(turns: Sequence[Turn]) -> str:
    done = (f"{step.arguments}\n{step.output}" for turn in turns for step in turn.steps)
    return "\n".join((*(turn.user for turn in turns), *done, *(turn.answer for turn in turns)))


def _card_facts(cards: Sequence[tuple[Card, FactKind, int]]) -> Iterator[Fact]:
    for made, kind, end in cards:
        for part in made.parts:
            text = f"{made.label}, {part.name}: {part.value}"
            key = f"{made.label} {part.name}"
            yield Fact(
                key=key, kind=kind, value=part.value, text=text, question=part.question, due=end, last=end, likes=part.likes
            )


def _opening(work: Domain) -> tuple[dict[str, object], ...]:
    world = f"<environment_context>\n  <cwd>{work.cwd}</cwd>\n</environment_context>"
    texts = (("developer", work.about), ("user", world))
    return tuple({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]} for role, text in texts)
