"""Numbers and moments as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

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
