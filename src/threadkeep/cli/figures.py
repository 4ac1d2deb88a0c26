"""Numbers as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_SIZES = ("bytes", "KB", "MB", "GB", "TB")


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 record`, `2,300 records`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def share(part: int, whole: int) -> str:
    """Return `part` as a percentage of `whole`."""
    return f"{round(100 * part / whole) if whole else 0} %"


def size(number: int) -> str:
    """Return a number of bytes with a unit that fits it."""
    value, unit = float(number), 0
    while value >= 1000 and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {_SIZES[unit]}" if unit == 0 or value >= 100 else f"{value:.1f} {_SIZES[unit]}"


def ago(at_ms: int, *, now_ms: int) -> str:
    """Return how long ago something was, in the largest unit that fits."""
    seconds = max(0, now_ms - at_ms) // 1000
    return next((f"{seconds // length} {unit} ago" for length, unit in _UNITS if seconds >= length), "just now")


def clock_time(at_ms: int) -> str:
    """Return a moment in local time."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
