"""docs/promises.md and the suite say the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.benchmarks.promises import FEWEST_TESTS, PAGE, PROMISES, ROOT, Promise, found_in, page


def test_there_are_twelve_promises_in_order() -> None:
    """Numbered without a gap."""
    assert [promise.number for promise in PROMISES] == list(range(1, 13))


@pytest.mark.parametrize("promise", PROMISES, ids=[f"promise-{promise.number}" for promise in PROMISES])
def test_a_promise_has_tests_that_exist_and_are_meant_to_pass(promise: Promise) -> None:
    """At least three, none of them named twice, expected to fail or left out."""
    named = [(ROOT / "tests" / file, name) for file, _, name in (test.partition("::") for test in promise.tests)]
    assert len(set(named)) == len(named) >= FEWEST_TESTS
    assert [name for file, name in named if found_in(file).get(name) is not False] == []


LEFT_OUT = """
import sys
import pytest

@pytest.mark.skip(reason="slow")
def test_skipped(): ...

@pytest.mark.xfail
async def test_failing(): ...

@pytest.mark.skipif(True, reason="always")
def test_skipped_by_a_constant(): ...

def test_skipping_itself():
    pytest.skip("not now")

@pytest.mark.skip
class TestGroup:
    def test_inside(self): ...

class TestOther:
    pytestmark = [pytest.mark.anyio, pytest.mark.skip]
    def test_inside_another(self): ...
"""
RUN = """
@pytest.mark.skipif(sys.platform == "win32", reason="no such files there")
def test_run_where_it_can_be(): ...

def test_asking_first():
    if sys.platform == "win32":
        pytest.skip("no such files there")
"""


def test_a_test_that_never_runs_breaks_no_promise(tmp_path: Path) -> None:
    """Skipped by a mark, its class, its module or itself, it does not count; skipped where a machine lacks something, it does."""
    file = tmp_path / "test_some.py"
    file.write_text(LEFT_OUT + RUN, encoding="utf-8")
    found = found_in(file)
    assert [name for name, left_out in found.items() if not left_out] == ["test_run_where_it_can_be", "test_asking_first"]
    assert len(found) == 8
    whole = tmp_path / "test_whole.py"
    whole.write_text('import pytest\npytestmark = pytest.mark.skip(reason="x")\ndef test_one(): ...\n', encoding="utf-8")
    assert found_in(whole) == {"test_one": True}
    early = tmp_path / "test_early.py"
    early.write_text('import pytest\npytest.skip("x", allow_module_level=True)\ndef test_one(): ...\n', encoding="utf-8")
    assert found_in(early) == {"test_one": True}


def test_the_page_is_what_the_suite_says() -> None:
    """`python -m tests.benchmarks.promises` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page()
