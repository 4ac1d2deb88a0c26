"""Hints of a request: client, session, account, and whether it is a side request. Content decides; hints only add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import AnswerForm, Dialect, Request, Target
from threadkeep.dialects.raw_json import read_object, read_value
from threadkeep.gateway.conversation.rules import CLAUDE_CODE
from threadkeep.items import Role
from threadkeep.tokens import Limits

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
# Headers that identify an account. A key belongs to one account; a token that is renewed by the hour does not identify it.
ACCOUNT_HEADERS: Final = ("chatgpt-account-id", "openai-organization", "openai-project", "anthropic-organization-id")
KEY_HEADERS: Final = ("x-api-key", "api-key", "x-goog-api-key")
KEY_OPENING: Final = "sk-"
RENEWED_OPENING: Final = "sk-ant-oat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What is known about a request before its history is looked at.

    Attributes:
        client: `codex` or `claude-code`; else empty.
        agent: The sub-agent; empty for the main agent.
        session: A digest of the client's name for the conversation; empty where it gives none.
        session_name: That name.
        forked_from: A digest of the name of the conversation that the client forked to make this one.
        issuer: A digest of provider and account; no credential can be derived from it.
        model: The model that is asked.
        answer_form: How the answer comes.
        is_own_business: Whether the client marks it as a side request.
        is_compaction: Whether it marks it as a request for its own compaction.
        window: The context window that the client speaks of; None where it does not.
    """

    client: str = ""
    agent: str = ""
    session: str = ""
    session_name: str = field(default="", repr=False)
    forked_from: str = ""
    issuer: str = field(default="", repr=False)
    model: str = ""
    answer_form: AnswerForm = "whole"
    is_own_business: bool = False
    is_compaction: bool = False
    window: int | None = None


def read_hints(
    headers: Mapping[str, str],
    request: Request,
    target: Target,
    *,
    dialect: Dialect,
    upstream: str,
    key: bytes,
    conversation: str = "",
) -> Hints:
    """Return the hints in a request; with the tenant's `key`, no two tenants share a digest."""
    codex = read_turn_metadata(headers)
    agent = headers.get(AGENT_HEADER) or codex.agent or (headers.get("x-session-id", "") if headers.get(PARENT_HEADER) else "")
    forked = codex.forked_from_thread_id or ""
    place, name = ("conversation", conversation) if conversation else _find_session_name(headers, request.fields)
    return Hints(
        client=_find_client(headers),
        agent=agent,
        session=_digest_name(name and f"{place}={name}", agent=agent, key=key),
        session_name=name,
        forked_from=_digest_name(forked and f"thread-id={forked}", agent=agent, key=key),
        issuer=digest_issuer(headers, upstream=upstream, key=key),
        model=target.model,
        answer_form=target.form,
        is_own_business=codex.is_side_request,
        is_compaction=codex.request_kind == "compaction",
        window=dialect.api.read_window(target.model, headers),
    )


def find_request_limits(backend: Backend, hints: Hints) -> Limits:
    """Return the limits of a request's window."""
    return backend.find_limits(hints.model, told=hints.window)


def digest_issuer(headers: Mapping[str, str], *, upstream: str, key: bytes) -> str:
    """Return a digest of the provider, and of the account as far as the headers identify it."""
    account = [f"{name}={headers[name]}" for name in (*ACCOUNT_HEADERS, *KEY_HEADERS) if headers.get(name)]
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.startswith(KEY_OPENING):
        account.append(f"bearer={token}")
    lasting = [each for each in account if RENEWED_OPENING not in each]
    return _digest("\0".join(("issuer", upstream, *lasting)), key)


def _find_client(headers: Mapping[str, str]) -> str:
    if "x-claude-code-session-id" in headers or headers.get("user-agent", "").startswith("claude-cli/"):
        return CLAUDE_CODE
    return "codex" if "x-codex-turn-metadata" in headers else ""


def _find_session_name(headers: Mapping[str, str], fields: Mapping[str, bytes]) -> tuple[str, str]:
    """Return the client's name for the conversation behind its place: two places may use one name for different things."""
    for place in SESSION_HEADERS:
        if value := headers.get(place):
            return place, value
    for place in SESSION_FIELDS:
        if place in fields and isinstance(key := read_value(fields[place]), str) and key:
            return place, key
    user = (read_object(fields.get("metadata", b"null")) or {}).get("user_id")
    session = (read_object(user.encode()) or {}).get("session_id") if isinstance(user, str) else None
    return "metadata", session if isinstance(session, str) else ""


def _digest_name(name: str, *, agent: str, key: bytes) -> str:
    return _digest(f"session\0{name}\0{agent}", key) if name else ""


