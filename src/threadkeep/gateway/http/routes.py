"""Which request is a conversation, in which dialect, and which provider it belongs to: decided by method, path and headers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from threadkeep.dialects import DIALECTS, Dialect
from threadkeep.gateway.http.headers import RawHeaders, every

MOUNT = "/v1"


class Provider(StrEnum):
    """Whose API a path belongs to."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


# The requests that carry a history, also those that do not go on with it: a known one must fit there too. Matched whole, since
# `/threads/ID/messages` is another API.
CONVERSATIONS = {
    path: dialect for dialect in DIALECTS.values() for path in (dialect.api.endpoints.turn, *dialect.api.endpoints.others)
}
SEGMENTS = {path.split("/")[1]: Provider(dialect.api.endpoints.provider) for path, dialect in CONVERSATIONS.items()}
# First path segments that only one provider has. `/models` and `/files` are in both APIs, and the headers tell.
SEGMENTS |= dict.fromkeys(("complete", "organizations", "skills"), Provider.ANTHROPIC)
SEGMENTS |= dict.fromkeys(
    ("completions", "conversations", "embeddings", "moderations", "images", "audio", "threads", "assistants"), Provider.OPENAI
)
# Clients that were given a base URL without `/v1` ask for these at the root; anything else there is a mistake to be told.
AT_ROOT = frozenset({"models", "conversations", "embeddings", "completions", *(path.split("/")[1] for path in CONVERSATIONS)})
# The dialect of a provider's own errors: the first of those it speaks.
ERROR_DIALECTS = {Provider(dialect.api.endpoints.provider): dialect for dialect in reversed(DIALECTS.values())}
DEFAULT_DIALECT = next(iter(DIALECTS.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where a request goes.

    Attributes:
        path: What follows the mount: `/responses` for `/v1/responses`.
        provider: Who is asked.
        dialect: What the request speaks, and its errors with it.
        is_conversation: Whether it carries a history; everything else passes through.
    """

    path: str
    provider: Provider
    dialect: Dialect
    is_conversation: bool = False


def find_route(method: str, path: str, headers: RawHeaders) -> Route | None:
    """Return where a request goes, or None where nothing is served at `path`."""
    rest = _after_mount(path)
    if rest is None:
        return None
    dialect = CONVERSATIONS.get(rest) if method == "POST" else None
    provider = _provider(rest, headers)
    if dialect is not None:
        return Route(path=rest, provider=provider, dialect=dialect, is_conversation=True)
    # An endpoint below a conversation's (`/chat/completions/ID`) fails in the words of that conversation.
    below = next((each for root, each in CONVERSATIONS.items() if f"{rest}/".startswith(f"{root}/")), None)
    return Route(path=rest, provider=provider, dialect=below or ERROR_DIALECTS[provider])


def _after_mount(path: str) -> str | None:
    if path == MOUNT or path.startswith(f"{MOUNT}/"):
        rest = path.removeprefix(MOUNT)
        # Some clients add `/v1` to whatever base URL they are given, one that ends in it included.
        return rest.removeprefix(MOUNT) if rest.startswith(f"{MOUNT}/") else rest
    return path if path.split("/", 2)[1:2] and path.split("/", 2)[1] in AT_ROOT else None


def _provider(rest: str, headers: RawHeaders) -> Provider:
    segment = rest.removeprefix("/").split("/", 1)[0]
    if segment in SEGMENTS:
        return SEGMENTS[segment]
    speaks_anthropic = every(headers, b"anthropic-version") or every(headers, b"x-api-key")
    return Provider.ANTHROPIC if speaks_anthropic else Provider.OPENAI
