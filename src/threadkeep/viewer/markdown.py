"""Markdown as models write it, laid out. What stands in a transcript is hostile: nothing in it becomes markup of its own, nothing
leads out of the page, and nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from threadkeep.viewer.cleaning import clean

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
