"""The generated session is long, varied, reproducible, and makes demands that only the user's own words can meet."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from benchmarks.story.demands import MOST_DEMANDS, keep_apart
from benchmarks.story.generator import generate_session
from benchmarks.story.session import Demand, DemandKind, Session, Step, Turn, build_context_items, estimate_tokens, render_turn

SEEDS = range(3)
CUE_WORDS = re.compile(
    r"\b(always|never|must|don't|do not|not|no|only|should|please|make sure|remember|from now on|keep|rather|avoid|every|each|"
    r"whenever|nothing|under no|hands off|stop|forget|drop|instead|limit|höchstens|immer|nunca|nada|olvida)\b|只能|一律",
    re.IGNORECASE,
)
LOOK_ALIKE_SHAPES = (
    r"[1-9]\d{3}",
    r"[a-z]+-\d\d\.[a-z]+\.example",
    r"QBK-\d{4}",
    r"LOT-\d\d[A-Z]\d-\d{4}",
    r"\d[0-9a-f]{9}",
    r"T-\d{5}-[A-Z]",
)


# Sessions are values: tests that look at the same one need not play it again.
played = cache(generate_session)


def items_of(session: Session) -> list[dict[str, object]]:
    return [
        *build_context_items(),
        *(item for number, turn in enumerate(session.turns) for item in render_turn(turn, number=number)),
    ]


def user_text(session: Session) -> str:
    return "\n\0\n".join(turn.user for turn in session.turns)


def everything_else(session: Session) -> str:
    """All that is sent, apart from what the user says."""
    silent = Session(turns=tuple(Turn(user="", steps=turn.steps, answer=turn.answer) for turn in session.turns), demands=())
    return json.dumps(items_of(silent), ensure_ascii=False) + "".join(
        step.output for turn in session.turns for step in turn.steps
    )


def outputs(session: Session) -> list[str]:
    return [step.output for turn in session.turns for step in turn.steps]


def test_the_same_seed_gives_the_same_bytes_in_any_process() -> None:
    """Nothing depends on hashing, the clock or what ran before."""
    program = (
        "import hashlib, json; from benchmarks.story.generator import generate_session;"
        "from benchmarks.story.session import render_turn; s = generate_session(seed=5, turns=40);"
        "t = json.dumps([render_turn(turn, number=n) for n, turn in enumerate(s.turns)]) + repr(s.demands);"
        "import sys; sys.stdout.write(hashlib.sha256(t.encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1
    assert generate_session(seed=5, turns=40) == generate_session(seed=5, turns=40)


def test_different_seeds_tell_different_sessions() -> None:
    """They share few values, few messages beyond those of a word or two, and hardly an output."""
    first, second = played(seed=1, turns=60), played(seed=2, turns=60)
    shared = {demand.needle for demand in first.demands} & {demand.needle for demand in second.demands}
    assert len(shared) <= 12
    assert len({turn.user for turn in first.turns} & {turn.user for turn in second.turns}) <= 20
    assert len(set(outputs(first)) & set(outputs(second))) <= 2


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("turns", "demands"), [(12, 11), (60, 40), (60, MOST_DEMANDS), (200, 40)])
def test_a_needle_stands_once_in_the_users_words_and_nowhere_else(seed: int, turns: int, demands: int) -> None:
    """Whoever finds a needle has found what the user said."""
    session = played(seed=seed, turns=turns, demands=demands)
    said, rest = user_text(session), everything_else(session)
    assert len(session.demands) == demands
    for demand in session.demands:
        assert demand.said in session.turns[demand.turn].user
        assert (demand.said.count(demand.needle), said.count(demand.needle), rest.count(demand.needle)) == (1, 1, 0), demand


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_taken_back_was_said_earlier_by_the_user_alone(seed: int) -> None:
    """A stale value stands in one early message, at most once more in the sentence that replaces it, and in no output."""
    session = played(seed=seed, turns=100, demands=MOST_DEMANDS)
    rest = everything_else(session)
    taken_back = [demand for demand in session.demands if demand.stale is not None]
    assert {demand.kind for demand in taken_back} == {DemandKind.CORRECTION, DemandKind.WITHDRAWAL}
    assert len(taken_back) == sum(demand.kind in {DemandKind.CORRECTION, DemandKind.WITHDRAWAL} for demand in session.demands)
    for demand in taken_back:
        stale = str(demand.stale)
        spoken_in = [number for number, turn in enumerate(session.turns) if stale in turn.user]
        assert spoken_in[-1] == demand.turn if stale in demand.said else spoken_in[-1] < demand.turn
        assert spoken_in[0] < 15
        assert user_text(session).count(stale) == 1 + demand.said.count(stale)
        assert stale not in rest


@pytest.mark.parametrize(("turns", "demands"), [(12, 11), (60, 40), (200, 40), (200, MOST_DEMANDS)])
def test_demands_come_early_and_changes_of_mind_later(turns: int, demands: int) -> None:
    """All kinds are there; what stands is said in the first 15 % of the turns, what changes is changed by 60 %."""
    session = played(seed=7, turns=turns, demands=demands)
    assert {demand.kind for demand in session.demands} == set(DemandKind)
    for demand in session.demands:
        if demand.stale is None:
            assert demand.turn < turns * 0.15
        else:
            assert turns * 0.15 <= demand.turn < turns * 0.6
    assert list(session.demands) == sorted(session.demands, key=lambda demand: demand.turn)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_third_of_the_demands_has_no_cue_word(seed: int) -> None:
    """Spotting "never" and its kin is not enough to keep what matters."""
    session = played(seed=seed, turns=60)
    plain = [demand for demand in session.demands if not CUE_WORDS.search(demand.said)]
    assert len(plain) * 3 >= len(session.demands)


def test_demands_are_woven_into_requests_in_many_ways() -> None:
    """Some share a message, some stand in lists, some beside a pasted log, and every message also asks for work."""
    sessions = [played(seed=seed, turns=60) for seed in SEEDS]
    spoken = [(session.turns[demand.turn].user, demand) for session in sessions for demand in session.demands]
    crowd = Counter(user for user, _ in spoken)
    assert max(crowd.values()) >= 4
    assert min(crowd.values()) == 1
    assert any(f"\n- {demand.said}\n" in user for user, demand in spoken)
    assert any("```" in user and len(user) > 1_500 for user, _ in spoken)
    assert all(len(user) > len(demand.said) + 5 for user, demand in spoken)
    assert all(
        user.rstrip().endswith(tuple(d.said for d in late(session))) for session in sessions for user in late_messages(session)
    )


def late(session: Session) -> list[Demand]:
    return [demand for demand in session.demands if demand.kind is DemandKind.LATE]


def late_messages(session: Session) -> list[str]:
    return [session.turns[demand.turn].user for demand in late(session)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("turns", [12, 60])
def test_look_alikes_abound_in_tool_output(seed: int, turns: int) -> None:
    """Next to the one value that counts there are many of the same shape."""
    session = played(seed=seed, turns=turns, demands=MOST_DEMANDS)
    text = "\n".join(outputs(session))
    look_alikes = [demand.needle for demand in session.demands if demand.kind is DemandKind.LOOK_ALIKE]
    assert len(look_alikes) == len(LOOK_ALIKE_SHAPES)
    for needle in look_alikes:
        (shape,) = [shape for shape in LOOK_ALIKE_SHAPES if re.fullmatch(shape, needle)]
        assert len(set(re.findall(rf"(?<![\w-]){shape}(?![\w-])", text))) >= 8, needle


@pytest.mark.parametrize("seed", SEEDS)
def test_every_call_has_its_output_and_every_id_is_its_own(seed: int) -> None:
    """The session is a history a provider would accept: pairs close in order, reasoning stands before a call."""
    items = items_of(played(seed=seed, turns=60))
    waiting: list[object] = []
    most_waiting = 0
    for before, item in zip([{}, *items], items, strict=False):
        if before.get("type") == "reasoning":
            assert item["type"] == "function_call"
        match item["type"]:
            case "function_call":
                waiting.append(item["call_id"])
                assert isinstance(json.loads(str(item["arguments"])), dict)
            case "function_call_output":
                assert item["call_id"] == waiting.pop(0)
            case _:
                assert waiting == []
        most_waiting = max(most_waiting, len(waiting))
    ids = [item[key] for item in items for key in ("id", "call_id") if key in item and item["type"] != "function_call_output"]
    assert len(ids) == len(set(map(str, ids)))
    assert most_waiting >= 2
    lengths = [len(str(item["encrypted_content"])) for item in items if item["type"] == "reasoning"]
    assert 200 <= min(lengths) < max(lengths) <= 800


def test_a_turn_in_provider_json() -> None:
    """Steps that only look are called in parallel; an edit is called alone."""
    look = [Step(tool="read_file", arguments={"path": name}, output=name.upper()) for name in ("a", "b")]
    edit = Step(tool="apply_patch", arguments={"input": "é"}, output="ok")
    items = [
        item for item in render_turn(Turn(user="go", steps=(*look, edit), answer="done"), number=3) if item["type"] != "reasoning"
    ]
    shapes = [{key: value for key, value in item.items() if key not in {"id", "call_id"}} for item in items]
    assert shapes == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "function_call", "name": "read_file", "arguments": '{"path": "a"}'},
        {"type": "function_call", "name": "read_file", "arguments": '{"path": "b"}'},
        {"type": "function_call_output", "output": "A"},
        {"type": "function_call_output", "output": "B"},
        {"type": "function_call", "name": "apply_patch", "arguments": '{"input": "é"}'},
        {"type": "function_call_output", "output": "ok"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done", "annotations": []}]},
    ]


def test_the_context_is_a_developer_message_and_a_description_of_the_world() -> None:
    """As clients do, the world is described in the user's role, in a block no person would write."""
    developer, world = build_context_items()
    assert (developer["role"], world["role"]) == ("developer", "user")
    text = json.dumps(world)
    assert "<environment_context>" in text
    assert "</environment_context>" in text


