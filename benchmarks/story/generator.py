"""Generates the long session: episodes one after another, with the user's demands in their messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from benchmarks.story import words
from benchmarks.story.checkout import Tree, path_of
from benchmarks.story.demands import FEWEST_DEMANDS, MOST_DEMANDS, keep_apart, plan_demands
from benchmarks.story.lines import Ask, Episode, load_tasks
from benchmarks.story.messages import Woven, make_pasted_log, weave_message
from benchmarks.story.scene import Scene
from benchmarks.story.session import BYTES_PER_TOKEN, Session, Step, Turn, count_bytes, render_turn
from benchmarks.story.tools import LENGTHENED, LOOKING, MAKERS

FEWEST_TURNS = 10
FOLLOW_UP_SHARE = 0.22
MOST_EXTRA_STEPS = 6
REREADING_EVERY = 9
LONG_OUTPUT_EVERY = 12
LONG_OUTPUT_SCALE = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One ask with what it is about filled in."""

    text: str
    answer: str
    recipe: tuple[str, ...]
    noun: str
    path: str
    english: bool


def generate_session(*, seed: int, turns: int, demands: int = 40) -> Session:
    """Return the session of this seed: the same arguments always give the same bytes.

    About 2,000 tokens a turn at first, more from the sixtieth turn on, when whole logs and full test runs come up:
    60 turns are about 120,000 tokens, 200 turns over 500,000.

    Raises:
        ValueError: Fewer than 10 turns, fewer demands than there are kinds of them, or more than the story has lines for.
    """
    if turns < FEWEST_TURNS:
        raise ValueError(f"a long session has at least {FEWEST_TURNS} turns, not {turns}")
    if not FEWEST_DEMANDS <= demands <= MOST_DEMANDS:
        raise ValueError(f"a session can make {FEWEST_DEMANDS} to {MOST_DEMANDS} demands, not {demands}")
    plan = plan_demands(Random(f"{seed}:demands"), turns=turns, wanted=demands)
    reserved = plan.reserved()
    rng = Random(f"{seed}:story")
    tree = Tree(seed)
    played: list[Turn] = []
    size = 0
    path = ""
    for number, part in zip(range(turns), _generate_parts(Random(f"{seed}:parts")), strict=False):
        if part.path != path:
            tree.commit()
            path = part.path
        said = [remark for remark in plan.remarks if remark.turn == number]
        scene = Scene(rng=rng, tree=tree, noun=part.noun, path=part.path)
        log = keep_apart(make_pasted_log(scene, ask=part.text, likely=bool(said)), reserved)
        user = weave_message(Woven(ask=part.text, remarks=said, log=log, english=part.english), rng=rng)
        due = _count_due_tokens(number) * BYTES_PER_TOKEN - size - len(user.encode())
        steps = _make_steps(scene, part.recipe, due_bytes=due, long_one=number % LONG_OUTPUT_EVERY == 0 < number)
        if number % REREADING_EVERY == 1:
            steps.insert(0, MAKERS["shared"](scene))
        turn = Turn(user=user, steps=tuple(_step_apart(step, reserved) for step in steps), answer=part.answer)
        size += count_bytes(render_turn(turn, number=number))
        played.append(turn)
    return Session(turns=tuple(played), demands=plan.demands)


def _count_due_tokens(number: int) -> int:
    """Return how many tokens the session should have once turn `number` was played."""
    early = min(number + 1, 60)
    return early * 1_800 + (number + 1 - early) * 2_850


def _make_steps(scene: Scene, recipe: Sequence[str], *, due_bytes: int, long_one: bool) -> list[Step]:
    """Play a recipe; look around some more where the session lags behind its size, and less where it is ahead."""
    needed = [word for word in recipe if due_bytes > 0 or word == "read" or word not in LOOKING] or recipe[-1:]
    steps = [MAKERS[word](scene) for word in needed]
    if long_one:
        long_scene = Scene(rng=scene.rng, tree=scene.tree, noun=scene.noun, path=scene.path, scale=LONG_OUTPUT_SCALE)
        steps.insert(0, MAKERS[scene.rng.choice(LENGTHENED)](long_scene))
    missing = due_bytes - sum(_step_bytes(step) for step in steps)
    extra: list[Step] = []
    while missing > 0 and len(extra) < MOST_EXTRA_STEPS:
        extra.append(MAKERS[scene.rng.choice(LOOKING)](scene))
        missing -= _step_bytes(extra[-1])
    return [*steps[:1], *extra, *steps[1:]]


def _step_bytes(step: Step) -> int:
    return len(step.output.encode()) + len(json.dumps(step.arguments, ensure_ascii=False)) + 600


def _step_apart(step: Step, reserved: Sequence[str]) -> Step:
    arguments = json.loads(keep_apart(json.dumps(step.arguments, ensure_ascii=False), reserved))
    return Step(tool=step.tool, arguments=cast("dict[str, object]", arguments), output=keep_apart(step.output, reserved))


def _generate_parts(rng: Random) -> Iterator[_Part]:
    """Yield asks without end: all episodes in a random order, then again about other nouns."""
    follow_ups: list[Ask] = []
    tasks = load_tasks()
    opening = tasks.service[:1]
    while True:
        rest = [episode for episode in (*tasks.service, *tasks.upkeep, *tasks.foreign) if episode not in opening]
        episodes = [*opening, *rng.sample(rest, len(rest))]
        opening = ()
        nouns = [noun for _ in range(2) for noun in rng.sample(words.NOUNS, len(words.NOUNS))]
        for episode, noun in zip(episodes, nouns, strict=False):
            slots = {"n": noun.replace("_", " "), "p": path_of(noun, area=episode.area)}
            slots |= {"s": rng.choice(words.SHOPS).capitalize(), "w": rng.choice(words.PEOPLE)}
            for ask in episode.asks:
                yield _make_part(ask, episode, noun=noun, slots=slots)
                if episode not in tasks.foreign and rng.random() < FOLLOW_UP_SHARE:
                    follow_ups = follow_ups or rng.sample(tasks.follow_ups, len(tasks.follow_ups))
                    yield _make_part(follow_ups.pop(), episode, noun=noun, slots=slots)


def _make_part(ask: Ask, episode: Episode, *, noun: str, slots: dict[str, str]) -> _Part:
    return _Part(
        text=ask.text.format(**slots),
        answer=ask.answer.format(**slots),
        recipe=tuple(ask.recipe.split()),
        noun=noun,
        path=slots["p"],
        english=episode not in load_tasks().foreign,
    )
