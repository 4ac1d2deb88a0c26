"""Renders pages from templates. Every value is escaped and made visible here, so that no template can forget it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from threadkeep.compaction import Section
from threadkeep.threads import Pointer, sum_attempts
from threadkeep.viewer.untrusted_text import render_markdown, reveal

HEADINGS: Mapping[Section, str] = {
    Section.OBJECTIVE: "Objective",
    Section.ACTIVE: "Active memory",
    Section.INACTIVE: "Inactive changes",
    Section.HANDOFF: "Current handoff",
    Section.EVIDENCE: "Evidence pointers",
}
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def format_number(value: int | None) -> str:
    """Return a number with thousands separators; a dash for None."""
    return "–" if value is None else f"{value:,}"


def format_percent(part: int, whole: int) -> str:
    return f"{round(100 * part / whole) if whole else 0} %"


def format_count(value: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{value:,} {one if value == 1 else many or one + 's'}"


def format_age(at_ms: int, now_ms: int) -> str:
    """Return how long ago a moment was, in the largest unit that fits."""
    seconds = max(0, now_ms - at_ms) // 1000
    return next((f"{seconds // length} {unit} ago" for length, unit in _UNITS if seconds >= length), "just now")


def format_moment(at_ms: int) -> str:
    """Return a moment in UTC; the page's script converts it to the reader's own time."""
    return _convert_moment(at_ms).strftime("%Y-%m-%d %H:%M:%S")


def format_iso_moment(at_ms: int) -> str:
    return _convert_moment(at_ms).isoformat(timespec="milliseconds")


def format_duration(ms: int) -> str:
    return f"{ms:,} ms" if ms < 10_000 else f"{ms / 1000:,.1f} s"


def format_dollars(micro: int | None) -> str:
    """Return a price given in millionths of a dollar; a dash if it is unknown."""
    return "–" if micro is None else f"${micro / 1_000_000:,.4f}"


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
        "percent": format_percent,
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
