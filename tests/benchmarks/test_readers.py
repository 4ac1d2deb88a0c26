"""The reader benchmark: what it shows to a model, what it asks, and how it counts."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.readers.corpus import Skipped, half_of, read_corpus
from benchmarks.readers.cuts import find_points
from benchmarks.readers.density import make_sheet, score_sheet
from benchmarks.readers.drafts import DRAFTED, EXTRACTIVE, make_draft_lines
from benchmarks.readers.questions import Question, holds_answer, order_options, shape_of, with_near_options
from benchmarks.readers.sessions import FAMILIES, Size, make_session
from benchmarks.readers.state import StateLine, read_state
from benchmarks.readers.table import answer_table, likelihood_table, wilson
from benchmarks.readers.text import find_boundaries, render_items
from benchmarks.readers.windows import ARMS, NONE, RECALLED, make_lines, newest_text, play_session
from threadkeep.tokens import estimate_text

SMALL = Size(turns=16, compactions=2)
DRAFT = """<session_compact_state>
Objective:
- none

Active Memory:
- the reviewer wants smaller patches (#3)

Inactive Changes:
- none

Current Handoff:
- next: the report

Evidence Pointers:
- none
</session_compact_state>"""


def _question(number: int) -> Question:
    return Question(
        kind="user-stated", text=f"Which one is {number}?", right=f"right-{number}", wrong=(f"x-{number}", "y", "z"), stale="y"
    )


def _message(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def test_every_letter_is_right_equally_often_and_names_the_right_option() -> None:
    """A reader that always prefers one letter is right at chance."""
    asked = order_options([_question(number) for number in range(40)], seed=3)
    assert Counter(each.letter for each in asked) == {"A": 10, "B": 10, "C": 10, "D": 10}
    for number, each in enumerate(asked):
        assert f"{each.letter}) right-{number}\n" in each.text
        assert f"{each.stale_letter}) y\n" in each.text


def test_the_order_of_options_comes_from_the_seed() -> None:
    """The same seed gives the same questions, another seed gives another order."""
    questions = [_question(number) for number in range(12)]
    assert order_options(questions, seed=1) == order_options(questions, seed=1)
    assert order_options(questions, seed=1) != order_options(questions, seed=2)


def test_near_options_are_values_of_the_same_shape_from_the_same_session() -> None:
    """A near question cannot be answered by looking which option occurs in the window."""
    questions = [_question(number) for number in range(4)]
    near = with_near_options([*questions, Question(kind="work", text="?", right="another shape", wrong=("a", "b", "c"))], seed=1)
    assert [each.right for each in near] == ["right-0", "right-1", "right-2", "right-3"]
    others = {question.right for question in questions}
    assert all(each.stale == "y" and each.wrong[0] == "y" and set(each.wrong[1:]) < others for each in near)


def test_a_shape_keeps_signs_and_forgets_letters_and_digits() -> None:
    assert [shape_of(value) for value in ("pg-alder-4", "v12.3", "Ottoline Varga")] == ["a-a-9", "a9.9", "a a"]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_windows_have_the_form_that_the_reader_script_takes(family: str) -> None:
    """A line per arm, with and without recall; the arm without a window holds no answer, and every question has one letter."""
    session = make_session(family, seed=5, size=SMALL)
    lines = list(make_lines(asyncio.run(play_session(session)), near=False))
    assert [line["arm"] for line in lines] == [*ARMS, *(f"{arm}{RECALLED}" for arm in ARMS)]
    assert json.loads(json.dumps(lines)) == lines
    for line in lines:
        assert {key: type(value) for key, value in line.items()} == {
            "seed": int,
            "family": str,
            "arm": str,
            "ctx": str,
            "qs": list,
        }
        assert len(line["qs"]) == len(session.questions)
        for (kind, letter, _, text), question in zip(line["qs"], session.questions, strict=True):
            assert kind == question.kind
            assert f"{letter}) {question.right}\n" in text
    none = next(line for line in lines if line["arm"] == NONE)
    assert holds_answer(none["ctx"], session.questions) == []


def test_facts_of_the_agent_family_are_told_by_the_agent_alone() -> None:
    """Neither the user nor a tool says the value, so only the agent's own words can bring it into a window."""
    session = make_session("agent", seed=5, size=SMALL)
    mine = [item for item in session.items if item.get("role") == "assistant"]
    others = [item for item in session.items if item.get("role") != "assistant"]
    assert holds_answer(render_items(others), session.questions) == []
    assert len(holds_answer(render_items(mine), session.questions)) == len(session.questions) == 12


def test_a_correction_is_said_after_the_rule_and_long_before_the_end() -> None:
    """The newest third of what the user says holds neither the rule nor its correction."""
    session = make_session("corrections", seed=5, size=Size(turns=60, compactions=2))
    said = [render_items([item]) for item in session.said]
    for question in session.questions:
        assert question.stale is not None
        old = next(at for at, text in enumerate(said) if question.stale in text)
        new = max(at for at, text in enumerate(said) if question.right in text)
        assert old < new < len(said) * 2 / 3


def test_the_newest_text_has_the_size_asked_for_and_ends_as_the_session_does() -> None:
    items = [_message("user", f"message {number} " + "word " * 50) for number in range(40)]
    text = newest_text(items, tokens=300)
    assert 250 <= estimate_text(text) <= 310
    assert render_items(items).endswith(text)


def test_a_boundary_has_no_open_call() -> None:
    call: dict[str, Any] = {"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c1"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "a.txt"}
    items: list[dict[str, Any]] = [_message("user", "look"), call, output, _message("assistant", "one file")]
    assert find_boundaries(items) == [1, 3, 4]
    assert render_items(items) == "[user]\nlook\n\n[tool call]\nls {}\n\n[tool output]\na.txt\n\n[assistant]\none file"


def test_the_other_dialects_are_rendered_alike() -> None:
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
        {"role": "assistant", "content": "one file"},
    ]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "look"}]},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "id": "c1", "name": "ls", "input": {}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a.txt"}]}],
        },
        {"role": "assistant", "content": "one file"},
    ]
    assert render_items(chat) == render_items(messages)
    assert find_boundaries(chat) == find_boundaries(messages) == [1, 3, 4]


