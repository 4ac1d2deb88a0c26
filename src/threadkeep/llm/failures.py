"""What a provider's error means: send less, ask again, or neither.

A provider's text is hostile input: it is cut, made one line, and rid of the credential before it enters an error of ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from threadkeep.dialects.raw_json import Fields, read_fields
from threadkeep.errors import ModelError, ModelOverflow, ModelRejected, ModelUnavailable

CODES: Final = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
        "request_too_large",
        "string_above_max_length",
    }
)

_NUMBER: Final = r"(?P<limit>\d[\d,_]{2,})"

# Each pattern is one server's sentence, cut down to the words that mean an overflow. The first that matches decides.
_SENTENCES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"prompt is too long(?:: *\d+ *tokens *> *{_NUMBER})?",
        rf"exceed context limit(?:: *\d+ *\+ *\d+ *> *{_NUMBER})?",
        rf"maximum context length(?: is| of)? (?:only )?{_NUMBER}",
        rf"{_NUMBER} maximum context length",
        rf"maximum prompt length is {_NUMBER}",
        rf"available context size(?: \({_NUMBER} tokens\))?",
        rf"exceeds the maximum number of tokens allowed \({_NUMBER}\)",
        rf"token count of \d+ exceeds the limit of {_NUMBER}",
        rf"context length of only {_NUMBER}",
        # A budget per minute that one request alone exceeds: waiting never helps, sending less does.
        rf"request too large for .*? limit:? {_NUMBER}",
        r"exceeds the context window",
        r"exceeds the (?:model's )?(?:maximum )?context length",
        r"context (?:size|window|length) (?:has been |was |is )?exceeded",
        r"input is too long for requested model",
        r"reduce the length of the (?:messages|prompt|input)",
    )
)

# A larger window is a mistake in the sentence.
_LARGEST_WINDOW: Final = 1_000_000_000


def is_overflow(*, codes: frozenset[str], message: str) -> bool:
    """Whether an error's codes, or else its sentence, say that the request does not fit."""
    return not codes.isdisjoint(CODES) or any(pattern.search(message) for pattern in _SENTENCES)


