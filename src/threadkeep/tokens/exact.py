"""Exact token counts, for model families with a public vocabulary; needs the extra `tokens`.

A vocabulary is loaded when the first text is counted: it takes more than half a second and tens of megabytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

PACKAGE = "quicktok"
# By the longest prefix of a model's name.
_ENCODINGS = {
    "o200k": "o200k_base",
    "gpt-5": "o200k_base",
    "gpt-4o": "o200k_base",
    "gpt-4.1": "o200k_base",
    "gpt-4.5": "o200k_base",
    "gpt-oss": "o200k_base",
    "chatgpt-4o": "o200k_base",
    "codex": "o200k_base",
    "o1": "o200k_base",
    "o3": "o200k_base",
    "o4": "o200k_base",
    "cl100k": "cl100k_base",
    "gpt-4": "cl100k_base",
    "gpt-3.5": "cl100k_base",
}


def find_counter(model_family: str) -> Callable[[str], int] | None:
    """Return a function that counts a text's tokens as `model_family` does; None if `explain_inexact` has a reason.

    Special tokens written in a text count as text, and half a surrogate pair as a question mark.
    """
    encoding = _find_encoding(model_family)
    if encoding is None or find_spec(PACKAGE) is None:
        return None

    def count(text: str) -> int:
        return _load_counter(encoding)(text.encode("utf-8", "replace").decode())

    return count


def explain_inexact(model_family: str) -> str | None:
    """Return, in a sentence, why `model_family` cannot be counted exactly here; None if it can."""
    if _find_encoding(model_family) is None:
        return f"no vocabulary of {model_family!r} is public; its tokens are estimated and corrected by real usage"
    if find_spec(PACKAGE) is None:
        return "exact counting is not installed; install threadkeep[tokens]"
    return None


def _find_encoding(model_family: str) -> str | None:
    name = model_family.lower()
    known = [prefix for prefix in _ENCODINGS if name.startswith(prefix)]
    return _ENCODINGS[max(known, key=len)] if known else None


@cache
def _load_counter(encoding: str) -> Callable[[str], int]:
    import quicktok

    count: Callable[[str], int] = quicktok.get_encoding(encoding).count
    return count
