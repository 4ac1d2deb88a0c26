"""How many examples each property is tried with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

# Where Hypothesis keeps the settings that a test is decorated with.
SETTINGS = "_hypothesis_internal_use_settings"


def limit_examples(items: list[pytest.Item], *, most: int) -> None:
    """Try every property with at most `most` examples. State machines say themselves how many they need."""
    for item in items:
        test: Any = getattr(item, "obj", None)
        own = getattr(test, SETTINGS, None)
        if is_hypothesis_test(test) and own is not None and own.max_examples > most:
            setattr(test, SETTINGS, settings(own, max_examples=most))
