"""What refusals mean: every server's words for an overflow, when to come back, and what never enters an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.errors import ModelError, ModelOverflow, ModelRejected, ModelUnavailable
from threadkeep.llm.failures import MAX_REASON_CHARS, ErrorDetails, clean_reason, parse_retry_after, read_failure, read_refusal


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


OVERFLOWS = [
    (400, error("Your input exceeds the context window of this model.", code="context_length_exceeded"), None),
    (400, error("This model's maximum context length is 128000 tokens. However, your messages resulted in 130000."), 128_000),
    (400, error("prompt is too long: 215345 tokens > 200000 maximum", type="invalid_request_error"), 200_000),
    (400, error("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"), 200_000),
    (400, error("too big", type="exceed_context_size_error", code=400, n_prompt_tokens=9000, n_ctx=8192), 8192),
    (400, error("the request exceeds the available context size (8192 tokens), try increasing it"), 8192),
    (500, error("the request exceeds the available context size. try increasing the context size"), None),
    (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400}, 4096),
    (400, error("This model's maximum prompt length is 131072 but the request contains 537812 tokens."), 131_072),
    (400, error("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."), 1_048_575),
    (400, error("prompt token count of 150000 exceeds the limit of 128000"), 128_000),
    (422, {"detail": "Requested token count exceeds the model's maximum context length of 4096 tokens."}, 4096),
    (400, error("Prompt contains 40000 tokens, too large for model with 32768 maximum context length"), 32_768),
    (400, {"error": "Trying to keep 10229 tokens. The model is loaded with context length of only 4096 tokens"}, 4096),
    (400, {"error": "the input length exceeds the context length"}, None),
    (400, error("Please reduce the length of the messages or completion."), None),
    (400, {"message": "Input is too long for requested model."}, None),
    (413, {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}, None),
    (413, "<html>413 Request Entity Too Large</html>", None),
    (429, error("Request too large for gpt-x in organization o on tokens per min (TPM): Limit 30000, Requested 38293."), 30_000),
]


@pytest.mark.parametrize(("status", "body", "limit"), OVERFLOWS)
def test_an_overflow_is_recognised_in_any_servers_words(status: int, body: dict[str, Any] | str, limit: int | None) -> None:
    """The limit comes along wherever it is said."""
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    meant = read_refusal("m", status=status, body=raw, headers={})
    assert isinstance(meant, ModelOverflow)
    assert meant.limit_tokens == limit


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, error("max_tokens is too large: this model supports at most 16384 completion tokens")),
        (400, error("Invalid type for 'input[0].content'")),
        (429, error("Rate limit reached for gpt-x on tokens per min: Limit 30000, Used 29000, Requested 2000.")),
        (503, error("Overloaded")),
    ],
)
def test_other_errors_that_speak_of_limits_are_no_overflow(status: int, body: dict[str, Any]) -> None:
    """Sending less history would not help against them."""
    assert not isinstance(read_refusal("m", status=status, body=json.dumps(body).encode(), headers={}), ModelOverflow)


def test_an_empty_account_is_not_worth_asking_again() -> None:
    """It comes with the status of a rate limit and will not pass like one."""
    body = json.dumps(error("You exceeded your current quota", code="insufficient_quota")).encode()
    assert isinstance(read_refusal("m", status=429, body=body, headers={"retry-after": "1"}), ModelRejected)


@pytest.mark.parametrize(("told", "kind"), [("true", ModelUnavailable), ("false", ModelRejected)])
def test_a_provider_that_says_whether_to_ask_again_is_believed(told: str, kind: type[ModelError]) -> None:
    """Its own word counts more than what its status usually means."""
    status = 400 if told == "true" else 503
    assert isinstance(read_refusal("m", status=status, body=b"{}", headers={"x-should-retry": told}), kind)


def test_a_compaction_that_cannot_be_made_now_may_be_asked_for_again() -> None:
    """Anthropic says so with a code, whatever the status is."""
    details = {"error_code": "compaction_unavailable"}
    body = json.dumps(error("try later", type="invalid_request_error", details=details)).encode()
    assert isinstance(read_refusal("m", status=400, body=body, headers={}), ModelUnavailable)


NOON = "Mon, 16 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "5"}, 5.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Mon, 16 Nov 2026 12:00:30 GMT", "date": NOON}, 30.0),
        ({"retry-after": "Mon, 16 Nov 2026 11:00:00 GMT", "date": NOON}, 0.0),
        ({"retry-after": "Mon, 16 Nov 2026 12:00:30 GMT"}, None),
        ({"retry-after": "soon", "date": NOON}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e9"}, None),
        ({"retry-after": "9" * 40}, None),
        ({"retry-after-ms": "nan", "retry-after": "4"}, 4.0),
    ],
)
def test_when_to_come_back_is_read_from_seconds_milliseconds_and_dates(headers: dict[str, str], expected: float | None) -> None:
    """A date counts from the answer's own clock; what cannot be read says nothing."""
    assert parse_retry_after(headers) == expected


@given(text=st.text(), secret=st.text(min_size=8))
def test_words_of_a_provider_are_one_short_line_without_the_credential(text: str, secret: str) -> None:
    """Whatever a provider writes, an error stays a sentence and the credential stays unsaid."""
    line = clean_reason(f"{text}{secret}{text}", secrets=(secret,))
    assert len(line) <= MAX_REASON_CHARS
    assert line.isprintable()
    assert secret not in line.replace("[credential]", "")


@given(body=st.binary(), status=st.integers(300, 599))
def test_any_refusal_means_something(body: bytes, status: int) -> None:
    """Hostile bytes are refused, unavailable or an overflow, and never an error of another kind."""
    assert isinstance(read_refusal("m", status=status, body=body, headers={}), ModelError)


@given(message=st.text(), codes=st.frozensets(st.text()), status=st.none() | st.integers(400, 599))
def test_any_complaint_means_something(message: str, codes: frozenset[str], status: int | None) -> None:
    """So does an error within a stream."""
    assert isinstance(read_failure("m", ErrorDetails(message=message, codes=codes, status=status)), ModelError)
