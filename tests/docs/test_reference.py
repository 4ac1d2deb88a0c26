"""docs/reference is up to date."""

from __future__ import annotations

import dataclasses
import sys

import pytest
from tests.docs.reference import FOLDER, list_pages, read_descriptions

from threadkeep import Config


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the pages show `--help` as Python 3.11 lays it out")
def test_the_pages_are_generated_from_the_code() -> None:
    """`make docs` writes them."""
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")} == list_pages()


def test_every_setting_is_explained() -> None:
    """In the order they are declared."""
    assert list(read_descriptions(Config)) == [field.name for field in dataclasses.fields(Config)]
