"""Chooses the compactors of a report: every installed one, and those the user named."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from benchmarks.compactors.driver import COMPACTORS
from benchmarks.compactors.process import Named


def list_participants(named: Sequence[Named]) -> list[Named]:
    """Return those who were named and, in this interpreter, every other whose packages it has.

    Threadkeep inside a host is threadkeep again, and takes part where it is named.
    """
    others = [name for name, entry in COMPACTORS.items() if "threadkeep" not in entry.packages and _is_installed(entry.packages)]
    asked_for = {each.name for each in named}
    return [*named, *(Named(name=name, python=sys.executable) for name in others if name not in asked_for)]


def _is_installed(packages: Sequence[str]) -> bool:
    try:
        return all(version(package) for package in packages)
    except PackageNotFoundError:
        return False
