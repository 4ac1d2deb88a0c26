"""What people said is told whole; only pasted blocks are shortened, and only acknowledgements are left out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.compaction.message_judgement import is_acknowledgement
from threadkeep.compaction.message_shortener import MESSAGE_TOKENS, cut_middle, shorten, split_fences
from threadkeep.tokens import estimate_text

LOG = "\n".join(f"2026-11-0{number % 9 + 1} 12:00:{number:02d} GET /tides/{number} 200 {number}ms" for number in range(40))
TRACE = (
    'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n  File "b.py", line 9, in run\nValueError: 7 != 8'
)
DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1,4 +1,4 @@\n-old = 1;\n+new = {2: [3]};"


@pytest.mark.parametrize(
    "said",
    [
        *(
            "ok",
            "OK!",
            "Yes.",
            "thanks",
            "Thank you!",
            "go on",
            "Continue…",
            "keep going",
            "weiter",
            "好的。",
            "続けて",
            "네",
            "👍",
        ),
        *("ok continue", "Ok, continue", "yes please go on", "Yes, thank you!", "Hey", "ok ok ok", "да, продолжай", "好的，继续"),
        *("", "…", "!!"),
    ],
)
def test_what_only_acknowledges_is_known(said: str) -> None:
    """In several languages, whatever signs stand around it."""
    assert is_acknowledgement(said)


@pytest.mark.parametrize(
    "said",
    [
        *("no", "stop", "undo", "8080", "ok, but keep port 8080", "yes to the first, no to the second", "continue with part 2"),
        *(
            "keep",
            "keep it",
            "on",
            "you",
            "looks",
            "can leave it",
            "wow, it works",
            "go back",
            "ok, do not push",
            "yes, mach es rot",
        ),
        *("不", "不要", "停", "用八", "やめて", "だめ", "لا", "توقف", "नहीं", "нет", "הפסק", "아니요", "Nein", "v2", "C++"),
    ],
)
def test_a_short_message_that_says_something_is_none(said: str) -> None:
    """A character or two may change everything."""
    assert not is_acknowledgement(said)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            f"Never cache errors. The log:\n\n{LOG}\n\nWhat is wrong?",
            "2026-11-01 12:00:00 GET /tides/0 200 0ms [… 39 more pasted",
        ),
        (f"It fails:\n```\n{LOG}\n```\nFix it.", "2026-11-01 12:00:00 GET /tides/0 200 0ms [… 39 more pasted lines]\nFix it."),
        (f"It fails:\n~~~text\n{LOG}\n~~~", "[… 39 more pasted lines]"),
        (f"Apply this:\n```diff\n{DIFF}\n```", "--- a/x.py [… 4 more pasted lines]"),
        (f"Why?\n{TRACE.replace('ValueError', '    ValueError')}", "Traceback (most recent call last): [… 3 more pasted lines]"),
    ],
)
def test_a_pasted_block_is_shortened_to_its_first_line(said: str, told: str) -> None:
    """Logs, traces, diffs and fences, by their shape alone; the words around them stay."""
    short = shorten(said)
    assert told in short
    assert short.split("\n")[0] == said.split("\n")[0]
    assert "/tides/3 " not in short


@pytest.mark.parametrize(
    "said",
    [
        "Use this:\n```\nport = 8080\nhost = 'a'\n```",
        "1. Read it.\n2. Port it.\n3. Test it.\n4. Ship it.\n5. Rest.",
        "- src/a.py stays\n- src/b.py goes\n- src/c.py moves to lib/\n- nothing else\n- really",
        "Rules:\nNever push to main.\nAlways run the tests.\nAsk before you delete.\nKeep it short.",
        "请先阅读文件。\n不要推送到主分支。\n端口是8080。\n最后再测试。\n谢谢。",
    ],
)
def test_lists_rules_and_short_snippets_stay_whole(said: str) -> None:
    """Few lines, bullets and prose are what a person says."""
    assert [line for line in shorten(said).split("\n") if line] == [line for line in said.split("\n") if line[:3] != "```"]


def test_a_very_long_message_keeps_its_beginning_and_its_end() -> None:
    """What is wanted stands in one of them; the cut says how much is missing."""
    said = "Read all of this first. " + "Words of a long story that goes on and on. " * 400 + "Now port the parser."
    short = shorten(said)
    assert short.startswith("Read all of this first.")
    assert short.endswith("Now port the parser.")
    assert "characters …]" in short
    assert estimate_text(short) <= MESSAGE_TOKENS + 20


def test_a_fence_that_nothing_closes_opens_nothing() -> None:
    """What follows is still said."""
    assert list(split_fences("a\n```py\nb\n~~~\nc")) == [(False, ["a", "```py", "b", "~~~", "c"])]
    assert list(split_fences("a\n```py\nb\n```\nc")) == [(False, ["a"]), (True, ["b"]), (False, ["c"])]


@pytest.mark.parametrize("said", ["```a\n" * 60_000, "~~~ b\n" * 60_000, "```\n" * 60_000, " " * 300_000, "    x\n" * 60_000])
def test_no_arrangement_of_fences_takes_long(said: str) -> None:
    """Each line is looked at once: this returns at all."""
    assert estimate_text(shorten(said)) <= MESSAGE_TOKENS + 20


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=400), st.integers(1, 60))
def test_cutting_the_middle_keeps_both_ends(text: str, tokens: int) -> None:
    """A text that fits is left alone; one that does not begins and ends as it did."""
    cut = cut_middle(text, tokens=tokens)
    if estimate_text(text) <= tokens:
        assert cut == text
    else:
        head, _, tail = cut.partition(" [… ")
        assert text.startswith(head)
        assert text.endswith(tail.rpartition(" characters …] ")[2])


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_what_says_something_is_never_shortened_to_nothing(said: str) -> None:
    """And every word of a message without a paste is there."""
    assert bool(shorten(said)) == bool(said.strip())
    if "\n" not in said and len(said.splitlines()) < 4:
        assert shorten(said).split() == said.split()


def test_what_is_cut_twice_counts_all_that_is_gone() -> None:
    """A message that was shortened and has less room later says how much of it is missing, not how much of what was left."""
    said = "Run the check. " + "The build log follows for reference. " * 400
    head, _, rest = cut_middle(shorten(said), tokens=300).partition(" [… ")
    count, _, tail = rest.partition(" characters …] ")
    assert int(count.replace(",", "")) == len(said.strip()) - len(head) - len(tail)
