"""LiteLLM in this process, and nothing of one test left for the next."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from threadkeep.adapters.bridge import shared

# Prices and windows from the package, not from the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
# These tests import the host itself, which only its own environment has.
collect_ignore_glob = ["test_*.py"] if find_spec("litellm") is None else []


@pytest.fixture(autouse=True)
def closed_stores() -> Iterator[None]:
    yield
    shared.close()
