"""`python -m benchmarks retention` refuses an output folder that does not exist."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.command.main import run
from threadkeep.errors import BadInput


def test_a_folder_that_is_not_there_is_refused_before_measuring(tmp_path: Path) -> None:
    """Nobody waits for minutes to learn that the result has no place to go."""
    args = Namespace(what="retention", output=str(tmp_path / "gone" / "out.json"), full=False, seed=1, family="both", json=False)
    with pytest.raises(BadInput, match="there is no folder"):
        run(args)