def _digest(text: str, key: bytes) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=DIGEST_BYTES).hexdigest()


METADATA_HEADER = "x-codex-turn-metadata"
ROOT_AGENT = "/root"


class TurnMetadata(msgspec.Struct, frozen=True):
    """The parts of Codex's turn metadata that matter here."""

    request_kind: str = "turn"
    agent_name: str = ROOT_AGENT
    forked_from_thread_id: str | None = None

    @property
    def is_side_request(self) -> bool:
        """Whether the client asks for itself, for its own compaction for instance."""
        return self.request_kind != "turn"

    @property
    def agent(self) -> str:
        """The sub-agent; empty for the main agent."""
        return "" if self.agent_name == ROOT_AGENT else self.agent_name


def read_turn_metadata(headers: Mapping[str, str]) -> TurnMetadata:
    """Return the metadata of a request; the plain defaults where there is none or it cannot be read."""
    try:
        return msgspec.json.decode(headers.get(METADATA_HEADER, "{}"), type=TurnMetadata)
    except (msgspec.MsgspecError, RecursionError):
        return TurnMetadata()


NO_TOOLS: Final = frozenset({b"null", b"[]"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRequestKind:
    """A side request without tools, recognised by its first instructions and by the text of its only message."""

    instructions: str
    says: tuple[str, ...] = ()


WITHOUT_TOOLS: Final = (
    SideRequestKind(instructions="You are a title generator"),
    SideRequestKind(instructions="You are a context summarization agent", says=("<conversation>",)),
    SideRequestKind(instructions="You are a context summarization assistant", says=("<conversation>", "# Conversation\n")),
    # Gemini CLI asks a small model how hard the next step is, with the history of the conversation.
    SideRequestKind(instructions="You are a specialized Task Routing AI"),
    # aider has a small model summarise what is old.
    SideRequestKind(instructions="*Briefly* summarize this partial conversation", says=("# USER",)),
)
# Qwen Code gives its note taker the conversation, and tools.
NOTE_TAKER: Final = "You are now acting as the managed memory extraction subagent"
# Claude Code asks for a summary in the last part of the last message, behind the history.
SUMMARY_REQUEST: Final = "CRITICAL: Respond with TEXT ONLY"


def is_side_request(request: Request, *, path: str, hints: Hints, dialect: Dialect) -> bool:
    """Whether a request is not part of a conversation, such as a token count or a title; see also `asks_for_summary`.

    Each kind is recognised by two independent signs. At most one of them is a wording, because wordings change with releases and
    people may type them. Requests of sub-agents are not side requests, because sub-agents have conversations of their own.
    """
    if hints.is_own_business or dialect.api.is_side_request(request, path=path):
        return True
    if hints.client == CLAUDE_CODE and asks_for_summary(request, dialect=dialect):
        return True
    return request.fields.get("tools", b"null") in NO_TOOLS and any(_matches(kind, request, dialect) for kind in WITHOUT_TOOLS)


def asks_for_compaction(request: Request, *, path: str, hints: Hints, dialect: Dialect) -> bool:
    """Whether a side request is one for a client's own compaction: of the provider, or of a model that is to write a summary."""
    service = dialect.api.compaction_service
    if hints.is_compaction or (service is not None and service.find_asked(request, path=path) is not None):
        return True
    retells = any(kind.says and _matches(kind, request, dialect) for kind in WITHOUT_TOOLS)
    return retells or asks_for_summary(request, dialect=dialect)


def asks_for_summary(request: Request, *, dialect: Dialect) -> bool:
    """Whether a request ends with the words that Claude Code uses to ask for a summary."""
    last = request.items[-1] if request.items else None
    if last is None or SUMMARY_REQUEST.encode() not in last.raw:
        return False
    view = dialect.view((dialect.split_parts(last) or [last])[-1])
    return view.role is Role.USER and view.text.startswith(SUMMARY_REQUEST)


def acts_for_its_client(request: Request, dialect: Dialect) -> bool:
    """Whether the model is to do something for the client beside the conversation, such as to take notes of it."""
    return dialect.api.find_instructions(request).lstrip().startswith(NOTE_TAKER)


def _matches(kind: SideRequestKind, request: Request, dialect: Dialect) -> bool:
    if not dialect.api.find_instructions(request).lstrip().startswith(kind.instructions):
        return False
    # pi sets the model's effort in a message of the system's.
    said = [view.text for item in request.items if (view := dialect.view(item)).role is not Role.SYSTEM] if kind.says else []
    return not kind.says or (len(said) == 1 and any(words in said[0] for words in kind.says))
