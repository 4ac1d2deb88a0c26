"""Asking the person behind a client: only people pin, and only people speak for themselves.

A model calls tools, and what it reads may have told it to. So whatever would bind the work is put to the person, through the
client: by a request of the server's where the protocol has them, by a second round of the call where it does not.
"""

from __future__ import annotations

import hmac
import secrets
from enum import Enum
from hashlib import sha256
from typing import Any

import msgspec
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.types import CallToolRequestParams, ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

QUESTION = "confirm"
# Versions are dates. From this one on a server asks nothing by itself: the client asks, and calls again.
ROUNDS_SINCE = "2026-07-28"
# Nothing is to be filled in: yes or no is the answer.
_FORM: dict[str, Any] = {"type": "object", "properties": {}}


class Word(Enum):
    """What came of asking."""

    GIVEN = "given"
    REFUSED = "refused"
    UNASKABLE = "unaskable"


class Confirming:
    """Asks people. `question` marks are bound to what was asked, by a key that lives as long as the server does."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    async def ask(
        self, context: ServerRequestContext[Any, Any], call: CallToolRequestParams, question: str
    ) -> Word | InputRequiredResult:
        """Return whether a person agreed to a call, or, where the client is to ask and call again, what it is to ask."""
        capabilities = context.session.client_capabilities
        asks = capabilities.elicitation if capabilities else None
        if asks is None or (asks.form is None and asks.url is not None):
            return Word.UNASKABLE
        form = ElicitRequestFormParams(message=question, requested_schema=_FORM)
        if context.protocol_version >= ROUNDS_SINCE:
            mark = self._mark(call, question)
            answer = (call.input_responses or {}).get(QUESTION)
            if not isinstance(answer, ElicitResult) or not hmac.compare_digest(call.request_state or "", mark):
                return InputRequiredResult(input_requests={QUESTION: ElicitRequest(params=form)}, request_state=mark)
            return Word.GIVEN if answer.action == "accept" else Word.REFUSED
        if not context.session.can_send_request:
            return Word.UNASKABLE
        try:
            said = await context.session.elicit_form(question, _FORM, related_request_id=context.request_id)
        except MCPError:
            # It said that it can ask, and could not.
            return Word.UNASKABLE
        return Word.GIVEN if said.action == "accept" else Word.REFUSED

    def _mark(self, call: CallToolRequestParams, question: str) -> str:
        """Return what ties an answer to its question: an answer to another one is asked for again."""
        asked = msgspec.json.encode([call.name, sorted((call.arguments or {}).items()), question])
        return hmac.new(self._key, asked, sha256).hexdigest()
