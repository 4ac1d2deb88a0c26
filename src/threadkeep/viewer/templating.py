"""Pages from templates. Everything that is put into one is escaped and cleaned: no template says so, none can forget it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from threadkeep.compaction import Section
from threadkeep.threads import Pointer, bill_of
from threadkeep.viewer import figures
from threadkeep.viewer.cleaning import clean
from threadkeep.viewer.markdown import formatted

HEADINGS: Mapping[Section, str] = {
    Section.OBJECTIVE: "Objective",
    Section.ACTIVE: "Active memory",
    Section.INACTIVE: "Inactive changes",
    Section.HANDOFF: "Current handoff",
    Section.EVIDENCE: "Evidence pointers",
}


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
        "number": figures.number,
        "moment": figures.moment,
        "machine_moment": figures.machine_moment,
        "took": figures.took,
        "dollars": figures.dollars,
        "formatted": formatted,
    }
    made.globals |= {
        "thread_url": thread_url,
        "record_url": record_url,
        "percent": figures.percent,
        "counted": figures.counted,
        "bill_of": bill_of,
        "ago": figures.ago,
        "headings": HEADINGS,
    }
    return made


_PAGES = _environment()


def render(template: str, values: Mapping[str, object]) -> bytes:
    """Return a page as UTF-8."""
    return _PAGES.get_template(template).render(values).encode("utf-8")
