"""The page about the gateway says what the gateway does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from threadkeep.gateway.app import BODY_LIMIT
from threadkeep.gateway.control.api import METHODS
from threadkeep.gateway.http.compression import is_known
from threadkeep.gateway.http.keys import KEY_HEADER
from threadkeep.gateway.http.metrics import Metrics
from threadkeep.gateway.http.routes import CONVERSATIONS, find_route

PAGE = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")


def test_the_page_names_every_metric_there_is() -> None:
    """And no other."""
    metrics = Metrics().render().decode()
    assert set(re.findall(r"`(threadkeep_[a-z_]+)`", PAGE)) == set(re.findall(r"# TYPE (\S+)", metrics))


def test_the_page_names_every_conversation_there_is() -> None:
    """And no other."""
    named = re.findall(r"`POST (/v1(?:beta)?/[A-Za-z_/:]+)`", PAGE)
    served = [f"{dialect.api.endpoints.mount}{path}".replace("{model}", "MODEL") for path, dialect in CONVERSATIONS.items()]
    assert sorted(named) == sorted(served)
    assert all((find_route("POST", path, []) or pytest.fail(path)).is_conversation for path in named)


def test_the_page_names_every_control_request_there_is() -> None:
    """With the method it is made with."""
    assert {what: method for method, what in re.findall(r"`(GET|POST) /threadkeep/v1/threads/ID/([a-z]+)`", PAGE)} == METHODS


def test_the_page_is_right_about_limits_and_names() -> None:
    """Numbers and headers are those of the code."""
    assert BODY_LIMIT == 64 * 1024 * 1024
    assert is_known(["gzip", "deflate", "zstd"])
    assert f"`{KEY_HEADER.decode().title()}`" in PAGE
