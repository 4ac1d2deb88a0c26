"""Every dialect keeps the contract of the port, by the checks shipped for dialects of any origin."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.dialects.samples import SAMPLES

from threadkeep.dialects import DIALECTS
from threadkeep.testing.dialect_api_checks import API_CHECKS
from threadkeep.testing.dialect_checks import CHECKS, Check, DialectSamples

ALL = (*CHECKS, *API_CHECKS)


@pytest.mark.parametrize("samples", SAMPLES, ids=[samples.dialect.name for samples in SAMPLES])
@pytest.mark.parametrize("check", ALL, ids=[getattr(check, "__name__", "") for check in ALL])
def test_the_dialect_keeps_the_contract(check: Check, samples: DialectSamples) -> None:
    """Each fact of the conformance suite holds in each wire language."""
    check(samples)


def test_no_dialect_goes_unchecked() -> None:
    """A new one costs a module, its line among the dialects, and its samples."""
    assert {samples.dialect.name for samples in SAMPLES} == set(DIALECTS)


ABOUT_ONE = [
    path
    for path in sorted(Path(__file__).parent.glob("test_*.py"))
    if path.stem.startswith(tuple(f"test_{name}" for name in DIALECTS))
]


@pytest.mark.parametrize("path", ABOUT_ONE, ids=[path.stem for path in ABOUT_ONE])
def test_a_file_about_one_dialect_says_why(path: Path) -> None:
    """What every dialect must do is a check in `threadkeep.testing`, or runs on all of them here."""
    told = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert "Of one dialect alone: " in told
