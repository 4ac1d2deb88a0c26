"""What a provider's error means: send less, ask again, or neither.

A provider's words are hostile input: they are cut, made one line, and rid of the credential before they enter an error of ours.
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

# Each pattern is one server's sentence, cut down to the words that make it an overflow. The first that matches decides.
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

# A window beyond this is a mistake of the sentence, or of whoever wrote it.
_LARGEST_WINDOW: Final = 1_000_000_000


def is_overflow(*, codes: frozenset[str], message: str) -> bool:
    """Whether an error's codes, or failing that its sentence, say that the request does not fit."""
    return not codes.isdisjoint(CODES) or any(pattern.search(message) for pattern in _SENTENCES)


def find_window(message: str) -> int | None:
    """Return the window that a sentence about an overflow names; None where it names none."""
    for pattern in _SENTENCES:
        found = pattern.search(message)
        if found is not None and (limit := found.groupdict().get("limit")):
            window = int(re.sub(r"[,_]", "", limit))
            return window if 0 < window <= _LARGEST_WINDOW else None
    return None


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
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


MAX_REASON_CHARS: Final = 300
# What an error has to say, it says at the beginning; the rest is not searched.
MAX_COMPLAINT_CHARS: Final = 4_000

TOO_LARGE: Final = 413
# Asking again may help: a timeout, a lock, a replay refused, a rate. Everything from 500 on belongs here too, but for the two
# statuses that say the server will never do what was asked.
TRANSIENT: Final = frozenset({408, 409, 425, 429, 499})
NEVER: Final = frozenset({501, 505})

# What an error within a stream, which has no status of its own, would have had as one.
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
# A rate is a matter of time, an empty account is not, though both come as 429.
SPENT: Final = frozenset({"insufficient_quota", "billing_error", "billing_hard_limit_reached", "usage_not_included"})
# Refusals that name a passing state whatever their status is.
PASSING: Final = frozenset({"compaction_unavailable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetails:
    """What an error says.

    Attributes:
        codes: Every word it has for its kind.
        status: The HTTP status it names in its text, where it does; servers that fail within a stream do.
        window_tokens: The window of the model, where a field names it.
    """

    codes: frozenset[str] = frozenset()
    message: str = ""
    status: int | None = None
    window_tokens: int | None = None


def parse_error_body(body: bytes) -> ErrorDetails:
    """Return what the body of a refusal says; a body that is no JSON object is its own message."""
    fields = read_fields(body)
    if fields is None:
        return ErrorDetails(message=body[:MAX_COMPLAINT_CHARS].decode(errors="replace"))
    return parse_error(fields)


def parse_error(fields: Fields) -> ErrorDetails:
    """Return what an error object says: OpenAI's, Anthropic's, llama.cpp's, vLLM's, or a bare sentence."""
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
        message=message[:MAX_COMPLAINT_CHARS],
        status=code if code is not None and 400 <= code < 600 else None,
        window_tokens=error.count("n_ctx") or None,
    )


def read_refusal(name: str, *, status: int, body: bytes, headers: Mapping[str, str], secrets: Sequence[str] = ()) -> ModelError:
    """Return what an answer with an error status means for whoever asked `name`; `headers` has lower-case names."""
    complaint = parse_error_body(body)
    if status == TOO_LARGE or is_overflow(codes=complaint.codes, message=complaint.message):
        return _overflow(name, complaint)
    reason = clean_reason(complaint.message, secrets=secrets) or "it gave no reason"
    if _may_pass(status, complaint.codes, told=headers.get("x-should-retry")):
        return ModelUnavailable(name, reason=f"HTTP {status}, {reason}", retry_after_s=parse_retry_after(headers))
    return ModelRejected(name, status=status, reason=reason)


def read_failure(name: str, complaint: ErrorDetails, *, secrets: Sequence[str] = ()) -> ModelError:
    """Return what an error within a stream means for whoever asked `name`.

    An unknown error is one that may pass: the provider took the request before it failed.
    """
    if is_overflow(codes=complaint.codes, message=complaint.message):
        return _overflow(name, complaint)
    known = [STATUS_OF_CODE[code] for code in sorted(complaint.codes) if code in STATUS_OF_CODE]
    status = complaint.status or (known[0] if known else 402 if complaint.codes & SPENT else 500)
    reason = clean_reason(complaint.message, secrets=secrets) or "it failed without a reason"
    if _may_pass(status, complaint.codes, told=None):
        return ModelUnavailable(name, reason=reason)
    return ModelRejected(name, status=status, reason=reason)


def clean_reason(text: str, *, secrets: Sequence[str] = ()) -> str:
    """Return a provider's words as a part of one sentence: one line, not long, without a credential it echoes."""
    for secret in secrets:
        text = text.replace(secret, "[credential]")
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= MAX_REASON_CHARS else f"{line[: MAX_REASON_CHARS - 1]}…"


def _overflow(name: str, complaint: ErrorDetails) -> ModelOverflow:
    return ModelOverflow(name, limit_tokens=complaint.window_tokens or find_window(complaint.message))


def _may_pass(status: int, codes: frozenset[str], *, told: str | None) -> bool:
    """Whether asking again may help. A provider that says so itself is believed."""
    if told in ("true", "false"):
        return told == "true"
    if codes & SPENT:
        return False
    return bool(codes & PASSING) or status in TRANSIENT or (status >= 500 and status not in NEVER)
