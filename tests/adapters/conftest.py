"""What every host's tests leave behind: nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from threadkeep.adapters.bridge import shared


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Close what the bridge opened, as the end of a process does."""
    yield
    shared.close()
