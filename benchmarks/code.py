"""Names the code that produced a number by a digest of its source."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import threadkeep

# What runs, and what it is run on: the committed counts of the guard, say, change no number.
SOURCE = frozenset({".py", ".sql", ".toml"})
DIGITS = 12


@cache
def compute_code_digest() -> str:
    """Return the digest of threadkeep's own source, as it was when first asked for: a process goes on with what it loaded."""
    return digest_package(Path(threadkeep.__file__).parent)


def digest_package(package: Path) -> str:
    """Return a digest of a package's source: the names and bytes of its files."""
    found = hashlib.sha256()
    for file in sorted(file for file in package.rglob("*") if file.suffix in SOURCE and file.is_file()):
        content = file.read_bytes()
        found.update(f"{file.relative_to(package).as_posix()}\n{len(content)}\n".encode() + content)
    return found.hexdigest()[:DIGITS]
