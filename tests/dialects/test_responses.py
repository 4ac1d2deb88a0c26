"""Responses items: exact bytes, and what threadkeep sees in them.

Of one dialect alone: the fields and their bytes are the Responses API's; what holds in any is in test_contract.py.
"""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.histories import RESPONSES, Json, call, environment, output, reasoning, said
from tests.strategies import histories

from threadkeep.items import Item, ItemKind, Role

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None)
@given(histories())
def test_a_parsed_item_says_what_was_given(items: list[Json]) -> None:
    """The bytes of an item decode to the very value it was made from, and parsing those again changes no byte."""
    for value in items:
        item = RESPONSES.parse(value)
        assert json.loads(item.raw) == value
        assert RESPONSES.parse(json.loads(item.raw)) == item


@settings(max_examples=80, deadline=None)
@given(histories(), st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), json_values, max_size=4))
def test_splitting_and_joining_a_request_changes_no_byte(items: list[Json], fields: Json) -> None:
    """Every field, known or not, and every item comes back as it was sent, in the order it was sent."""
    clear = {name: value for name, value in fields.items() if name not in ("previous_response_id", "conversation")}
    body = msgspec.json.encode({**clear, "model": "m", "input": items, "stream": True})
    request = RESPONSES.split(body)
    assert request is not None
    assert RESPONSES.join(request, request.items) == body


def test_items_survive_a_request_written_with_spaces_and_escapes() -> None:
    """An item is the span it came from, however its client writes JSON."""
    spaced = b'{"type" : "message",\n "role":"user", "content":"caf\\u00e9 \\/ 1.0", "n": 1.00}'
    body = b'{ "model":"m" , "input" : [ ' + spaced + b' , {"type":"new_thing","x":[ 1 ]} ] }'
    request = RESPONSES.split(body)
    assert request is not None
    assert request.items == (Item(spaced), Item(b'{"type":"new_thing","x":[ 1 ]}'))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"model":"m"}',
        b'{"input":[1]}',
        b'{"input":{}}',
        b'{"input":[{"type":"message"}],"previous_response_id":"resp_1"}',
        b'{"input":[{"type":"message"}],"conversation":"conv_1"}',
        b'{"input":[{"type":"message"}',
    ],
)
def test_a_request_without_readable_history_is_left_alone(body: bytes) -> None:
    """What cannot be taken apart, or has its history at the provider, is not taken apart."""
    assert RESPONSES.split(body) is None


def test_what_the_client_rewrites_each_time_is_head_and_not_history() -> None:
    """The leading run of developer and system items stays out of the chain; a later one is history."""
    late = {"type": "message", "role": "developer", "content": "late"}
    body = msgspec.json.encode({"input": [{"role": "system", "content": "today"}, said("hi"), late]})
    request = RESPONSES.split(body)
    assert request is not None
    assert [json.loads(item.raw) for item in request.head] == [{"role": "system", "content": "today"}]
    assert [json.loads(item.raw) for item in request.items] == [said("hi"), late]


def test_a_string_input_is_one_message_of_a_person() -> None:
    """The short form of a request is a history of one."""
    request = RESPONSES.split(b'{"input":"say \\"hi\\""}')
    assert request is not None
    assert [RESPONSES.view(item).said for item in request.items] == ['say "hi"']


@settings(max_examples=200, deadline=None)
@given(st.one_of(json_values, st.fixed_dictionaries({"type": json_values, "role": json_values, "content": json_values})))
def test_no_item_is_too_strange_to_be_seen(value: object) -> None:
    """Whatever an object holds, it has a view and a canonical form."""
    item = Item(msgspec.json.encode(value))
    assert RESPONSES.view(item).kind in ItemKind
    assert RESPONSES.canonical(item)


@pytest.mark.parametrize("raw", [b"\xff", b"", b'{"a":' * 3_000 + b"1" + b"}" * 3_000, b'{"v":1e999999999}', b"[1]"])
def test_bytes_only_a_provider_understands_are_opaque(raw: bytes) -> None:
    """Broken or extreme JSON is kept and never an error."""
    assert RESPONSES.view(Item(raw)).kind is ItemKind.OPAQUE
    assert RESPONSES.canonical(Item(raw)) == RESPONSES.canonical(Item(bytes(raw)))


def test_a_message_cut_inside_an_emoji_is_still_a_persons_message() -> None:
    """A client that escapes half a surrogate pair has sent a request like any other."""
    view = RESPONSES.view(Item(b'{"type":"message","role":"user","content":"Never push to main \\ud83d"}'))
    assert (view.kind, view.role, view.by_person) == (ItemKind.MESSAGE, Role.USER, True)
    assert view.said.startswith("Never push to main")


