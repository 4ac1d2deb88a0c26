"""No two user messages in a row, and nothing else changed.

Of one dialect alone: the rule is of Chat Completions' servers; test_messages_rewriting.py has the Messages API's.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.compaction import Ledger, render_state
from threadkeep.dialects import CHAT
from threadkeep.dialects.values import SEPARATOR
from threadkeep.items import Item, Role

Json = dict[str, Any]

IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
contents = st.one_of(
    texts,
    st.none(),
    st.lists(st.one_of(texts.map(lambda text: {"type": "text", "text": text}), st.just(IMAGE), st.integers()), max_size=3),
    st.integers(),
    st.dictionaries(texts, st.integers(), max_size=2),
)
users = st.fixed_dictionaries(
    {"role": st.just("user")}, optional={"content": contents, "name": texts, "cache_control": st.just({"type": "ephemeral"})}
)
others = st.fixed_dictionaries({"role": st.sampled_from(["assistant", "tool", "system", "critic"]), "content": texts})
histories = st.lists(st.one_of(users, users, others, st.dictionaries(texts, st.integers(), max_size=2)), max_size=10).map(
    lambda values: [Item(msgspec.json.encode(value)) for value in values]
)


def user(content: object, **more: object) -> Item:
    return CHAT.parse({"role": "user", "content": content, **more})


def by_user(item: Item) -> bool:
    fields = msgspec.json.decode(item.raw)
    return isinstance(fields, dict) and fields.get("role") == "user"


@settings(max_examples=200, deadline=None)
@given(histories)
def test_no_two_user_messages_stand_in_a_row(items: list[Item]) -> None:
    """Whatever user messages hold; every other item is there, in order, byte for byte, and a second time changes nothing."""
    arranged = CHAT.arrange(items)
    assert not any(by_user(one) and by_user(other) for one, other in pairwise(arranged))
    assert [item for item in arranged if not by_user(item)] == [item for item in items if not by_user(item)]
    assert CHAT.arrange(arranged) == arranged


@settings(max_examples=200, deadline=None)
@given(histories, st.data())
def test_the_arrangement_of_a_prefix_is_a_prefix_but_for_its_last_item(items: list[Item], data: st.DataObject) -> None:
    """What was sent before stays as it was sent, so a provider's cache keeps serving it."""
    settled = CHAT.arrange(items[: data.draw(st.integers(0, len(items)))])[:-1]
    assert CHAT.arrange(items)[: len(settled)] == settled


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(texts, st.lists(texts, min_size=1, max_size=3)), min_size=2, max_size=5))
def test_every_word_of_merged_messages_is_still_said(messages: list[str | list[str]]) -> None:
    """Texts come in the order they were sent, none twice and none lost."""
    items = [
        user(content if isinstance(content, str) else [{"type": "text", "text": text} for text in content])
        for content in messages
    ]
    [merged] = CHAT.arrange(items)
    given_texts = [text for content in messages for text in ([content] if isinstance(content, str) else content) if text]
    content = msgspec.json.decode(merged.raw)["content"]
    if isinstance(content, str):
        assert content == SEPARATOR.join(given_texts)
    else:
        assert [part["text"] for part in content if part["text"]] == given_texts


@pytest.mark.parametrize(
    ("items", "merged"),
    [
        (
            [Item(b'{"role":"user","content":"caf\\u00e9"}'), Item(b'{ "role":"user", "content" : "a\\/b \\ud83d" }')],
            b'{"role":"user","content":"caf\\u00e9\\n\\n---\\n\\na\\/b \\ud83d"}',
        ),
        (
            [user("look"), Item(b'{"role":"user","content":[{"type":"image_url", "x": 1.0},{"type":"text","text":"\\u0041"}]}')],
            b'{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url", "x": 1.0},'
            b'{"type":"text","text":"\\u0041"}]}',
        ),
        (
            [user("a", name="ada"), user("b", name="bob"), user("c", cache_control={"type": "ephemeral"})],
            b'{"role":"user","content":"a\\n\\n---\\n\\nb\\n\\n---\\n\\nc","name":"bob","cache_control":{"type":"ephemeral"}}',
        ),
        ([user(""), user("a"), user(None), user([])], b'{"role":"user","content":"a"}'),
        ([user(""), user("")], b'{"role":"user","content":""}'),
    ],
)
def test_merged_messages_keep_their_spelling(items: list[Item], merged: bytes) -> None:
    """Strings are joined with a line between them and parts listed as they were written; of other fields the newest counts."""
    assert CHAT.arrange(items) == [Item(merged)]


def test_calls_and_outputs_stay_in_order() -> None:
    """Only neighbours in the user's role are merged; what stands between them keeps them apart."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    items = [
        user("state"),
        user("go"),
        CHAT.parse({"role": "assistant", "content": None, "tool_calls": [call]}),
        CHAT.parse({"role": "tool", "tool_call_id": "c", "content": "ok"}),
        user("next"),
    ]
    assert CHAT.arrange(items) == [user(f"state{SEPARATOR}go"), *items[2:]]
    assert CHAT.view(items[0]).role is Role.USER


def test_a_message_that_cannot_be_taken_apart_is_left_as_it_is() -> None:
    """A field whose name is half a character cannot be written again, so nothing is merged with it."""
    odd = Item(b'{"role":"user","content":"x","\\ud83d":1}')
    assert CHAT.arrange([odd, user("a"), user("b")]) == [odd, user(f"a{SEPARATOR}b")]


@pytest.mark.parametrize("state_first", [True, False])
def test_the_line_between_messages_is_nobodys_words(*, state_first: bool) -> None:
    """A person's message that was sent as one with a host's or with the state is heard as it was said."""
    state = CHAT.make_user_message(render_state(Ledger()))
    others = [state, user("# AGENTS.md instructions for /src\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>")]
    world = user("<environment_context>\n<cwd>/src</cwd>\n</environment_context>\n")
    before = [*others, world] if state_first else [world, *others[::-1]]
    for items in ([*before, user("Go on.")], [user("Go on."), world], [*before[:1], user("Go on."), world]):
        [merged] = CHAT.arrange(items)
        assert CHAT.view(merged).said == "Go on."
    [joined] = CHAT.arrange([state, user("One.\n\n---\n\nTwo."), user("Three.")])
    assert CHAT.view(joined).said == "One.\n\n---\n\nTwo.\n\n---\n\nThree."
