"""Promise 8, looked after in every test that records a run: what a provider is sent only grows between two checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.doubles.prefix_growth import prefix_faults, watching


@pytest.fixture(autouse=True)
def stable_prefix(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test whose provider saw the prefix move without a checkpoint, unless it is marked `moves_prefix(reason)`."""
    with watching() as runs:
        yield
    if request.node.get_closest_marker("moves_prefix") is None:
        assert [fault for run in runs for fault in prefix_faults(run)] == []
