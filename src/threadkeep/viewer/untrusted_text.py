"""Makes text of a transcript safe to show.

Templates escape markup. This module shows the characters that would deceive the eye: controls, and marks that reorder a line so
that it reads as something else. It also renders Markdown, in which nothing becomes markup of its own, leads out of the page or
is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

# Longer texts are logs and files, which nobody reads as Markdown.
LONGEST_CHARS = 20_000

_colours = re.compile(r"\x1b\[[0-9;:]*m")
_unseen = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_markdown_signs = re.compile(r"^#{1,6} |^```|^\s*(?:[-*]|\d+\.) |\*\*\S|`\S|^\|.*\|$|\]\(", re.MULTILINE)


def reveal(text: str) -> str:
    """Return `text` with every invisible or reordering character written out; line ends and tabs stay, colours go."""
    text = _colours.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = _unseen.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)
    return text.encode("utf-8", "replace").decode("utf-8")


def render_markdown(text: str) -> Markup | None:
    """Return `text` as HTML; None if it has no Markdown in it, or is too long.

    Headings become bold lines, so that the page's own outline stays; a link shows its address and cannot be followed.
    """
    if len(text) > LONGEST_CHARS or _markdown_signs.search(text) is None:
        return None
    return Markup(_MARKDOWN.render(reveal(text)))  # the renderer has escaped the text


def _render_link_end(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    depth, at = 0, index
    while at >= 0:
        depth += {"link_close": 1, "link_open": -1}.get(tokens[at].type, 0)
        if depth == 0:
            break
        at -= 1
    return f"</span> <code>{escape(str(tokens[at].attrGet('href') or ''))}</code>"


def _render_cell_start(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    # Without its alignment, which would be an inline style; the pages' policy forbids those.
    return f"<{tokens[index].tag}>"


def _make_markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["html_block", "html_inline", "image", "autolink"])
    made.add_render_rule("link_open", lambda *_: '<span class="link">')
    made.add_render_rule("link_close", _render_link_end)
    made.add_render_rule("heading_open", lambda *_: '<p class="heading">')
    made.add_render_rule("heading_close", lambda *_: "</p>\n")
    made.add_render_rule("th_open", _render_cell_start)
    made.add_render_rule("td_open", _render_cell_start)
    return made


_MARKDOWN = _make_markdown()
