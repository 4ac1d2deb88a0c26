"""What clients say reaches a provider of another language as they said it, and its answers reach them as it gave them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.samples import SAMPLES
from tests.doubles.provider_rules import ProviderRules, chat_shape
from tests.doubles.script import Received

from threadkeep.dialects import CHAT, Answer, Dialect, Request
from threadkeep.dialects.translation import PlainRequest
from threadkeep.items import Item, find_open_calls
from threadkeep.testing.dialect_checks import DialectSamples

Json = dict[str, Any]

CLIENTS = [samples for samples in SAMPLES if samples.dialect.api.client_form is not None]
ANSWER = Answer(text="", response_id="resp_1", message_id="msg_1", model="m", created_at=1)
plain_texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
arguments = st.one_of(st.dictionaries(plain_texts, plain_texts, max_size=2).map(json.dumps), plain_texts)
ids = st.sampled_from(["call_1", "call_2", "call_3"])


@st.composite
def histories(draw: st.DrawFn, samples: DialectSamples) -> list[Json]:
    """Return items in any order: outputs before their calls or never, ids that come again, unknown items."""
    of_objects = samples.dialect.name != "responses"
    step = st.one_of(
        plain_texts.map(lambda text: [samples.person(text)]),
        plain_texts.map(lambda text: [samples.answer(text)]),
        plain_texts.map(lambda text: [samples.host(text)]),
        plain_texts.map(lambda text: [samples.system(text)]),
        plain_texts.map(lambda text: [samples.pictured(text)]),
        plain_texts.map(lambda text: [samples.thought(text)]),
        plain_texts.map(lambda text: [samples.sealed(text)]),
        st.just([samples.unknown()]),
        st.dictionaries(ids, st.just("{}") if of_objects else arguments, min_size=1, max_size=3).map(samples.calls),
        st.dictionaries(ids, plain_texts, min_size=1, max_size=3).map(samples.outputs),
    )
    return [item for items in draw(st.lists(step, max_size=8)) for item in items]


def make_body(dialect: Dialect, items: list[Item], **fields: object) -> Request:
    request = Request(
        fields={"model": b'"m"', **{name: json.dumps(value).encode() for name, value in fields.items()}}, head=(), items=()
    )
    split = dialect.split(dialect.join(request, items))
    assert split is not None
    return split


def translate(dialect: Dialect, items: list[Item], **fields: object) -> Json:
    form, provider = dialect.api.client_form, CHAT.api.upstream_form
    assert form is not None
    assert provider is not None
    return dict(json.loads(provider.write_request(form.read_request(make_body(dialect, items, **fields)))))


def as_object(text: str) -> object:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"input": text}


@pytest.mark.parametrize("samples", CLIENTS, ids=[samples.dialect.name for samples in CLIENTS])
@given(data=st.data())
def test_any_history_is_said_in_order(samples: DialectSamples, data: st.DataObject) -> None:
    """Every text, every call and what it returned are there, in the order they had; the request is one that no server refuses."""
    items = [samples.dialect.parse(item) for item in data.draw(histories(samples))]
    body = translate(samples.dialect, items)
    fault = chat_shape(body) or ProviderRules().refusal(
        "chat", Received(method="POST", path="", headers={}, authorised=True, raw=b"", body=body)
    )
    assert fault is None
    views = [samples.dialect.view(item) for item in items]
    told = [CHAT.view(CHAT.parse(message)) for message in body["messages"]]
    made = [(call.id, as_object(call.arguments)) for view in views for call in view.calls]
    assert [(call.id, as_object(call.arguments)) for view in told for call in view.calls] == made
    said = [view.said for view in views if view.by_person and view.said.strip()]
    heard, at = "\n".join(view.text for view in told if view.by_person or view.said), 0
    for text in said:
        at = heard.index(text, at) + len(text)
    everything = json.dumps(body["messages"], ensure_ascii=False)
    for output in (output for view in views for output in view.outputs if output.text.strip()):
        assert json.dumps(output.text, ensure_ascii=False)[1:-1] in everything


@pytest.mark.parametrize("samples", CLIENTS, ids=[samples.dialect.name for samples in CLIENTS])
@given(data=st.data())
def test_what_was_said_before_stays_as_it_was(samples: DialectSamples, data: st.DataObject) -> None:
    """A longer history begins with the messages of a shorter one, but for the last: the provider's cache holds."""
    items = [samples.dialect.parse(item) for item in data.draw(histories(samples))]
    at = data.draw(st.integers(0, len(items)))
    if find_open_calls([samples.dialect.view(item) for item in items[:at]]):
        return
    short, long = (translate(samples.dialect, each)["messages"] for each in (items[:at], items))
    assert long[: max(0, len(short) - 1)] == short[:-1]


