"""Which request is a conversation, in which dialect, and which provider it belongs to: decided by method, path and headers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from threadkeep.dialects import DEFAULT, DIALECTS, MESSAGES, Dialect
from threadkeep.gateway.http.headers import RawHeaders, every

ENDPOINTS = [dialect.api.endpoints for dialect in DIALECTS.values()]
PROVIDERS = tuple(dict.fromkeys(endpoints.provider for endpoints in ENDPOINTS))
MOUNTS = tuple(dict.fromkeys(endpoints.mount for endpoints in ENDPOINTS))
MOUNT = DEFAULT.api.endpoints.mount
OPENAI, ANTHROPIC = DEFAULT.api.endpoints.provider, MESSAGES.api.endpoints.provider

# The requests that carry a history, also those that do not go on with it: a known one must fit there too. Matched whole, since
# `/threads/ID/messages` is another API.
CONVERSATIONS = {
    path: dialect for dialect in DIALECTS.values() for path in (dialect.api.endpoints.turn, *dialect.api.endpoints.others)
}
# Paths that name a model.
PATTERNS = [
    (re.compile(re.escape(path).replace(r"\{model\}", r"[^:?#]+")), dialect)
    for path, dialect in CONVERSATIONS.items()
    if "{model}" in path
]
ROOTS = {path: dialect for path, dialect in CONVERSATIONS.items() if "{" not in path}
SEGMENTS = {path.split("/")[1]: dialect.api.endpoints.provider for path, dialect in ROOTS.items()}
# First path segments that only one provider has. `/models` and `/files` are in several APIs, and the headers tell.
SEGMENTS |= dict.fromkeys(("complete", "organizations", "skills"), ANTHROPIC)
SEGMENTS |= dict.fromkeys(
    ("completions", "conversations", "embeddings", "moderations", "images", "audio", "threads", "assistants"), OPENAI
)
# Clients that were given a base URL without `/v1` ask for these at the root; anything else there is a mistake to be told.
AT_ROOT = frozenset({"models", "conversations", "embeddings", "completions", *(path.split("/")[1] for path in ROOTS)})
# The dialect of a provider's own errors: the first of those it speaks.
ERROR_DIALECTS = {dialect.api.endpoints.provider: dialect for dialect in reversed(DIALECTS.values())}


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
    provider: str
    dialect: Dialect
    is_conversation: bool = False


def find_route(method: str, path: str, headers: RawHeaders) -> Route | None:
    """Return where a request goes, or None where nothing is served at `path`."""
    mount, rest = _split_mount(path)
    if rest is None:
        return None
    dialect = _find_conversation(rest) if method == "POST" else None
    if dialect is not None:
        return Route(path=rest, provider=dialect.api.endpoints.provider, dialect=dialect, is_conversation=True)
    provider = _find_provider(mount, rest, headers)
    # An endpoint below a conversation's (`/chat/completions/ID`) fails in the words of that conversation.
    below = next((each for root, each in ROOTS.items() if f"{rest}/".startswith(f"{root}/")), None)
    return Route(path=rest, provider=provider, dialect=below or ERROR_DIALECTS[provider])


def _find_conversation(rest: str) -> Dialect | None:
    return ROOTS.get(rest) or next((dialect for pattern, dialect in PATTERNS if pattern.fullmatch(rest)), None)


def _split_mount(path: str) -> tuple[str, str | None]:
    """Return the mount a path begins with, and what follows it; None where nothing is served there."""
    for mount in MOUNTS:
        if path == mount or path.startswith(f"{mount}/"):
            rest = path.removeprefix(mount)
            # Some clients add `/v1` to whatever base URL they are given, one that ends in it included.
            return mount, rest.removeprefix(mount) if rest.startswith(f"{mount}/") else rest
    return MOUNT, path if path.split("/", 2)[1:2] and path.split("/", 2)[1] in AT_ROOT else None


def _find_provider(mount: str, rest: str, headers: RawHeaders) -> str:
    """Return whose API a path is: by its mount, by its first segment, or by the headers that only one API has."""
    mounted = {endpoints.provider for endpoints in ENDPOINTS if endpoints.mount == mount}
    if len(mounted) == 1:
        return mounted.pop()
    segment = rest.removeprefix("/").split("/", 1)[0]
    if segment in SEGMENTS:
        return SEGMENTS[segment]
    if every(headers, b"anthropic-version"):
        return ANTHROPIC
    keyed = (each.provider for each in ENDPOINTS if each.key_header and every(headers, each.key_header.encode()))
    return next(keyed, OPENAI)
