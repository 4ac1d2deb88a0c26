"""What a request says about itself beside its history. Hints, read leniently: content decides, these only add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import msgspec

from threadkeep.dialects import AnswerForm, Dialect, Request, Target
from threadkeep.dialects.raw_json import read_object, read_value
from threadkeep.gateway.conversation.rules import CLAUDE_CODE

DIGEST_BYTES: Final = 8

# Where clients name a conversation, the most telling first.
SESSION_HEADERS: Final = (
    "thread-id",
    "x-claude-code-session-id",
    "x-session-id",
    "x-session-affinity",
    "session-id",
    "session_id",
)
SESSION_FIELDS: Final = ("prompt_cache_key", "promptCacheKey")
AGENT_HEADER: Final = "x-claude-code-agent-id"
PARENT_HEADER: Final = "x-parent-session-id"
# Whose account it is. A token that is renewed by the hour says nothing about that; a key is one account's.
ACCOUNT_HEADERS: Final = ("chatgpt-account-id", "openai-organization", "openai-project", "anthropic-organization-id")
KEY_HEADERS: Final = ("x-api-key", "api-key", "x-goog-api-key")
KEY_OPENING: Final = "sk-"
RENEWED_OPENING: Final = "sk-ant-oat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What is known about a request before its history is looked at.

    Attributes:
        client: Who sends it, where that matters: `codex`, `claude-code`; else empty.
        agent: Which sub-agent speaks; empty for the main one.
        session: A digest of the conversation's name; empty where the client gives it none.
        issuer: A digest of the account that answers, at which provider; holds no credential and none can be had from it.
        model: The model that is asked.
        answer_form: How the answer comes.
        is_own_business: Whether the client says that it asks on its own behalf.
    """

    client: str = ""
    agent: str = ""
    session: str = ""
    issuer: str = field(default="", repr=False)
    model: str = ""
    answer_form: AnswerForm = "whole"
    is_own_business: bool = False


def read_hints(headers: Mapping[str, str], request: Request, target: Target, *, upstream: str, key: bytes) -> Hints:
    """Return the hints in a request; `key` is the tenant's, so that no digest says the same of two of them."""
    codex = read_turn_metadata(headers)
    agent = headers.get(AGENT_HEADER) or codex.agent or (headers.get("x-session-id", "") if headers.get(PARENT_HEADER) else "")
    name = _session_name(headers, request.fields)
    return Hints(
        client=_client(headers),
        agent=agent,
        session=_digest(f"session\0{name}\0{agent}", key) if name else "",
        issuer=digest_issuer(headers, upstream=upstream, key=key),
        model=target.model,
        answer_form=target.form,
        is_own_business=codex.is_side_request,
    )


def digest_issuer(headers: Mapping[str, str], *, upstream: str, key: bytes) -> str:
    """Return a digest of who answers: the provider, and the account as far as the headers tell it."""
    account = [f"{name}={headers[name]}" for name in (*ACCOUNT_HEADERS, *KEY_HEADERS) if headers.get(name)]
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.startswith(KEY_OPENING):
        account.append(f"bearer={token}")
    lasting = [each for each in account if RENEWED_OPENING not in each]
    return _digest("\0".join(("issuer", upstream, *lasting)), key)


def _client(headers: Mapping[str, str]) -> str:
    if "x-claude-code-session-id" in headers or headers.get("user-agent", "").startswith("claude-cli/"):
        return CLAUDE_CODE
    return "codex" if "x-codex-turn-metadata" in headers else ""


def _session_name(headers: Mapping[str, str], fields: Mapping[str, bytes]) -> str:
    """Return what the client calls the conversation, with where it says so: two places may use one name for two things."""
    for name in SESSION_HEADERS:
        if value := headers.get(name):
            return f"{name}={value}"
    for name in SESSION_FIELDS:
        if name in fields and isinstance(key := read_value(fields[name]), str) and key:
            return f"{name}={key}"
    user = (read_object(fields.get("metadata", b"null")) or {}).get("user_id")
    session = (read_object(user.encode()) or {}).get("session_id") if isinstance(user, str) else None
    return f"metadata={session}" if isinstance(session, str) and session else ""


def _digest(text: str, key: bytes) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=DIGEST_BYTES).hexdigest()


HEADER = "x-codex-turn-metadata"
ROOT_AGENT = "/root"


class TurnMetadata(msgspec.Struct, frozen=True):
    """The parts of Codex's turn metadata that matter here."""

    request_kind: str = "turn"
    agent_name: str = ROOT_AGENT

    @property
    def is_side_request(self) -> bool:
        """Whether the client asks on its own behalf (its own compaction, say), not as the next step of the conversation."""
        return self.request_kind != "turn"

    @property
    def agent(self) -> str:
        """Which sub-agent speaks; empty for the main one."""
        return "" if self.agent_name == ROOT_AGENT else self.agent_name


def read_turn_metadata(headers: Mapping[str, str]) -> TurnMetadata:
    """Return the metadata of a request; the plain defaults where there is none or it cannot be read."""
    try:
        return msgspec.json.decode(headers.get(HEADER, "{}"), type=TurnMetadata)
    except (msgspec.MsgspecError, RecursionError):
        return TurnMetadata()


EMPTY: Final = frozenset({b"null", b"[]"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A request told by how its instructions begin, by having no tools, and by what its only message says."""

    instructions: str
    says: str = ""


WITHOUT_TOOLS: Final = (
    Kind(instructions="You are a title generator"),
    Kind(instructions="You are a context summarization agent", says="<conversation>"),
    Kind(instructions="You are a context summarization assistant", says="<conversation>"),
)
# Claude Code asks for its summary behind the history itself, in the last part of the last message.
SUMMARY_REQUEST: Final = "CRITICAL: Respond with TEXT ONLY"


def is_side_request(request: Request, *, path: str, hints: Hints, dialect: Dialect) -> bool:
    """Whether a request is no step of a conversation, as far as it tells by itself; see also `asks_for_summary`."""
    if hints.is_own_business or dialect.api.is_side_request(request, path=path):
        return True
    if asks_for_summary(request) and hints.client == CLAUDE_CODE:
        return True
    return request.fields.get("tools", b"null") in EMPTY and any(_is(kind, request, dialect) for kind in WITHOUT_TOOLS)


def asks_for_summary(request: Request) -> bool:
    """Whether a request ends with the words Claude Code asks for a summary with; without its headers a known history must
    stand before them.
    """
    last = (read_object(request.items[-1].raw) or {}) if request.items else {}
    content = last.get("content")
    part = content[-1] if isinstance(content, list) and content else content
    text = part.get("text") if isinstance(part, dict) else part
    return last.get("role") == "user" and isinstance(text, str) and text.startswith(SUMMARY_REQUEST)


def _is(kind: Kind, request: Request, dialect: Dialect) -> bool:
    if not dialect.api.find_instructions(request).lstrip().startswith(kind.instructions):
        return False
    return not kind.says or (len(request.items) == 1 and kind.says in dialect.view(request.items[0]).text)
