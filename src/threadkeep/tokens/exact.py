"""Exact counting, for model families whose vocabulary is public and for installs that have the `tokens` extra.

Nothing is loaded before the first text is counted: a vocabulary takes more than half a second and tens of megabytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

PACKAGE = "quicktok"
# The longest prefix of a model's name decides.
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


def exact_counter(model_family: str) -> Callable[[str], int] | None:
    """Return a function that counts a text's tokens as `model_family` does; None where `why_inexact` has a reason.

    The counter takes special tokens written in a text as the text they are, and half a surrogate pair as a question mark.
    """
    encoding = _encoding_of(model_family)
    if encoding is None or find_spec(PACKAGE) is None:
        return None

    def count(text: str) -> int:
        return _counter(encoding)(text.encode("utf-8", "replace").decode())

    return count


def why_inexact(model_family: str) -> str | None:
    """Return, in a sentence, why `model_family` cannot be counted exactly here; None where it can be."""
    if _encoding_of(model_family) is None:
        return f"no vocabulary of {model_family!r} is public; its tokens are estimated and corrected by real usage"
    if find_spec(PACKAGE) is None:
        return "exact counting is not installed; install threadkeep[tokens]"
    return None


def _encoding_of(model_family: str) -> str | None:
    name = model_family.lower()
    known = [prefix for prefix in _ENCODINGS if name.startswith(prefix)]
    return _ENCODINGS[max(known, key=len)] if known else None


@cache
def _counter(encoding: str) -> Callable[[str], int]:
    import quicktok

    count: Callable[[str], int] = quicktok.get_encoding(encoding).count
    return count
