"""Renders pages from templates, with text of transcripts made safe to show.

Every value is escaped, and the characters that would deceive the eye are written out: controls, and marks that reorder a line so
that it reads as something else. In Markdown nothing becomes markup of its own, leads out of the page or is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from threadkeep.threads import Pointer, sum_attempts
from threadkeep.viewer.compaction_diff import HEADINGS
from threadkeep.viewer.number_format import format_age, format_count, format_dollars, format_duration, format_number, format_share

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


def _render_link_end(_: RendererHTML, tokens: Sequence[Token], index: int, *__: object) -> str:
    depth, at = 0, index
    while at >= 0:
        depth += {"link_close": 1, "link_open": -1}.get(tokens[at].type, 0)
        if depth == 0:
            break
        at -= 1
    return f"</span> <code>{escape(str(tokens[at].attrGet('href') or ''))}</code>"


def _render_cell_start(_: RendererHTML, tokens: Sequence[Token], index: int, *__: object) -> str:
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


def format_moment(at_ms: int) -> str:
    """Return a moment in UTC; the page's script converts it to the reader's own time."""
    return _convert_moment(at_ms).strftime("%Y-%m-%d %H:%M:%S")


def format_iso_moment(at_ms: int) -> str:
    return _convert_moment(at_ms).isoformat(timespec="milliseconds")


def _convert_moment(at_ms: int) -> datetime:
    try:
        return datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    except (ValueError, OverflowError, OSError):
        # The writer's clock may have given any number.
        return datetime.fromtimestamp(0, tz=UTC)


def link_thread(thread_id: str, *rest: object) -> str:
    """Return the address of a thread's page; an imported thread's id may hold any character."""
    return "/".join(["/ui/t", quote(thread_id, safe=""), *(quote(str(part), safe="") for part in rest)])


def link_record(pointer: Pointer) -> str:
    """Return the address of the record a pointer names."""
    return link_thread(pointer.thread_id, "r", pointer.ordinal)


def _finalize(value: object) -> object:
    return reveal(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _make_environment() -> Environment:
    made = Environment(
        loader=PackageLoader("threadkeep.viewer"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": format_number,
        "moment": format_moment,
        "iso_moment": format_iso_moment,
        "duration": format_duration,
        "dollars": format_dollars,
        "markdown": render_markdown,
    }
    made.globals |= {
        "link_thread": link_thread,
        "link_record": link_record,
        "percent": format_share,
        "count": format_count,
        "age": format_age,
        "bill_of": sum_attempts,
        "headings": HEADINGS,
    }
    return made


_ENVIRONMENT = _make_environment()


def render(template: str, values: Mapping[str, object]) -> bytes:
    """Return a page as UTF-8."""
    return _ENVIRONMENT.get_template(template).render(values).encode("utf-8")


def render_macro(template: str, name: str, *values: object) -> str:
    """Return what one macro of a template makes of these values."""
    return str(getattr(_ENVIRONMENT.get_template(template).module, name)(*values))
