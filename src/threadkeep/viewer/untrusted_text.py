"""Makes text of a transcript safe to show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

_colours = re.compile(r"\x1b\[[0-9;:]*m")
_unseen = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_spaces = re.compile(r"\s+")


def clean(text: str) -> str:
    """Return `text` with every character that cannot be seen, or that moves others, written out; line ends and tabs stay."""
    text = _colours.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = _unseen.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)
    return text.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, *, limit: int) -> str:
    """Return the beginning of `text` on one line of at most `limit` characters."""
    # Cut first: a line needs no more than a glance at a megabyte of output.
    line = _spaces.sub(" ", text[: limit * 4]).strip()
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


# Longer texts are logs and files; nobody reads those laid out.
LONGEST_CHARS = 20_000
_signs = re.compile(r"^#{1,6} |^```|^\s*(?:[-*]|\d+\.) |\*\*\S|`\S|^\|.*\|$|\]\(", re.MULTILINE)


def formatted(text: str) -> Markup | None:
    """Return `text` laid out; None where it has nothing to lay out, or is too long for it.

    Headings become bold lines, so that those of the page keep their order; the address of a link is shown and cannot be followed.
    """
    if len(text) > LONGEST_CHARS or _signs.search(text) is None:
        return None
    return Markup(_MARKDOWN.render(clean(text)))  # everything of the text was escaped by the renderer


def _link_close(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    depth, at = 0, index
    while at >= 0:
        depth += {"link_close": 1, "link_open": -1}.get(tokens[at].type, 0)
        if depth == 0:
            break
        at -= 1
    return f"</span> <code>{escape(str(tokens[at].attrGet('href') or ''))}</code>"


def _link_open(*_: Any) -> str:
    return '<span class="link">'


def _heading_open(*_: Any) -> str:
    return '<p class="heading">'


def _heading_close(*_: Any) -> str:
    return "</p>\n"


def _cell_open(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    # Without its alignment: that would be a style of its own, which no page allows.
    return f"<{tokens[index].tag}>"


def _made() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["html_block", "html_inline", "image", "autolink"])
    for rule, function in {
        "link_open": _link_open,
        "link_close": _link_close,
        "heading_open": _heading_open,
        "heading_close": _heading_close,
        "th_open": _cell_open,
        "td_open": _cell_open,
    }.items():
        made.add_render_rule(rule, function)
    return made


_MARKDOWN = _made()
