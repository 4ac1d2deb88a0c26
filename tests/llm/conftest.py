"""What tests of the clients share: each wire in turn."""

from __future__ import annotations

import pytest
from tests.llm.wires import WIRES, Wire


@pytest.fixture(params=list(WIRES))
def wire(request: pytest.FixtureRequest) -> Wire:
    return WIRES[request.param]
