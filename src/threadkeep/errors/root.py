"""The root of every failure threadkeep can name."""

from __future__ import annotations

from typing import ClassVar


class ThreadkeepError(Exception):
    """The root of the tree; catch it to catch everything threadkeep raises on purpose."""

    code: ClassVar[str] = "threadkeep_error"
