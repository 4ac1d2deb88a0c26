"""Exact counting, where it is installed and where it is not."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from threadkeep.tokens import explain_inexact, find_counter

installed = pytest.mark.skipif(find_spec("quicktok") is None, reason="the `tokens` extra is not installed")
missing = pytest.mark.skipif(find_spec("quicktok") is not None, reason="the `tokens` extra is installed")


@pytest.mark.parametrize("family", ["claude-sonnet-4-5", "gemini-2.5-pro", "qwen3", ""])
def test_a_family_without_a_public_vocabulary_is_never_counted(family: str) -> None:
    """None, and a sentence that says why; no other family's vocabulary stands in."""
    assert find_counter(family) is None
    assert (
        explain_inexact(family) == f"no vocabulary of {family!r} is public; its tokens are estimated and corrected by real usage"
    )


@missing
def test_without_the_extra_the_reason_names_it() -> None:
    """Nothing is raised and nothing is loaded."""
    assert (find_counter("gpt-5"), explain_inexact("gpt-5")) == (
        None,
        "exact counting is not installed; install threadkeep[tokens]",
    )


@installed
@pytest.mark.parametrize(("family", "tokens"), [("gpt-5-codex", 12), ("gpt-4o-mini", 12), ("O3", 12), ("gpt-4-turbo", 19)])
def test_the_longest_known_prefix_of_a_model_decides(family: str, tokens: int) -> None:
    """`gpt-4o` has the newer vocabulary, `gpt-4` the older one."""
    count = find_counter(family)
    assert count is not None
    assert (count("银杏树的叶子一夜之间全部变黄"), explain_inexact(family)) == (tokens, None)


@installed
def test_special_tokens_and_half_characters_are_text() -> None:
    """Hostile text is counted, never refused, and a marker in it is not folded into one token."""
    count = find_counter("gpt-5")
    assert count is not None
    assert (count("<|endoftext|>") > 1, count("\ud83d"), count("")) == (True, 1, 0)
