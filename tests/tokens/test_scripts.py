"""The script-aware estimate, against exact counts of texts it was not fitted on.

`held_out` holds texts of our own: prose, program text, JSON and Chinese of 2 to 7 KB, two of each, and one shorter text
in five more languages. `counts.json` holds their tokens as quicktok 0.4.0 counts them, with which tiktoken 0.14.0 agrees.
"""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import blake2b
from pathlib import Path
from statistics import mean
from typing import Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.tokens import Vocabulary, estimate_by_script, exact_counter, why_inexact

HELD_OUT: Final = Path(__file__).parent / "held_out"
COUNTS: Final[dict[str, dict[Vocabulary, int]]] = json.loads((HELD_OUT / "counts.json").read_text())
VOCABULARIES: Final[tuple[Vocabulary, ...]] = get_args(Vocabulary)
BASE64: Final = "".join(b64encode(blake2b(str(number).encode(), digest_size=63).digest()).decode() for number in range(48))
BASE64_COUNTS: Final[dict[Vocabulary, int]] = {"o200k": 2_731, "cl100k": 2_850}


def held_out(name: str) -> str:
    return (HELD_OUT / f"{name}.txt").read_text(encoding="utf-8")


def error(name: str, vocabulary: Vocabulary) -> float:
    """How far the estimate of a held-out text is off, as a share of its exact count."""
    return abs(estimate_by_script(held_out(name), vocabulary=vocabulary) / COUNTS[name][vocabulary] - 1)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize(("kind", "bound"), [("english", 0.065), ("code", 0.03), ("json", 0.03), ("chinese", 0.07)])
def test_the_estimate_is_as_close_as_its_docstring_says(kind: str, bound: float, vocabulary: Vocabulary) -> None:
    """Mean absolute error over two blocks of 2 to 7 KB that were not fitted."""
    assert mean(error(f"{kind}-{number}", vocabulary) for number in (1, 2)) <= bound


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("language", ["arabic", "german", "japanese", "korean", "russian"])
def test_other_languages_are_within_an_eighth(language: str, vocabulary: Vocabulary) -> None:
    """Four bytes to a token are off by up to 72 % on the same texts."""
    assert error(f"{language}-1", vocabulary) <= 0.14


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("width", [len(BASE64), 76, 28])
def test_base64_is_recognised_in_one_run_in_lines_and_in_ids(vocabulary: Vocabulary, width: int) -> None:
    """A character and a half to a token; four bytes to a token would miss by 63 %."""
    text = "\n".join(BASE64[at : at + width] for at in range(0, len(BASE64), width))
    exact = BASE64_COUNTS[vocabulary] + text.count("\n")
    assert abs(estimate_by_script(text, vocabulary=vocabulary) / exact - 1) <= 0.15


@pytest.mark.parametrize(
    "name", ["src/threadkeep/compaction/checkpoint/layout", "getNextAvailableReservationForWarehouse", "a" * 23]
)
def test_a_path_or_a_long_name_is_not_taken_for_base64(name: str) -> None:
    """At least three characters to a token, where base64 has one and a half."""
    assert estimate_by_script(name) <= len(name) / 3


def test_the_vocabularies_agree_on_ascii_and_differ_on_other_scripts() -> None:
    """The older one has fewer words of other languages."""
    ascii_text, chinese = held_out("code-1"), held_out("chinese-1")
    assert estimate_by_script(ascii_text) == estimate_by_script(ascii_text, vocabulary="cl100k")
    assert estimate_by_script(chinese) < estimate_by_script(chinese, vocabulary="cl100k")


@pytest.mark.parametrize(("text", "tokens"), [("", 0), (b"", 0), (" ", 1), ("word", 1), ("\ud83d", 1), (b"\xff\xfe\x80", 3)])
def test_nothing_is_free_but_nothing(text: str | bytes, tokens: int) -> None:
    """Half a surrogate pair and bytes that are no text have an estimate too."""
    assert estimate_by_script(text) == tokens


@given(st.text() | st.text(alphabet="aA1 .\n\t的ü", max_size=400))
def test_any_text_has_an_estimate_and_its_bytes_have_the_same(text: str) -> None:
    """At least one token for a text, at most four for each of its bytes."""
    estimate = estimate_by_script(text)
    raw = text.encode("utf-8", "replace")
    assert estimate == estimate_by_script(raw)
    assert min(1, len(raw)) <= estimate <= 4 * len(raw)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_the_recorded_counts_are_exact(vocabulary: Vocabulary) -> None:
    """Counted anew wherever exact counting is installed."""
    count = exact_counter(vocabulary)
    if count is None:
        pytest.skip(why_inexact(vocabulary) or "")
    assert {name: count(held_out(name)) for name in COUNTS} == {name: each[vocabulary] for name, each in COUNTS.items()}
    assert count(BASE64) == BASE64_COUNTS[vocabulary]
