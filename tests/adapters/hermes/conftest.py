"""A home for the host."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of the host's whose own `threadkeep.toml` names the store."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "threadkeep.toml").write_text(f'store = "{tmp_path / "threads.db"}"\n', encoding="utf-8")
    return folder
