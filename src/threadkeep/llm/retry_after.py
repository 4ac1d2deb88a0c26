"""When a provider wants to be asked again, read from the headers of its refusal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds the provider asks to wait; None where it does not say, or not so that it can be read.

    `headers` has lower-case names. Milliseconds are the most exact and win. A date is measured from the answer's own `Date`, so
    that two clocks that disagree do not matter.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    after = headers.get("retry-after", "")
    seconds = _number(after)
    return _until(after, since=headers.get("date", "")) if seconds is None else seconds


def _number(text: str) -> float | None:
    """Return a plain number that is not negative; `inf`, `nan` and exponents are none."""
    whole, _, fraction = text.strip().partition(".")
    digits = whole + fraction
    return float(text) if digits.isascii() and digits.isdigit() and whole and len(digits) < 16 else None


def _until(text: str, *, since: str) -> float | None:
    then, now = _moment(text), _moment(since)
    return None if then is None or now is None else max(0.0, (then - now).total_seconds())


def _moment(text: str) -> datetime | None:
    # Loaded with the first date that a provider sends, which most never do: it brings half of the standard library along.
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return None if moment.tzinfo is None else moment
