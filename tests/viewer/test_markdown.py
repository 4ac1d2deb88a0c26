"""Markdown of a transcript is laid out, and nothing in it is markup."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.viewer.stories import HOSTILE

from threadkeep.viewer.renderer import LONGEST_CHARS, render_markdown

OURS = "p strong em code pre ul ol li blockquote hr br table thead tbody tr th td span".split()
ATTRIBUTES = {"class", "start"}


def tags(page: str) -> set[str]:
    return {name.lower() for name in re.findall(r"</?([A-Za-z][\w-]*)", page)}


def test_lists_code_tables_and_headings_are_laid_out() -> None:
    """A heading is a bold line, and a link shows where it leads without leading there."""
    text = "# Plan\n\n1. **Read** `a.py`\n2. See [docs](https://example.test/x)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert render_markdown(text) == (
        '<p class="heading">Plan</p>\n<ol>\n<li><strong>Read</strong> <code>a.py</code></li>\n'
        '<li>See <span class="link">docs</span> <code>https://example.test/x</code></li>\n</ol>\n'
        "<table>\n<thead>\n<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>1</td>\n<td>2</td>\n</tr>\n"
        "</tbody>\n</table>\n"
    )


@pytest.mark.parametrize("text", ["plain words", "", "a < b", "x" * (LONGEST_CHARS + 1) + "\n# long"])
def test_what_has_nothing_to_lay_out_is_left_alone(text: str) -> None:
    """The exact text stands above it anyway."""
    assert render_markdown(text) is None


@pytest.mark.parametrize(
    "text",
    [
        HOSTILE,
        "# <script>alert(1)</script>",
        "- ![x](https://example.test/track.png)",
        "[x](javascript:alert(1)) `y`",
        '[x](https://example.test/"onmouseover=alert(1)) `y`',
        "<https://example.test> `y`",
        "```\n</code></pre><img src=x onerror=alert(1)>\n```",
        "| <b>a</b> | b |\n|:--|--:|\n",
    ],
)
def test_hostile_text_stays_text(text: str) -> None:
    """No tag that is not ours, no address that is followed or fetched."""
    page = render_markdown(text) or render_markdown(f"# x\n\n{text}") or ""
    assert tags(page) <= set(OURS)
    assert re.findall(r"\s(href|src|on\w+)=", re.sub(r"&[a-z#0-9]+;", "", re.sub(r">[^<]*<", "><", page))) == []


@given(st.lists(st.sampled_from((*"#*`[]()<>!|-_\\\n\"'& ", "a", "<script>", "](", "onload=", "href=")), max_size=40))
def test_whatever_is_written_only_our_own_tags_come_of_it(pieces: list[str]) -> None:
    """For any text at all."""
    page = str(render_markdown("# x\n\n" + "".join(pieces)))
    assert tags(page) <= set(OURS)
    assert {name for tag in re.findall(r"<\w+([^>]*)>", page) for name in re.findall(r"\s([\w-]+)=", tag)} <= ATTRIBUTES
