"""Whatever the host hands over, nothing is raised to it, and what is a message is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.adapters.hermes.lists import SESSION, engine_for, items, recorded, turns

from threadkeep.adapters.hermes.messages import filter_messages

# What a field of a message may hold when a host or a tool goes wrong; half a surrogate pair is what a cut output leaves.
ODD = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(max_size=4), st.just("\ud800 x")),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": st.one_of(st.sampled_from(["user", "assistant", "tool", "system"]), ODD),
        "content": ODD,
        "tool_calls": ODD,
        "tool_call_id": ODD,
        "name": ODD,
    },
)
NO_LIST: Any = None


@pytest.mark.parametrize("odd", [None, "hello", 7, b"x", ["nested"]])
def test_what_is_no_message_is_left_out(home: Path, odd: Any) -> None:
    """Anywhere in the list, with the host's figure or without: the rest is compacted and recorded."""
    engine, shown = engine_for(home), turns(1, 5)
    given_list: list[Any] = [odd, *shown[:4], odd, *shown[4:], odd]
    shorter = engine.compress(given_list)
    assert engine.trouble is None
    assert 0 < len(shorter) < len(shown)
    engine.on_session_end(SESSION, given_list)
    assert recorded(home) == items(shown)


def test_no_list_at_all_is_an_empty_one(home: Path) -> None:
    """The host gets a list it can go on with."""
    engine = engine_for(home)
    assert engine.compress(NO_LIST) == []
    strange: Any = ["x"]
    assert engine.compress(strange, strange) is strange
    assert (engine.has_content_to_compress(NO_LIST), engine.should_compress_preflight(NO_LIST)) == (False, False)
    engine.on_session_end(SESSION, strange)
    assert engine.trouble is None


def test_half_a_surrogate_pair_costs_one_character(home: Path) -> None:
    """The session is compacted as any other; what cannot be written as UTF-8 is recorded as the sign for that."""
    engine, shown = engine_for(home), turns(1, 5)
    shown[2]["content"] += "\ud83d"
    shown[1]["tool_calls"][0]["function"]["arguments"] = '{"path": "\udc00"}'
    shorter = engine.compress(shown, current_tokens=50_000)
    assert (engine.trouble, len(shorter) < len(shown)) == (None, True)
    kept = recorded(home)
    assert kept == items(shown)
    assert (kept[2]["content"][-1], kept[1]["tool_calls"][0]["function"]["arguments"]) == ("\ufffd", '{"path": "\ufffd"}')
    again = engine.compress([*shorter, *turns(6, 9)], current_tokens=50_000)
    assert (engine.trouble, len(again) > 0) == (None, True)


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": "abc"}, {"prompt_tokens": [1]}, {"input_tokens": float("inf")}, "x"])
def test_a_figure_that_is_none_counts_as_not_said(home: Path, usage: Any) -> None:
    """A provider's odd usage does not end the turn."""
    engine = engine_for(home)
    engine.update_from_response({"prompt_tokens": "12", "completion_tokens": 3})
    assert (engine.last_prompt_tokens, engine.last_total_tokens) == (12, 15)
    engine.update_from_response(usage)
    engine.update_model("m", usage)
    figures = (engine.last_prompt_tokens, engine.last_completion_tokens, engine.last_real_prompt_tokens, engine.context_length)
    assert figures == (0, 0, 12, 64_000)


@pytest.mark.parametrize("args", ["x", None, [], {"query": 7}, {"query": "  "}])
def test_a_call_of_the_tool_without_a_question_is_answered(home: Path, args: Any) -> None:
    """The model hears what is wanted."""
    assert json.loads(engine_for(home).handle_tool_call("recall", args)) == {"error": "recall needs 'query', a text"}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(MESSAGE, ODD), max_size=4), ODD, ODD)
def test_nothing_is_raised_whatever_comes(home: Path, shown: list[Any], figure: Any, other: Any) -> None:
    """Each method of the contract, with anything in place of what it should get."""
    engine = engine_for(home)
    engine.bind_session_state(None, other)
    engine.on_session_start(other, hermes_home=str(home))
    engine.update_model(other, figure)
    engine.update_from_response(other)
    engine.should_compress(figure)
    engine.should_compress_preflight(shown)
    engine.has_content_to_compress(shown)
    engine.on_turn_complete(shown, figure)
    engine.on_session_end(other, shown)
    result = engine.compress(shown, figure, other)
    assert len(filter_messages(result)) <= len(shown)
    assert isinstance(json.loads(engine.handle_tool_call("recall", {"query": other}, messages=shown)), dict)
    assert isinstance(json.dumps(engine.get_status(), default=repr), str)
