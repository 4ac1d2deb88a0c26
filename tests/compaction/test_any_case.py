"""Phrases that are found whatever the case of their letters."""

from __future__ import annotations

import re

import pytest

from threadkeep.compaction import changes, slots
from threadkeep.compaction.any_case import AnyCase

TEXTS = (
    "INSTEAD of 8080, Use Port 9090 after All.",
    "Never mind what I said about MONDAYS; thank YOU very much!",
    "STATT Montag LIEBER Dienstag, das ist KÜNFTIG so.",
    "ЗАБУДЬ про порт 8080, Спасибо",
    "Inſtead of \u212aim, ask İpek in İzmir on ＦＲＩＤＡＹ.",
    "把端口改为 9090，Instead OF 8080。",
)
PHRASES = (changes._strong, changes._withdrawal, changes._courtesy, slots._slot)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("phrases", PHRASES, ids=("strong", "withdrawal", "courtesy", "slot"))
def test_phrases_are_found_where_matching_without_regard_to_case_finds_them(phrases: AnyCase, text: str) -> None:
    """Each pattern finds the same groups at the same places as `re.IGNORECASE` does, and takes away the same."""
    plain = re.compile(phrases._pattern, re.IGNORECASE)
    expected = [(match.lastgroup, match.span()) for match in plain.finditer(text)]
    assert [(match.lastgroup, match.span()) for match in phrases.finditer(text)] == expected
    assert phrases.sub(" ", text) == plain.sub(" ", text)


def test_what_stays_keeps_its_case() -> None:
    """Only what is found is replaced; a text that holds nothing comes back as it was."""
    assert AnyCase(r"\bdrop\b").sub("…", "Please DROP the Port and Drop It") == "Please … the Port and … It"
    assert AnyCase(r"\bdrop\b").sub("…", "Keep the Port") == "Keep the Port"
