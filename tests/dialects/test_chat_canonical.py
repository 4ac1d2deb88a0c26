"""The canonical form: one for all spellings of a message, another for every other message.

Of one dialect alone: the spellings that mean the same are Chat Completions'; the other files test_*_canonical.py have others'.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.dialects import CHAT
from threadkeep.items import Item

Json = dict[str, Any]

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
MARK = {"type": "ephemeral"}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
parts = st.one_of(
    texts.map(lambda text: {"type": "text", "text": text}),
    texts.map(lambda url: {"type": "image_url", "image_url": {"url": url}}),
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"])},
    optional={
        "content": st.one_of(texts, st.lists(parts, max_size=3)),
        "tool_calls": st.lists(st.just(CALL), min_size=1, max_size=2),
        "tool_call_id": texts,
        "reasoning_content": texts,
        "score": st.floats(allow_nan=False, allow_infinity=False),
    },
)


def canonical(value: object) -> bytes:
    return CHAT.canonical(Item(json.dumps(value).encode()))


def _shuffled(value: object, order: random.Random) -> object:
    if isinstance(value, dict):
        names = list(value)
        order.shuffle(names)
        return {name: _shuffled(value[name], order) for name in names}
    return [_shuffled(each, order) for each in value] if isinstance(value, list) else value


def _respelled(value: Json, order: random.Random) -> object:
    """The same message as another client, or the same client later, would send it."""
    message = {**value, "id": "msg_other", "status": "completed", "cache_control": MARK, "refusal": None, "annotations": []}
    content = message.setdefault("content", None)
    if isinstance(content, str):
        message["content"] = [{"type": "text", "text": content, "cache_control": MARK}]
    elif content is not None:
        message["content"] = [{**part, "cache_control": MARK} for part in content]
    message.setdefault("tool_calls", order.choice([None, []]))
    return _shuffled(message, order)


@settings(max_examples=150, deadline=None)
@given(messages, st.randoms(use_true_random=False))
def test_every_spelling_of_a_message_has_one_canonical_form(message: Json, order: random.Random) -> None:
    """Key order, ids, status, cache markers, string or part, null or absent: none of them is content."""
    assert canonical(_respelled(message, order)) == canonical(message)


@settings(max_examples=150, deadline=None)
@given(messages, messages)
def test_two_messages_share_a_form_only_where_they_say_the_same(one: Json, other: Json) -> None:
    """Apart from string and single part, messages that differ have forms that differ."""
    assert (canonical(one) == canonical(other)) == (_as_parts(one) == _as_parts(other))


def _as_parts(message: Json) -> str:
    content = message.get("content")
    spelled = {**message, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else message
    return json.dumps(spelled, sort_keys=True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"role": "user", "content": "port 8080"}, {"role": "user", "content": "port 8081"}),
        ({"role": "user", "content": "line"}, {"role": "user", "content": "line\n"}),
        ({"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}),
        ({"role": "system", "content": "x"}, {"role": "developer", "content": "x"}),
        ({"role": "user", "content": ""}, {"role": "user"}),
        ({"role": "user", "content": "x", "name": "ada"}, {"role": "user", "content": "x"}),
        ({"role": "assistant", "tool_calls": [CALL]}, {"role": "assistant", "tool_calls": [{**CALL, "id": "c2"}]}),
        ({"role": "tool", "content": "x", "tool_call_id": "a"}, {"role": "tool", "content": "x", "tool_call_id": "b"}),
        ({"role": "assistant", "content": "x", "reasoning": "a"}, {"role": "assistant", "content": "x", "reasoning": "b"}),
        ({"role": "assistant", "audio": {"id": "a"}}, {"role": "assistant", "audio": {"id": "b"}}),
        (
            {"role": "assistant", "reasoning_details": [{"signature": "a"}]},
            {"role": "assistant", "reasoning_details": [{"signature": "b"}]},
        ),
        ({"role": "user", "v": 1.5}, {"role": "user", "v": "1.5"}),
        ({"role": "user", "v": 1}, {"role": "user", "v": True}),
        ({"role": "user", "v": None}, {"role": "user"}),
        ({"role": "reference", "id": "1"}, {"role": "reference", "id": "2"}),
        ({"id": "1"}, {"id": "2"}),
    ],
)
def test_two_messages_never_share_a_canonical_form(one: Json, other: Json) -> None:
    """A changed character, id of a call, thought or value is another history."""
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"role":"user","v":0.1000000000000000055}', b'{"role":"user","v":0.1}'),
        (b'{"role":"user","v":1e400}', b'{"role":"user","v":1e401}'),
        (b'{"role":"user","v":123456789012345678901}', b'{"role":"user","v":123456789012345678902}'),
        (b'{"role":"user","content":"\\ud83d"}', b'{"role":"user","content":"\\ud83e"}'),
        (b'{"role":"user","content":"\\ud83d"}', b'{"role":"user","content":"?"}'),
    ],
)
def test_what_no_float_and_no_text_can_hold_keeps_its_value(one: bytes, other: bytes) -> None:
    """Two numbers that a float would make one stay two, and so do two halves of a character."""
    assert CHAT.canonical(Item(one)) != CHAT.canonical(Item(other))
