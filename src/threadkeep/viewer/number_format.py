"""Numbers, sizes, ages, durations and prices as people read them, on a page and in a terminal."""

from __future__ import annotations

_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))
_SIZES = ("bytes", "KB", "MB", "GB", "TB")
# A figure that nobody reported is unknown, not zero.
UNKNOWN = "–"


def format_number(value: int | None) -> str:
    """Return a number with thousands separators; a dash for None."""
    return UNKNOWN if value is None else f"{value:,}"


def format_count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 record`, `2,300 records`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def format_share(part: int, whole: int) -> str:
    """Return `part` as a percentage of `whole`."""
    return f"{round(100 * part / whole) if whole else 0} %"


def format_size(number: int) -> str:
    """Return a number of bytes with a unit that fits it."""
    value, unit = float(number), 0
    while value >= 1000 and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {_SIZES[unit]}" if unit == 0 or value >= 100 else f"{value:.1f} {_SIZES[unit]}"


def format_age(at_ms: int, now_ms: int) -> str:
    """Return how long ago a moment was, in the largest unit that fits."""
    seconds = max(0, now_ms - at_ms) // 1000
    return next((f"{seconds // length} {unit} ago" for length, unit in _AGES if seconds >= length), "just now")


def format_duration(ms: int) -> str:
    return f"{ms:,} ms" if ms < 10_000 else f"{ms / 1000:,.1f} s"


def format_dollars(micro: int | None) -> str:
    """Return a price given in millionths of a dollar; a dash if it is unknown."""
    return UNKNOWN if micro is None else f"${micro / 1_000_000:,.4f}"