def find_window(message: str) -> int | None:
    """Return the window that a sentence about an overflow names; None if it names none."""
    for pattern in _SENTENCES:
        found = pattern.search(message)
        if found is not None and (limit := found.groupdict().get("limit")):
            window = int(re.sub(r"[,_]", "", limit))
            return window if 0 < window <= _LARGEST_WINDOW else None
    return None


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds the provider asks to wait; None if it does not say, or says it unreadably.

    `headers` has lower-case names. Milliseconds are the most exact and win. A date is measured from the answer's own `Date`, so
    that different clocks do not matter.
    """
    milliseconds = _parse_number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    after = headers.get("retry-after", "")
    seconds = _parse_number(after)
    return _seconds_between(after, since=headers.get("date", "")) if seconds is None else seconds


def _parse_number(text: str) -> float | None:
    """Return a plain number that is not negative; None for `inf`, `nan` and exponents."""
    whole, _, fraction = text.strip().partition(".")
    digits = whole + fraction
    return float(text) if digits.isascii() and digits.isdigit() and whole and len(digits) < 16 else None


def _seconds_between(text: str, *, since: str) -> float | None:
    then, now = _parse_date(text), _parse_date(since)
    return None if then is None or now is None else max(0.0, (then - now).total_seconds())


def _parse_date(text: str) -> datetime | None:
    # Imported with the first date a provider sends, which most never do: it loads half of the standard library.
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return None if moment.tzinfo is None else moment


MAX_REASON_CHARS: Final = 300
# An error's beginning says what is wrong; the rest is not searched.
MAX_MESSAGE_CHARS: Final = 4_000

TOO_LARGE: Final = 413
# A retry may help: a timeout, a lock, a refused replay, a rate limit. Everything from 500 on belongs here too, except the two
# statuses of a server that will never do it.
TRANSIENT: Final = frozenset({408, 409, 425, 429, 499})
NEVER: Final = frozenset({501, 505})

# The status that an error within a stream, which has none, would have had.
STATUS_OF_CODE: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "api_error": 500,
    "overloaded_error": 529,
}
# A rate limit passes with time, an empty account does not, though both come as 429.
SPENT: Final = frozenset({"insufficient_quota", "billing_error", "billing_hard_limit_reached", "usage_not_included"})
# Refusals that pass with time, whatever their status.
PASSING: Final = frozenset({"compaction_unavailable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetails:
    """The parts of a provider's error.

    Attributes:
        codes: Every code or type it has.
        status: The HTTP status it names itself, if any; servers that fail within a stream name one.
        window_tokens: The window of the model, if a field names it.
    """

    codes: frozenset[str] = frozenset()
    message: str = ""
    status: int | None = None
    window_tokens: int | None = None


def parse_error_body(body: bytes) -> ErrorDetails:
    """Parse the body of a refusal; a body that is not a JSON object is its own message."""
    fields = read_fields(body)
    if fields is None:
        return ErrorDetails(message=body[:MAX_MESSAGE_CHARS].decode(errors="replace"))
    return parse_error(fields)


def parse_error(fields: Fields) -> ErrorDetails:
    """Parse an error object of OpenAI, Anthropic, llama.cpp or vLLM, or a bare sentence."""
    error = fields.object("error") or fields
    code = error.integer("code")
    named = (
        error.text("code"),
        error.text("type"),
        error.inner("details").text("error_code"),
    )
    message = error.text("message") or fields.text("error") or fields.text("message") or fields.text("detail") or ""
    return ErrorDetails(
        codes=frozenset(name for name in named if name),
        message=message[:MAX_MESSAGE_CHARS],
        status=code if code is not None and 400 <= code < 600 else None,
        window_tokens=error.count("n_ctx") or None,
    )


def read_refusal(name: str, *, status: int, body: bytes, headers: Mapping[str, str], secrets: Sequence[str] = ()) -> ModelError:
    """Return the error that an answer with an error status means for the model `name`; `headers` has lower-case names."""
    details = parse_error_body(body)
    if status == TOO_LARGE or is_overflow(codes=details.codes, message=details.message):
        return _make_overflow(name, details)
    reason = clean_reason(details.message, secrets=secrets) or "it gave no reason"
    if _may_retry(status, details.codes, should_retry=headers.get("x-should-retry")):
        return ModelUnavailable(name, reason=f"HTTP {status}, {reason}", retry_after_s=parse_retry_after(headers))
    return ModelRejected(name, status=status, reason=reason)


def read_failure(name: str, details: ErrorDetails, *, secrets: Sequence[str] = ()) -> ModelError:
    """Return the error that an error within a stream means for the model `name`.

    An unknown error may be retried: the provider accepted the request before it failed.
    """
    if is_overflow(codes=details.codes, message=details.message):
        return _make_overflow(name, details)
    known = [STATUS_OF_CODE[code] for code in sorted(details.codes) if code in STATUS_OF_CODE]
    status = details.status or (known[0] if known else 402 if details.codes & SPENT else 500)
    reason = clean_reason(details.message, secrets=secrets) or "it failed without a reason"
    if _may_retry(status, details.codes, should_retry=None):
        return ModelUnavailable(name, reason=reason)
    return ModelRejected(name, status=status, reason=reason)


def clean_reason(text: str, *, secrets: Sequence[str] = ()) -> str:
    """Return a provider's text as part of a sentence: one short line, without a credential it echoes."""
    for secret in secrets:
        text = text.replace(secret, "[credential]")
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= MAX_REASON_CHARS else f"{line[: MAX_REASON_CHARS - 1]}…"


def _make_overflow(name: str, details: ErrorDetails) -> ModelOverflow:
    return ModelOverflow(name, limit_tokens=details.window_tokens or find_window(details.message))


def _may_retry(status: int, codes: frozenset[str], *, should_retry: str | None) -> bool:
    """Whether a retry may help. If the provider itself says, that decides."""
    if should_retry in ("true", "false"):
        return should_retry == "true"
    if codes & SPENT:
        return False
    return bool(codes & PASSING) or status in TRANSIENT or (status >= 500 and status not in NEVER)
