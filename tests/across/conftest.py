"""Every test here runs in each dialect, on a real SQLite store."""

from __future__ import annotations

import pytest
from tests.dialects.samples import SAMPLES

from holdfast.testing.dialect_samples import DialectSamples


@pytest.fixture(params=SAMPLES, ids=[samples.dialect.name for samples in SAMPLES])
def samples(request: pytest.FixtureRequest) -> DialectSamples:
    found: DialectSamples = request.param
    return found
