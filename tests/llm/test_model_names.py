"""A model's name says who serves it and what it is called there."""

from __future__ import annotations

import pytest

from threadkeep.llm.base import ModelName


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("openai:gpt-x", "openai", "gpt-x"),
        ("anthropic:claude", "anthropic", "claude"),
        ("gpt-x@http://localhost:8080/v1", "http://localhost:8080/v1", "gpt-x"),
        ("org/llama:8b@HTTPS://host", "HTTPS://host", "org/llama:8b"),
        ("at@home@http://host", "http://host", "at@home"),
        ("gpt-x", "", "gpt-x"),
        ("gpt-x@home", "", "gpt-x@home"),
        ("openai:", "", "openai:"),
        ("", "", ""),
    ],
)
def test_a_name_is_taken_apart_as_people_write_it(name: str, provider: str, model: str) -> None:
    """The last @ before an address divides, else the first colon; a name with neither says nothing of who serves it."""
    assert ModelName.parse(name) == ModelName(provider=provider, model=model)


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("openai:a", "openai:b", True),
        ("openai:a", "a", True),
        ("openai:a", "b", False),
        ("openai:a", "anthropic:a", False),
        ("openai:a", "a@http://host", False),
        ("a@http://host", "b@http://host", True),
        ("a@http://host", "a@http://other", False),
        ("a", "a", True),
        ("a", "b", False),
    ],
)
def test_models_are_served_together_only_where_that_is_known(one: str, other: str, *, together: bool) -> None:
    """By the same provider, or, where one name does not say by whom, as the same model; and either way round."""
    first, second = ModelName.parse(one), ModelName.parse(other)
    assert (first.is_served_with(second), second.is_served_with(first)) == (together, together)