@st.composite
def chat_answers(draw: st.DrawFn) -> tuple[Json, list[Json]]:
    """Return an answer, and the deltas of the same answer: pieces in the order of their kinds, those of calls mixed."""
    thought, content = draw(st.one_of(st.just(""), plain_texts)), draw(st.one_of(st.just(""), plain_texts))
    objects = st.dictionaries(plain_texts, plain_texts, min_size=1, max_size=2).map(json.dumps)
    payloads = draw(st.lists(objects, max_size=3))
    calls = [
        {"id": f"call_{place}", "type": "function", "function": {"name": f"tool_{place}", "arguments": payload}}
        for place, payload in enumerate(payloads)
    ]
    message: Json = {"role": "assistant", "content": content, "tool_calls": calls}
    message |= {"reasoning_content": thought} if thought else {}
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in cut(draw, thought)]
    deltas += [{"content": piece} for piece in cut(draw, content)]
    pieces = [[(place, piece) for piece in cut(draw, payload)] for place, payload in enumerate(payloads)]
    opened = [
        {"tool_calls": [call | {"index": place, "function": {"name": f"tool_{place}", "arguments": ""}}]}
        for place, call in enumerate(calls)
    ]
    if draw(st.booleans()):
        mixed = draw(st.permutations([place for place, own in enumerate(pieces) for _ in own]))
        deltas += opened
        deltas += [grow(*pieces[place].pop(0)) for place in mixed]
    else:
        deltas += [each for begun, own in zip(opened, pieces, strict=True) for each in (begun, *(grow(*piece) for piece in own))]
    return message, deltas


def grow(place: int, piece: str) -> Json:
    return {"tool_calls": [{"index": place, "function": {"arguments": piece}}]}


def cut(draw: st.DrawFn, text: str) -> list[str]:
    at = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=3)))
    return [piece for start, end in zip([0, *at], [*at, len(text)], strict=True) if (piece := text[start:end])]


@pytest.mark.parametrize("samples", CLIENTS, ids=[samples.dialect.name for samples in CLIENTS])
@given(answer=chat_answers(), data=st.data())
def test_a_stream_cut_anywhere_says_what_the_whole_answer_says(
    samples: DialectSamples, answer: tuple[Json, list[Json]], data: st.DataObject
) -> None:
    """The client's own reader finds the text, the thoughts and the calls of the provider's answer, and what it cost."""
    message, deltas = answer
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
    reason = "tool_calls" if message["tool_calls"] else "stop"
    chunks: list[Json] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}, {"choices": [], "usage": usage}]
    stream = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    at = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=6)))
    translator = make_translator(samples.dialect)
    reader, written = samples.dialect.wire.make_reader(), b""
    for start, end in zip([0, *at], [*at, len(stream)], strict=True):
        written += translator.translate(stream[start:end]) if start < end else b""
    assert reader.feed(written)
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage}).encode()
    whole = make_translator(samples.dialect).translate_whole(body, is_streamed=False)
    assert whole is not None
    replies = [reader.reply, samples.dialect.wire.read_reply(whole)]
    for reply in replies:
        assert (reply.outcome, reply.input_tokens, reply.output_tokens, reply.cached_tokens) == ("completed", 9, 3, 4)
        calls = [call for item in reply.items for call in samples.dialect.view(item).calls]
        assert [(call.id, call.name, json.loads(call.arguments)) for call in calls] == [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message["tool_calls"]
        ]
        spoken = "".join(samples.dialect.wire.read_speech(item).text for item in reply.items)
        assert spoken == (message["content"] if message["content"].strip() else "")
        again = translate(samples.dialect, [*reply.items])
        thought = message.get("reasoning_content", "")
        if thought.strip() and again["messages"]:
            assert again["messages"][0]["reasoning_content"] == thought
    views = [[samples.dialect.view(item) for item in reply.items] for reply in replies]
    assert [[(view.kind, view.words) for view in views[0]]] == [[(view.kind, view.words) for view in views[1]]]


def make_translator(dialect: Dialect, **fields: Any) -> Any:
    form, provider = dialect.api.client_form, CHAT.api.upstream_form
    assert form is not None
    assert provider is not None
    plain = PlainRequest(model="m", is_streamed=True, messages=(), **fields)
    return provider.make_translator(form.make_writer(ANSWER, plain))
