"""Taking a person's message apart, in any language and any style of typing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.compaction.statements import statements

LOG = "\n".join(f"2026-01-01 12:00:{second:02d} WARN worker-{second} retry={second} queue=[a|b]" for second in range(12))


def holds(text: str, demand: str) -> bool:
    """Whether a demand comes out whole, on its own or as part of one statement."""
    return any(demand in statement for statement in statements(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Never push. Use port 8080.", ["Never push.", "Use port 8080."]),
        ("不要推送到主分支。端口是8080。", ["不要推送到主分支。", "端口是8080。"]),
        ("Не трогай продакшен никогда. Порт всегда восемь.", ["Не трогай продакшен никогда.", "Порт всегда восемь."]),
        (
            "¿Puedes arreglarlo hoy mismo? No toques la base de datos.",
            ["¿Puedes arreglarlo hoy mismo?", "No toques la base de datos."],
        ),
        ("- keep tabs\n- no force pushes\n* ask first", ["keep tabs", "no force pushes", "ask first"]),
        ("1. First do this thing.\n2) Then do that thing.", ["First do this thing.", "Then do that thing."]),
        ("", []),
        ("   \n\n  ", []),
        ("ok", ["ok"]),
        ("Use v1.2.3 from example.com. It is e.g. faster there.", ["Use v1.2.3 from example.com.", "It is e.g. faster there."]),
    ],
)
def test_sentences_and_bullets_are_statements(text: str, expected: list[str]) -> None:
    """Every sentence is one, in its own words, whatever the language."""
    assert statements(text) == expected


def test_a_hard_wrapped_sentence_is_one_statement() -> None:
    """A line broken by a narrow window goes on in the next."""
    text = "Never run the migration against the production database\nunless I have confirmed it in writing the same day."
    assert statements(text) == [text.replace("\n", " ")]


@pytest.mark.parametrize("demand", ["Never retry the upload by yourself.", "never retry the upload by yourself"])
@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_a_demand_around_a_pasted_log_survives_the_log(demand: str, gap: str) -> None:
    """Before it and after it, with a full stop or without, with a blank line between or none."""
    assert holds(f"{demand}{gap}{LOG}", demand)
    assert holds(f"{LOG}{gap}{demand}", demand)


def test_a_pasted_log_is_named_and_not_repeated() -> None:
    """Machine output a person pasted is no statement of theirs."""
    found = statements(f"Look at this, please.\n\n{LOG}")
    assert found[0] == "Look at this, please."
    assert len(found) == 2
    assert "12 pasted lines" in found[1]


def test_a_code_fence_is_named_and_what_surrounds_it_is_heard() -> None:
    """Demands stand on both sides of a fence."""
    text = "Run exactly this.\n```sh\nrm -rf build\n```\nNever touch the cache."
    assert holds(text, "Run exactly this.")
    assert holds(text, "Never touch the cache.")
    assert not holds(text, "rm -rf build")


def test_a_fence_left_open_does_not_swallow_the_rest_of_the_message() -> None:
    """Who forgets to close a fence still gives orders after it."""
    assert holds("It fails:\n```\nTraceback\n  boom\n\nNever touch production without asking me.", "Never touch production")


def test_code_in_triple_backticks_within_a_line_opens_no_fence() -> None:
    """Three backticks and three more on one line are a word in code, not the beginning of a block."""
    assert holds("```make test``` is the command to use.\n\nNever push to main.", "Never push to main.")


LOWERCASE = (
    "never push to main",
    "use tabs in makefiles",
    "keep the changelog short",
    "do not touch vendor",
    "the port is 8080",
    "ask before deleting anything",
    "write docs in english",
    "no force pushes",
)


@pytest.mark.parametrize("count", [2, 5, 8])
def test_lines_typed_without_capitals_or_full_stops_are_demands(count: int) -> None:
    """People in a chat write like this; none of it was pasted."""
    text = "\n".join(LOWERCASE[:count])
    assert [line for line in LOWERCASE[:count] if not holds(text, line)] == []


def test_short_lines_are_statements_of_their_own() -> None:
    """Two rules on two lines can each be corrected without taking the other along."""
    assert statements("use port 8080\nnever push to main") == ["use port 8080", "never push to main"]


@pytest.mark.parametrize(
    "line",
    [
        "لا تدفع أبدا إلى الفرع الرئيسي رقم {}.",
        "मुख्य शाखा {} पर कभी भी सीधे पुश मत करना।",
        "อย่าพุชไปที่สาขาหลัก {} โดยไม่ถามก่อน",
        "לעולם אל תדחוף לענף הראשי מספר {}.",
    ],
)
def test_scripts_without_capitals_are_heard_as_well(line: str) -> None:
    """Nine lines of a script that has no upper case are nine demands, not a paste."""
    lines = [line.format(number) for number in range(9)]
    assert [each for each in lines if not holds("\n".join(lines), each)] == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*LOWERCASE, "```", "~~~", "- item", "Не трогай прод.", LOG, "", "x" * 700]), max_size=12))
def test_any_message_comes_apart_into_bounded_statements(lines: list[str]) -> None:
    """Nothing makes a statement empty or endless."""
    found = statements("\n".join(lines))
    assert all(statement.strip() and len(statement) <= 640 for statement in found)


POLICY = """Thanks for taking this over, some background from the handbook first.
The archive was started in the spring by the team in Porto.
Exports must be signed with the key of the release captain.
It has grown a good deal since then and nobody minds.
Wir dürfen niemals Kundendaten auf Laptops speichern.
导出的文件必须保存在 /srv/gannet 目录下。
The coffee machine on the third floor is broken again."""


@pytest.mark.parametrize("kind", ["", "text", "markdown"])
def test_a_rule_within_pasted_prose_is_heard(kind: str) -> None:
    """Who pastes a policy means its rules; the rest of it stays behind the pointer."""
    found = statements(f"Please read this.\n```{kind}\n{POLICY}\n```\nThen start.")
    assert [text for text in found if text in POLICY] == [
        "Exports must be signed with the key of the release captain.",
        "Wir dürfen niemals Kundendaten auf Laptops speichern.",
        "导出的文件必须保存在 /srv/gannet 目录下。",
    ]


def test_code_and_logs_hold_no_rules() -> None:
    """A comment that says never, or a log line that says must, is a machine's."""
    code = "def load(path):\n    # never twice\n    if not path:\n        raise ValueError('must not be empty')\n    return 1"
    log = "\n".join(f"2026-01-0{day} 12:00:00 ERROR the lease must not be held by worker-{day}" for day in range(1, 9))
    for pasted in (f"```\n{code}\n```", f"```\n{log}\n```", log, f"```python\n{POLICY}\n```"):
        assert [text for text in statements(f"Look:\n\n{pasted}") if "must" in text or "never" in text] == []


@pytest.mark.parametrize(
    ("clause", "joint"),
    [("the tool named gannet-{} stays as it is for now", ", "), ("第{}号仓库的导出任务每天凌晨都要检查一遍日志和余额", "，")],
)
def test_a_sentence_without_end_loses_none_of_its_clauses(clause: str, joint: str) -> None:
    """People who write without full stops, and scripts without spaces, are heard to the last word."""
    text = joint.join(clause.format(number) for number in range(60))
    found = " ".join(statements(text))
    assert [number for number in range(60) if clause.format(number) not in found] == []
    assert max(map(len, statements(text))) <= 600
