"""Folders and files are nouns of the domain."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.architecture.conftest import Source

SAYS_NOTHING = {"base_utils", "common", "core", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}


def test_no_module_is_named_for_what_it_is_not(sources: list[Source]) -> None:
    """A name that fits any module tells a reader nothing about this one."""
    nameless = [
        source.name
        for source in sources
        if SAYS_NOTHING & {part.strip("_") for part in PurePosixPath(source.name).with_suffix("").parts}
    ]
    assert nameless == []
