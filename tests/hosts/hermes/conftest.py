"""One home of the host's for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.hosts.hermes.play import Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(folder=tmp_path)
    host.configure()
    return host