@pytest.mark.parametrize("seed", SEEDS)
def test_sizes_are_as_promised(seed: int) -> None:
    """60 turns are about 120,000 tokens, 200 turns over 500,000; outputs are everyday ones with a few giants among them."""
    assert 105_000 <= estimate_tokens(played(seed=seed, turns=60)) <= 145_000
    session = played(seed=seed, turns=200)
    assert 500_000 <= estimate_tokens(session) <= 560_000
    sizes = [len(output.encode()) for output in outputs(session)]
    assert sum(200 <= size <= 6_000 for size in sizes) >= 0.9 * len(sizes)
    assert sum(size >= 15_000 for size in sizes) >= 4
    assert max(sizes) <= 40_000
    assert len(sizes) - len(set(outputs(session))) >= 10


@pytest.mark.parametrize("seed", SEEDS)
def test_the_work_is_varied(seed: int) -> None:
    """Many requests, many kinds of output, several languages, short answers."""
    session = played(seed=seed, turns=200)
    assert len({turn.user for turn in session.turns}) >= 150
    commands = {str(step.arguments["cmd"]) for turn in session.turns for step in turn.steps if step.tool == "exec_command"}
    kinds = {" ".join(command.split()[:2]) for command in commands} | {step.tool for turn in session.turns for step in turn.steps}
    assert len(kinds) >= 20
    text = user_text(session)
    assert all(word in text for word in ("供应商", "Migration", "Kannst du", "¿"))
    assert max(len(turn.answer) for turn in session.turns) <= 400


def test_chance_values_are_turned_into_others_of_their_shape() -> None:
    """A reserved value never survives in other text, also not inside a longer number."""
    text = keep_apart(
        '{"port": 7443, "id": 174430, "host": "gannet-07.quay.example"}', ("7443", "gannet-07.quay.example", "a phrase")
    )
    assert not {"7443", "gannet-07.quay.example"} & set(re.findall(r"[\w.-]+", text))
    assert "7443" not in text
    assert re.fullmatch(r'\{"port": [1-9]\d{3}, "id": \d{6}, "host": "gannet-\d\d\.quay\.example"\}', text)


@pytest.mark.parametrize(("turns", "demands"), [(9, 40), (60, 10), (60, MOST_DEMANDS + 1)])
def test_an_impossible_session_is_refused(turns: int, demands: int) -> None:
    """Too short to be long, or more demands than there are lines for."""
    with pytest.raises(ValueError, match=r"turns|demands"):
        generate_session(seed=1, turns=turns, demands=demands)
