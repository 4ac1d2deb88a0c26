"""Renders pages from templates. Every value is escaped and cleaned, so that no template can forget it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from threadkeep.compaction import Section
from threadkeep.threads import Pointer, sum_attempts
from threadkeep.viewer.untrusted_text import clean, formatted

HEADINGS: Mapping[Section, str] = {
    Section.OBJECTIVE: "Objective",
    Section.ACTIVE: "Active memory",
    Section.INACTIVE: "Inactive changes",
    Section.HANDOFF: "Current handoff",
    Section.EVIDENCE: "Evidence pointers",
}


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def number(value: int | None) -> str:
    """Return a number with its thousands apart; a dash where there is none."""
    return "–" if value is None else f"{value:,}"


def percent(part: int, whole: int) -> str:
    """Return `part` as a percentage of `whole`."""
    return f"{round(100 * part / whole) if whole else 0} %"


def counted(value: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{value:,} {one if value == 1 else many or one + 's'}"


def ago(at_ms: int, now_ms: int) -> str:
    """Return how long ago something was, in the largest unit that fits."""
    seconds = max(0, now_ms - at_ms) // 1000
    return next((f"{seconds // length} {unit} ago" for length, unit in _UNITS if seconds >= length), "just now")


def moment(at_ms: int) -> str:
    """Return a moment in UTC, as people write it; the page's script puts it into the reader's own time."""
    return _utc(at_ms).strftime("%Y-%m-%d %H:%M:%S")


def machine_moment(at_ms: int) -> str:
    """Return a moment as machines write it."""
    return _utc(at_ms).isoformat(timespec="milliseconds")


def took(ms: int) -> str:
    """Return a duration."""
    return f"{ms:,} ms" if ms < 10_000 else f"{ms / 1000:,.1f} s"


def dollars(micro: int | None) -> str:
    """Return a price given in millionths of a dollar; a dash where nobody told one."""
    return "–" if micro is None else f"${micro / 1_000_000:,.4f}"


def _utc(at_ms: int) -> datetime:
    try:
        return datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    except (ValueError, OverflowError, OSError):
        # A writer's clock may have said anything; order is by ordinal.
        return datetime.fromtimestamp(0, tz=UTC)


def _shown(value: object) -> object:
    """Return what may be printed: text cleaned, markup of our own as it is."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def thread_url(thread_id: str, *rest: object) -> str:
    """Return the address of a thread's page; ids are made safe, whatever an import called a thread."""
    return "/".join(["/ui/t", quote(thread_id, safe=""), *(quote(str(part), safe="") for part in rest)])


def record_url(pointer: Pointer) -> str:
    """Return the address of the record a pointer names."""
    return thread_url(pointer.thread_id, "r", pointer.ordinal)


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("threadkeep.viewer"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": number,
        "moment": moment,
        "machine_moment": machine_moment,
        "took": took,
        "dollars": dollars,
        "formatted": formatted,
    }
    made.globals |= {
        "thread_url": thread_url,
        "record_url": record_url,
        "percent": percent,
        "counted": counted,
        "bill_of": sum_attempts,
        "ago": ago,
        "headings": HEADINGS,
    }
    return made


_PAGES = _environment()


def render(template: str, values: Mapping[str, object]) -> bytes:
    """Return a page as UTF-8."""
    return _PAGES.get_template(template).render(values).encode("utf-8")