@pytest.mark.parametrize("kind", ["shell_call", "apply_patch_call", "call_of_next_year_call"])
def test_a_call_of_a_type_yet_unknown_still_pairs_with_its_output(kind: str) -> None:
    """Pairs are told by their call_id; a provider refuses one half without the other whatever its type is called."""
    opened = RESPONSES.view(RESPONSES.parse({"type": kind, "call_id": "c1", "action": {"commands": ["ls"]}}))
    closed = RESPONSES.view(RESPONSES.parse({"type": f"{kind}_output", "call_id": "c1", "output": []}))
    assert (opened.opens, closed.closes) == (("c1",), ("c1",))


def test_an_approval_belongs_to_the_request_for_it() -> None:
    """An MCP approval names its request; a cut between them leaves the provider an answer without a question."""
    asked = RESPONSES.view(RESPONSES.parse({"type": "mcp_approval_request", "id": "mcpr_1", "name": "drop"}))
    given = RESPONSES.view(RESPONSES.parse({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}))
    assert (asked.opens, given.closes) == (("mcpr_1",), ("mcpr_1",))


def test_a_stub_changes_the_payload_and_nothing_else() -> None:
    """Unknown fields of an output, their order and spelling, survive its payload."""
    raw = b'{"z": 1.0, "type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"long"}],"k":"\\u00e9"}'
    assert RESPONSES.replace_output(Item(raw), 'say "x"') == Item(
        b'{"z":1.0,"type":"function_call_output","call_id":"c","output":"say \\"x\\"","k":"\\u00e9"}'
    )


def test_only_outputs_with_a_text_payload_can_be_stubbed() -> None:
    """A screenshot or a message keeps its payload."""
    shot = {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": "x"}}
    for value in (said("x"), call("c"), shot, reasoning()):
        assert RESPONSES.replace_output(RESPONSES.parse(value), "stub") is None


def test_an_output_shows_its_text_and_images() -> None:
    """Parts of an output are read like parts of a message."""
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:image/png;base64,AA"}]
    view = RESPONSES.view(RESPONSES.parse({**output("c"), "output": parts}))
    assert (view.kind, view.role, view.text, view.images, view.closes) == (ItemKind.OUTPUT, Role.TOOL, "a", 1, ("c",))


def test_host_context_is_no_persons_message() -> None:
    """What the host injects about its world is context, by section."""
    view = RESPONSES.view(RESPONSES.parse(environment("/src")))
    assert (view.by_person, view.said, view.context) == (False, "", "environment")


def test_a_persons_words_beside_host_context_are_heard() -> None:
    """A client that puts its context and the request into one message does not silence the request."""
    message = environment("/src")
    message["content"].append({"type": "input_text", "text": "Never push to main."})
    view = RESPONSES.view(RESPONSES.parse(message))
    assert (view.by_person, view.said) == (True, "Never push to main.")


@pytest.mark.parametrize(
    "text",
    [
        "<turn_aborted> shows up in my logs. Never delete them.",
        "<environment_context> is sent twice; find out why.",
        "<skill> tags must never reach the model.",
        "# AGENTS.md instructions are wrong about tabs: use spaces.",
    ],
)
def test_a_person_may_begin_with_a_hosts_tag(text: str) -> None:
    """Only a whole fragment is the host's; a sentence about one is the person's."""
    view = RESPONSES.view(RESPONSES.parse(said(text)))
    assert (view.by_person, view.said) == (True, text)


def test_words_before_a_request_line_are_dropped_only_inside_the_editors_wrapping() -> None:
    """A person who mentions the line keeps what they wrote before it."""
    wrapped = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nFix a.py."
    mentioned = "Never push to main.\n\n## My request for Codex: that heading is ugly, rename it."
    assert RESPONSES.view(RESPONSES.parse(said(wrapped))).said == "Fix a.py."
    assert RESPONSES.view(RESPONSES.parse(said(mentioned))).said == mentioned


@pytest.mark.parametrize(
    ("author", "recipient", "is_task"),
    [
        ("/lead", "/lead/worker", True),
        ("/lead/worker", "/lead", False),
        ("/lead/worker", "/lead/workers", False),
        (None, 7, False),
    ],
)
def test_mail_between_agents_is_read_and_a_task_is_told_from_a_report(
    author: object, recipient: object, *, is_task: bool
) -> None:
    """What an agent above asks for is what the one below is there for; nobody takes either for a person's words."""
    mail = {"type": "agent_message", "author": author, "recipient": recipient, "content": [{"type": "input_text", "text": "Go."}]}
    view = RESPONSES.view(RESPONSES.parse(mail))
    assert (view.kind, view.role, view.text, view.is_task) == (ItemKind.MESSAGE, Role.USER, "Go.", is_task)
    assert (view.by_person, view.said) == (False, "")


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "ok", "stderr": "warned"}]}, "warned"),
        ({"type": "tool_search_output", "call_id": "c", "tools": [{"name": "find_ports"}]}, "find_ports"),
    ],
)
def test_outputs_that_tell_in_fields_of_their_own_are_read(item: Json, text: str) -> None:
    """What a provider's shell printed, and which tools were found, can be looked for and quoted."""
    assert text in RESPONSES.view(RESPONSES.parse(item)).text
