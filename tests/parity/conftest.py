"""One scenario, three wire languages."""

from __future__ import annotations

import pytest
from tests.parity.vocabulary import SPEECHES, Speech


@pytest.fixture(params=SPEECHES, ids=[speech.dialect for speech in SPEECHES])
def speech(request: pytest.FixtureRequest) -> Speech:
    found: Speech = request.param
    return found
