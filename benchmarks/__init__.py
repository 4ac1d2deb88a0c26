"""Benchmarks of threadkeep: our figures beside those of others, in one run on your machine. They are not part of the wheel."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# The folder that holds this package and its tests.
ROOT = Path(__file__).resolve().parents[1]


def build_child_environ(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which another interpreter finds this package, wherever it is started."""
    found = dict(os.environ if environ is None else environ)
    paths = [str(ROOT), *filter(None, [found.get("PYTHONPATH")])]
    return {**found, "PYTHONPATH": os.pathsep.join(paths)}