def test_a_cut_has_work_before_it_and_the_agents_next_steps_behind_it() -> None:
    items: list[dict[str, Any]] = [
        _message("user", "begin"),
        _message("assistant", "word " * 200),
        _message("user", "and now?"),
        _message("assistant", "I look. " * 40),
        {"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
        _message("user", "thanks"),
    ]
    (point,) = find_points(items, [True, False, True, False, False, False, True], before_tokens=100)
    assert point.at == 2
    assert point.segments == [[0, "[user]\nand now?"], [1, "I look. " * 40], [1, "ls {}"], [0, "[tool output]\na.txt"]]


def test_a_cut_is_always_in_the_same_half() -> None:
    halves = [half_of("pi/session.jsonl", cut) for cut in range(400)]
    assert halves == [half_of("pi/session.jsonl", cut) for cut in range(400)]
    assert 150 < halves.count("held") < 250


def test_a_corpus_that_is_not_there_is_skipped_with_a_reason(tmp_path: Path) -> None:
    found = list(read_corpus(tmp_path))
    assert found
    assert all(isinstance(each, Skipped) and each.reason == "no such folder" for each in found)


@pytest.mark.parametrize(
    ("right", "asked", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (81, 100, 0.7222, 0.8749), (0, 0, 0.0, 1.0)],
)
def test_an_interval_is_wilsons(right: int, asked: int, low: float, high: float) -> None:
    assert wilson(right, asked) == pytest.approx((low, high), abs=1e-4)


def test_the_table_of_answers_counts_corrections_as_stated_by_the_user() -> None:
    result = {
        "res": [
            ["ours", "user-stated", 8, 6, 0, 5.0],
            ["ours", "correction", 2, 1, 1, 1.0],
            ["none", "user-stated", 8, 2, 0, 2.0],
        ],
        "lens": {"ours": [100, 300], "none": [40]},
    }
    assert answer_table(result).splitlines() == [
        "| arm | tokens | user-stated | all | correction |",
        "| --- | --- | --- | --- | --- |",
        "| ours | 200 | 70% (40%-89%) of 10, 1 stale | 70% (40%-89%) of 10, 1 stale | 50% (9%-91%) of 2, 1 stale |",
        "| none | 40 | 25% (7%-59%) of 8 | 25% (7%-59%) of 8 | - |",
    ]


def test_the_table_of_likelihoods_says_how_often_ours_is_lower_and_by_how_much() -> None:
    cuts = [
        {"thread": "a", "cut": number, "arms": {"ours": [ours, 100, 50, 0.0], "nothing": [200.0, 100, 0, 0.0]}}
        for number, ours in enumerate((100.0, 150.0, 220.0))
    ]
    rows = [line.split(" | ") for line in likelihood_table(cuts).splitlines()]
    assert rows[2] == ["| all (3)", "ours", "50", "1.567", "", "", " |"]
    assert rows[3] == ["| all (3)", "nothing", "0", "2.000", "2 of 3 (67%)", "-0.433", "± 0.682 |"]


def test_state_lines_are_read_with_their_section() -> None:
    sections = "Objective:\n- ship\n\nActive Memory:\n- [1] never push\n\nInactive Changes:\n- none"
    block = f"Note.\n<session_compact_state>\n{sections}\n</session_compact_state>"
    assert read_state([_message("user", block)]) == [
        StateLine(section="Objective", text="- ship"),
        StateLine(section="Active Memory", text="- [1] never push"),
    ]


def test_a_sheet_hides_the_build_and_its_score_tells_it() -> None:
    lines = [
        {"build": build, "session": "s", "section": "Active Memory", "text": f"{word} {number}"}
        for build, word in (("old", "wow"), ("new", "rule"))
        for number in range(5)
    ]
    sheet, key = make_sheet(lines, per_session=3)
    rows = [row for row in sheet.splitlines() if row.startswith("\t")]
    assert len(rows) == len(key) == 6
    assert "old" not in "".join(rows)
    filled = "\n".join(("u" if "rule" in row else "f") + row for row in rows)
    assert score_sheet(filled, key).splitlines()[2:] == ["| new | 3 | 100% | 44%-100% | 0 |", "| old | 3 | 0% | 0%-56% | 3 |"]


def test_a_sheet_with_a_gap_is_refused() -> None:
    with pytest.raises(ValueError, match="line 001 of the sheet has the verdict ''; write u, n or f"):
        score_sheet("\t001\tObjective\tship", {"001": "new"})


def test_drafts_of_sessions_played_at_once_reach_their_windows_in_common_batches() -> None:
    """Each session is asked about with and without the model's lines, and prompts that wait together are answered together."""
    sizes = []

    def answer(prompts: Sequence[str]) -> list[str]:
        sizes.append(len(prompts))
        return [f"{DRAFT}\n" for _ in prompts]

    sessions = [make_session("frozen", seed=seed, size=SMALL) for seed in (1, 2)]
    lines = asyncio.run(make_draft_lines(sessions, answer))
    assert [(line["seed"], line["arm"]) for line in lines] == [(seed, arm) for seed in (1, 2) for arm in (EXTRACTIVE, DRAFTED)]
    drafted = {line["arm"] for line in lines if "the reviewer wants smaller patches" in line["ctx"]}
    assert drafted == {DRAFTED}
    assert lines[0]["qs"] == lines[1]["qs"]
    assert max(sizes) == len(sessions)
