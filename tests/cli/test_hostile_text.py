"""Transcripts are hostile input: nothing in them is obeyed by a terminal, or read as markup."""

from __future__ import annotations

import json
import re
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.stories import Cli, stored
from tests.histories import call, output, said

from threadkeep import Threadkeep
from threadkeep.cli import main
from threadkeep.cli.safe_text import clean, clean_line, escape_json

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
HOSTILE = (
    "\x1b]0;owned\x07title \x1b[2J\x1b[31mred\x1b[0m \x9b1mbold \x1b]52;c;cHduZWQ=\x1b\\clip \x08\x08back \rover "
    "\u202egnp.exe\u202c [bold red]markup[/bold red] [link=file:///etc]x[/] :skull:"
)
SEEN = "title red bold clip back over gnp.exe [bold red]markup[/bold red] [link=file:///etc]x[/] :skull:"


@pytest.fixture
def hostile(home: Path) -> Path:
    """A store whose every text attacks."""

    async def story(tk: Threadkeep) -> None:
        thread = await tk.thread("hostile")
        for number in range(4):
            name = f"shell{HOSTILE}"
            await thread.record([said(HOSTILE), call(f"c{number}", HOSTILE, name=name), output(f"c{number}", HOSTILE * 20)])
        await thread.compact()
        await thread.record([said(HOSTILE)])

    return stored(home / "hostile.db", story)


@pytest.mark.parametrize(
    "arguments",
    [
        "threads",
        "show hostile",
        "show hostile --window",
        "show hostile --records",
        "show hostile --state",
        "show hostile --tree",
        "recall hostile markup",
        "recall hostile #2",
        "verify",
        "compact hostile --target 5%",
        "threads --json",
        "show hostile --json",
        "show hostile --records --json",
        "show hostile --state --json",
        "recall hostile markup --json",
        "compact hostile --target 5% --json",
    ],
)
def test_no_command_lets_a_transcript_command_the_terminal(cli: Cli, hostile: Path, arguments: str) -> None:
    """Whatever a command prints, for people or machines, holds no character that a terminal obeys."""
    ran = cli(*arguments.split(), "--store", hostile)
    assert (ran.code, ran.err) == (0, "")
    assert OBEYED.findall(ran.out) == []


def test_markup_is_shown_as_it_was_written(cli: Cli, hostile: Path) -> None:
    """Brackets and emoji codes are text; what the escapes decorated stays."""
    lines = cli("recall", "hostile", "#2", "--store", hostile).out.splitlines()
    assert " ".join(" ".join(lines[1:]).split()) == SEEN


def test_json_keeps_every_character(cli: Cli, hostile: Path) -> None:
    """Machines get the text as it was recorded; dangerous characters are escaped, not dropped."""
    records = cli("show", "hostile", "--records", "--json", "--store", hostile).json["records"]
    assert records[2]["body"] == said(HOSTILE)


def test_an_error_cannot_command_the_terminal_either(cli: Cli, hostile: Path) -> None:
    """What was typed comes back in the sentence, harmless."""
    ran = cli("show", "\x1b[2J\x9bnobody", "--json", "--store", hostile)
    assert ran.code == 1
    assert OBEYED.findall(ran.err) == []


@given(st.text(alphabet=st.sampled_from("\x1b[]P\\;0m?\x07\x9b\x9c\x90\x08\r\n\t \u202eaß語")))
def test_nothing_a_terminal_obeys_survives_cleaning(text: str) -> None:
    """Of any mixture of escapes, only text, line ends and tabs are left, and cleaning again changes nothing."""
    cleaned = clean(text)
    assert OBEYED.findall(cleaned) == []
    assert clean(cleaned) == cleaned


@given(st.text(alphabet=st.characters(exclude_categories=["C"], include_characters="\n\t", exclude_characters="\u2028\u2029")))
def test_harmless_text_is_left_alone(text: str) -> None:
    """Letters, marks, symbols and spaces of every script come through unchanged."""
    assert clean(text) == text


def test_half_a_character_does_not_stop_the_output() -> None:
    """A lone surrogate, which no terminal encoding can hold, becomes a question mark."""
    assert clean("a\ud83db") == "a?b"


def test_a_line_is_one_line_of_bounded_length() -> None:
    """Line ends and runs of space become one space; what is too long ends in an ellipsis."""
    assert clean_line("a\n\n  b\tc") == "a b c"
    assert clean_line("abcdef", limit=4) == "abc…"
    assert clean_line("abcd", limit=4) == "abcd"


def test_escaped_json_is_the_same_json() -> None:
    """Only the spelling changes, and only where it must."""
    assert escape_json('{"a":"\x7f\x9b\u202e é 語"}'.encode()) == '{"a":"\\u007f\\u009b\\u202e é 語"}'.encode()


class Terminal(TextIOWrapper):
    """A standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("form", ["markdown", "jsonl", "codex", "responses"])
def test_an_export_to_a_terminal_shows_and_does_not_obey(hostile: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """What a terminal would obey is left out or escaped; JSON says the same as in a file."""
    written = BytesIO()
    monkeypatch.setattr("sys.stdout", Terminal(written, encoding="utf-8"))
    assert main(["export", "hostile", "--format", form, "--store", str(hostile)]) == 0
    shown = written.getvalue().decode()
    assert ("markup" in shown, OBEYED.findall(shown.replace("\n", ""))) == (True, [])
    file = hostile.with_name("exported")
    assert main(["export", "hostile", "--format", form, "--store", str(hostile), "--output", str(file), "--json"]) == 0
    kept = file.read_bytes()
    if form == "markdown":
        assert b"\x1b[2J" in kept
    elif form == "responses":
        assert json.loads(shown) == json.loads(kept)
    else:
        assert [json.loads(line) for line in shown.splitlines()] == [json.loads(line) for line in kept.splitlines()]
