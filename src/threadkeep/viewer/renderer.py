"""Renders pages from templates. Every value is escaped and made visible here, so that no template can forget it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from threadkeep.threads import Pointer, sum_attempts
from threadkeep.viewer.diffs import HEADINGS
from threadkeep.viewer.formats import format_age, format_count, format_dollars, format_duration, format_number, format_share
from threadkeep.viewer.untrusted_text import render_markdown, reveal


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
