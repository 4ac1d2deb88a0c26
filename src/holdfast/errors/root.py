"""The root of every failure holdfast can name."""

from __future__ import annotations

from typing import ClassVar


class HoldfastError(Exception):
    """The root of the tree; catch it to catch everything holdfast raises on purpose."""

    code: ClassVar[str] = "holdfast_error"
