"""Masks credentials that people paste or tools print. The original stays in its record."""

from __future__ import annotations

import re

_secret = re.compile(
    r"""\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}                      # provider and payment keys
      | \bAKIA[0-9A-Z]{16}\b                                  # AWS access keys
      | \bgh[pousr]_[A-Za-z0-9]{30,}\b | \bgithub_pat_\w{30,}\b
      | \bglpat-[\w-]{20,} | \bxox[abprs]-[\w-]{10,}
      | \bAIza[\w-]{30,} | \bya29\.[\w-]{20,}
      | \beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}           # JSON web tokens
      | -----BEGIN[ A-Z]*PRIVATE\ KEY-----.*?(?:-----END[ A-Z]*PRIVATE\ KEY-----|$)
      | (?<=://)[^\s/:@]+:[^\s/@]+(?=@)                       # user:password@host
      | (?i:(?<=password=)|(?<=passwd=)|(?<=token=)|(?<=api_key=)|(?<=apikey=)|(?<=secret=)|(?<=bearer\ ))[^\s"'&,;]{8,}
    """,
    re.VERBOSE | re.DOTALL,
)


_masked = re.compile(r"…\[secret")
# A value behind a word such as "password". It must hold a figure: in prose the next word may be any word.
_password = re.compile(
    r"""\b((?:password|passwd|passphrase|secret|token|api[\ _-]?key)(?:\s+is|\s*[:=])\s*["'`]?)"""
    r"""(?=[^\s"'`]*\d)([^\s"'`&,;]{8,})""",
    re.IGNORECASE,
)

# Every match of the patterns holds one of these marks; nearly every text has none and skips the patterns.
_MARKS = (
    *("sk-", "pk-", "rk-", "akia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "aiza", "ya29."),
    *(
        "eyj",
        "private key",
        "://",
        "passw",
        "passphrase",
        "token",
        "api_key",
        "apikey",
        "api key",
        "api-key",
        "secret",
        "bearer ",
    ),
)


def mask_secrets(text: str) -> str:
    """Return text in which every credential is its first few letters and its length."""
    folded = text.lower()
    if not any(mark in folded for mark in _MARKS):
        return text
    return _password.sub(lambda match: match[1] + _mask(match[2]), _secret.sub(lambda match: _mask(match[0]), text))


def _mask(secret: str) -> str:
    return secret if _masked.search(secret) else f"{secret[:4]}…[secret, {len(secret)} characters]"
