"""The messages that a page tells people to look for are those the program writes."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Messages of the hosts themselves, and an attribute.
NOT_OURS = {
    "dropping mirror frame: ... is not under ...",
    "store.trouble",
    "Context engine 'threadkeep' not found",
    "Compression aborted: …",
    "accuracy may degrade. Consider /new",
}
# What a quote has in the place of a value.
PLACEHOLDER = re.compile(r"…|CODE|'[a-z]+'")


def list_quotes(page: str) -> list[str]:
    """Return the first quote of each row of the tables headed by `you see`."""
    rows = re.findall(r"^\| you see .*\n\|[-|]+\|\n((?:\|.*\n?)+)", page, re.MULTILINE)
    return [quote[2] for table in rows for line in table.splitlines() if (quote := re.match(r"\| (`+)(.+?)\1", line))]


def spell(text: str) -> str:
    return re.sub(r"[`'\"\s]+", " ", text)


def test_every_message_that_a_page_quotes_is_written_somewhere() -> None:
    """A reader finds the words of the log or the error in the page, letter for letter."""
    source = spell("\n".join(file.read_text() for file in (ROOT / "src").rglob("*.py")))
    quotes = {quote for page in (ROOT / "docs").rglob("*.md") for quote in list_quotes(page.read_text())}
    assert quotes >= NOT_OURS
    parts = {quote: [spell(part).strip(" :") for part in PLACEHOLDER.split(quote)] for quote in quotes - NOT_OURS}
    assert [quote for quote, words in parts.items() if not all(part in source for part in words)] == []
    assert len(parts) > 5
