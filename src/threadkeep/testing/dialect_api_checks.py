"""What every dialect must do about requests, tools, answers and erasure, as checks that need no test framework.

They go with `CHECKS` in `threadkeep.testing.dialect_checks`, and take the same samples.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from threadkeep.dialects import DIALECTS, Answer, Dialect, Reply, Request
from threadkeep.dialects.api import MANAGEMENT
from threadkeep.dialects.hidden_tool import HiddenTool
from threadkeep.dialects.raw_json import read_fields
from threadkeep.dialects.sse import EventReader
from threadkeep.dialects.translation import Message, PlainRequest, UpstreamForm, Usage
from threadkeep.dialects.values import ToolDefinition
from threadkeep.items import ItemKind, Role, ToolCall, find_open_calls, find_orphans
from threadkeep.testing.dialect_checks import Check, DialectSamples, build_items, parse_all, split_request
from threadkeep.testing.expectations import expect, expect_that

SCHEMA: Final = {"type": "object", "properties": {"path": {"type": "string"}}}
CALLS: Final = (ToolCall(id="c_1", name="ls", arguments='{"path":"a"}'), ToolCall(id="c_2", name="pwd", arguments="{}"))
RECALL: Final = ToolDefinition(name="recall_for_checks", description="Recall.", parameters=SCHEMA)
SECRET: Final = "c2VhbGVkIGJ5IHRoZSBwcm92aWRlcg=="
ROUNDS: Final = ("Let me look.", "It is 7443.")


def check_composed_requests(samples: DialectSamples) -> None:
    """What stands beside a history is found again in the request, and what is not said leaves no field."""
    dialect, said = samples.dialect, parse_all(samples, [samples.person("Go.")])
    tool = dialect.api.define_tool(name="ls", description="List.", parameters=SCHEMA)
    made = dialect.compose(system="Be brief.", tools=[tool], cache_key="k")
    again = split_request(samples, dialect.join(made, said))
    expect((list(again.items), dialect.api.find_instructions(again)), (said, "Be brief."), "a request says what it was made of")
    beside = (*made.fields.values(), *(item.raw for item in made.head))
    expect_that(any(b'"ls"' in span for span in beside), "a request offers its tools")
    head = {*dialect.compose(system="Be brief.", tools=[tool], cache_key=None).fields}
    expect(head - {*dialect.api.head_fields}, set(), "what a model is told outside the history is its head")
    expect(dialect.compose(system=None, tools=(), cache_key=None), Request(fields={}, head=(), items=()), "nothing says nothing")


def check_recognised_items(samples: DialectSamples) -> None:
    """A dialect's own calls, and what they returned, are taken for its own; no other dialect claims them."""
    made = parse_all(samples, [*samples.calls({"call_1": "{}"}), *samples.outputs({"call_1": "one"})])
    for item in made:
        claims = {name for name, dialect in DIALECTS.items() if dialect.recognises(item)}
        expect(claims | {samples.dialect.name}, {samples.dialect.name}, "no other dialect claims an item")
    expect([samples.dialect.recognises(item) for item in made], [True] * len(made), "a dialect knows its calls and outputs")


def check_instructions(samples: DialectSamples) -> None:
    """Instructions of the gateway follow the client's, and no item of the history moves."""
    api = samples.dialect.api
    for body in samples.requests:
        request = split_request(samples, body)
        added = api.add_instructions(request, "Mind the gap.")
        longer = split_request(samples, samples.dialect.join(added, request.items))
        before = api.find_instructions(request)
        expect(longer.items, request.items, "instructions stand outside the history")
        expect_that(api.find_instructions(longer).startswith(before or "Mind the gap."), "the client's own come first")
        told = b"".join((*added.fields.values(), *(item.raw for item in added.head)))
        expect(told.count(b"Mind the gap."), 1, "instructions are told once")


def check_tools(samples: DialectSamples) -> None:
    """A tool that is offered is defined, its calls are read as they were made, and what it returns answers them."""
    dialect, api = samples.dialect, samples.dialect.api
    plain = _make_request(samples)
    one, two = (api.define_tool(name=name, description="Do it.", parameters=SCHEMA) for name in ("ls", "pwd"))
    both = api.offer_tool(api.offer_tool(plain, one), two)
    tools = both.fields["tools"]
    expect((tools.find(b'"ls"') < tools.find(b'"pwd"'), tools.count(b'"Do it."')), (True, 2), "tools are offered in their order")
    expect({name: span for name, span in both.fields.items() if name != "tools"}, dict(plain.fields), "nothing else changes")
    made = api.make_calls(CALLS, text="Look.")
    views = [dialect.view(item) for item in made]
    told = [(call.id, call.name, json.loads(call.arguments)) for view in views for call in view.calls]
    expect(told, [(call.id, call.name, json.loads(call.arguments)) for call in CALLS], "calls are read as they were made")
    expect("".join(dialect.wire.read_speech(item).text for item in made), "Look.", "words before a call are speech")
    returned = [api.make_output(CALLS[0], "a\nb"), api.make_output(CALLS[1], "no", is_error=True)]
    outputs = [output for item in returned for output in dialect.view(item).outputs]
    expect([(each.call_id, each.text) for each in outputs], [("c_1", "a\nb"), ("c_2", "no")], "outputs say what tools returned")
    expect_that(outputs[0].is_error in (None, False), "what did not fail is no error")
    shown = [dialect.view(item) for item in dialect.arrange([*made, *returned])]
    expect((find_open_calls(shown), find_orphans(shown)), ([], []), "outputs answer calls")


def check_asking(samples: DialectSamples) -> None:
    """A request goes to the model that is asked, streamed and bounded once; its history and its other fields stay."""
    dialect, api = samples.dialect, samples.dialect.api
    request = _make_request(samples)
    for changed in (
        api.address_request(request, model="m-1"),
        api.limit_answer(request, tokens=17),
        api.forbid_tools(request),
        api.copy_delivery(request, split_request(samples, samples.requests[0])),
    ):
        kept = {name: changed.fields.get(name) for name in request.fields}
        expect((kept, changed.items), (dict(request.fields), request.items), "what a client wrote stays")
    bounded = api.limit_answer(request, tokens=17)
    expect_that(any(b"17" in span for span in bounded.fields.values()), "an answer is bounded")
    expect(api.limit_answer(bounded, tokens=99), bounded, "a bound is set once")
    expect(api.forbid_tools(request), request, "where no tool is offered, none is forbidden")
    path = api.endpoints.turn.format(model="m-1")
    asked = api.read_target(api.address_request(request, model="m-1").fields, path=path, query="")
    expect(asked.model, "m-1", "a request names its model, in its fields or in its path")
    own, client = split_request(samples, samples.requests[0]), request
    targets = [api.read_target(each.fields, path=path, query="") for each in (api.copy_delivery(client, own), own)]
    expect(targets[0], targets[1], "a request of our own is answered as the client's is")
    items = parse_all(samples, [samples.person("Go."), samples.answer("Yes."), samples.person("On.")])
    forms = [list(map(dialect.canonical, each)) for each in (api.mark_cache_end(items), items)]
    expect(forms[0], forms[1], "a cache marker is no part of a history")


def check_endpoints(samples: DialectSamples) -> None:
    """Paths lie below the mount; a turn is no side request, and needs no headers of its own."""
    api = samples.dialect.api
    points = api.endpoints
    paths = (points.mount, points.turn, points.models, *points.others)
    expect([path for path in paths if not path.startswith("/")], [], "a path begins at the root")
    expect_that(points.turn not in points.others, "a turn has a path of its own")
    request = _make_request(samples)
    expect(dict(api.headers_for(request.items)), {}, "plain items need no headers")
    expect_that(api.is_side_request(request, path=points.turn) is False, "a turn is no side request")
    expect_that(api.is_count(points.turn) is False, "a turn asks for no count")
    expect(api.read_window("a-model-of-tomorrow", {}), None, "a request with an unknown model speaks of no window")
    expect(dict(api.drop_management({"x-other": "1"})), {}, "headers of other things do not change")
    managed = replace(request, fields={MANAGEMENT: b'[{"type":"compaction","compact_threshold":1000}]'})
    found = [api.find_threshold(each) for each in (request, managed)]
    expect(found, [None, 1_000], "a threshold is what the request says")
    expect_that(b"1700" in api.render_count(1_700), "a count is told")
    flags = (samples.dialect.opens_with_user, samples.dialect.takes_instructions_anywhere, samples.dialect.wire.streams_items)
    expect([type(flag) for flag in flags], [bool] * len(flags), "each rule holds or does not")
    beside = [path for path in points.others if api.is_side_request(request, path=path)]
    expect_that(beside or not points.others, "of further paths, at least one is for something else")


def check_deltas(samples: DialectSamples) -> None:
    """The pieces of a streamed answer amount to what it says; whole items, where they stream, are those of the reply."""
    wire, answer = samples.dialect.wire, _make_answer("Grüße,\nund mehr.")
    wanted = {sample.stream: [sample.stop_reason] for sample in samples.streams if sample.stop_reason}
    expect_that(wanted, "the samples have a stream that says why it ended")
    for stream in (wire.render_answer_stream(answer), *(sample.stream for sample in samples.streams)):
        reply = _read(samples.dialect, stream)
        events = [fields for data in EventReader().feed(stream) if (fields := read_fields(data)) is not None]
        deltas = [delta for event in events if (delta := wire.read_delta(event)) is not None]
        told = "".join(delta.text for delta in deltas if not delta.is_thought)
        speech = "".join(wire.read_speech(item).text for item in reply.items)
        expect(told if speech else "", speech, "pieces amount to the speech")
        reasons = [reason for event in events if (reason := wire.read_stop_reason(event)) is not None]
        expect(reasons[-1:], wanted.get(stream, reasons[-1:]), "an answer says why it ended")
        whole = [item for event in events if (item := wire.read_finished_item(event)) is not None]
        same = {item.raw for item in whole} == {item.raw for item in reply.items}
        expect((bool(whole), same or not whole), (wire.streams_items and bool(reply.items), True), "whole items are the reply's")
    items = parse_all(samples, [samples.answer("Yes."), *samples.calls({"c": "{}"}, thought="Hm."), samples.thought("Hm.")])
    expect([wire.read_speech(item).text for item in items if wire.read_speech(item).text], ["Yes."], "a thought is no speech")


def check_hidden_tool(samples: DialectSamples) -> None:
    """A hidden tool joins a request, is called and answered; the client gets one answer, and no call of it."""
    dialect, wire = samples.dialect, samples.dialect.wire
    tool = HiddenTool(definition=RECALL, dialect=dialect)
    request = split_request(samples, samples.requests[-1])
    expect((tool.can_join(request), tool.can_join(tool.add_to(request))), (True, False), "one tool has the name")
    ours = ToolCall(id="c_9", name=RECALL.name, arguments='{"query":"port"}')
    for calls, others in (([ours], False), ([CALLS[0], ours], True)):
        made = dialect.api.make_calls(calls, text="Let me look.")
        found = tool.find_calls(made)
        expect((found.calls, found.has_others), ((("c_9", {"query": "port"}),), others), "its calls are told from others")
        outputs = tool.make_outputs({"c_9": "7443"})
        expect([dialect.view(item).closes for item in outputs], [("c_9",)], "what it returned answers its call")
        expect_that(tool.render_echo(made).startswith("Letmelook."), "an echo says its words")
        expect_that(not (RECALL.name in tool.render_echo(made) or "c_9" in tool.render_echo(made)), "an echo has no hidden call")
    client = dialect.parse(samples.outputs({"c_1": "one"})[0])
    joined = tool.join_outputs(client, outputs)
    expect(joined is None, len(dialect.arrange([*outputs, client])) > 1, "outputs that stand in one message are joined")
    behind = [dialect.view(item) for item in ([*outputs, client] if joined is None else [joined])]
    expect(sorted(each for view in behind for each in view.closes), ["c_1", "c_9"], "its output goes with the client's own")
    thought = samples.thought("Hm.")
    forms = {tool.identify_reasoning(dialect.parse(value)) for value in (thought, samples.respelled(thought))}
    expect((len(forms), None in forms), (1, False), "reasoning is known however it is spelled")
    expect(tool.identify_reasoning(client), None, "nothing else is reasoning")
    streams = [wire.render_answer_stream(_make_answer(text)) for text in ROUNDS]
    for size in (1, 7, 10_000):
        plain = _filter_rounds(dialect, streams[:1], name=RECALL.name, size=size)
        expect(_read(dialect, plain), _read(dialect, streams[0]), "a plain answer stays as it is")
        expect(plain[-3:], streams[0][-3:], "a blank line ends the last event, wherever chunks were cut")
        shown = _read(dialect, _filter_rounds(dialect, streams, name=RECALL.name, size=size))
        _expect_both(dialect, shown)
    merged = wire.merge_answers([json.loads(wire.render_answer(_make_answer(text))) for text in ROUNDS], name=RECALL.name)
    _expect_both(dialect, wire.read_reply(json.dumps(merged).encode()))
    for sample in samples.streams:
        called = [call for item in sample.reply.items for call in dialect.view(item).calls]
        for name in {call.name for call in called}:
            visible = _read(dialect, _filter_rounds(dialect, [sample.stream], name=name, size=7))
            left = [call.id for item in visible.items for call in dialect.view(item).calls]
            expect(left, [call.id for call in called if call.name != name], "no call of a hidden tool is shown")
            expect((visible.outcome, visible.output_tokens), (sample.reply.outcome, sample.reply.output_tokens), "its end stays")


def check_sealed_items(samples: DialectSamples) -> None:
    """What only its issuer may be handed back is known and taken out; items without it are the very same."""
    dialect = samples.dialect
    sealed = dialect.parse(samples.sealed(SECRET))
    expect((SECRET.encode() in sealed.raw, dialect.has_sealed(sealed)), (True, True), "a seal is seen")
    bare = dialect.remove_sealed(sealed)
    if bare is not None:
        expect((SECRET.encode() in bare.raw, dialect.has_sealed(bare)), (False, False), "a seal is taken out whole")
    plain = [samples.person("thinking"), samples.answer("reasoning"), *samples.outputs({"a": "compaction"})]
    for item in parse_all(samples, plain):
        expect((dialect.remove_sealed(item) is item, dialect.has_sealed(item)), (True, False), "plain items stay as they are")


def check_erased_items(samples: DialectSamples) -> None:
    """An item whose words must not go out keeps its role, its calls and their answers, and says nothing else."""
    dialect = samples.dialect
    for item in parse_all(samples, build_items(samples)):
        view, blank = dialect.view(item), dialect.blank_item(item, "[erased]")
        expect(dialect.blank_item(item, "[erased]"), blank, "erasing is deterministic")
        if blank is None:
            expect_that(
                view.kind in (ItemKind.REASONING, ItemKind.OPAQUE) or view.role is Role.SYSTEM, "an item can be without words"
            )
            continue
        left = dialect.view(blank)
        expect((left.opens, left.closes), (view.opens, view.closes), "an erased item has the same calls and answers")
        expect((left.role, left.images), (view.role, 0), "an erased item is of the same role")
        expect([word for word in view.text.split() if len(word) > 3 and word in left.text.split()], [], "its words are gone")
    for item in parse_all(samples, samples.outputs({"call_1": "one", "call_2": "two"})):
        closes = dialect.view(item).closes
        call = dialect.make_erased_call([(name, item) for name in closes])
        made = None if call is None else dialect.view(call)
        expect(made and (made.opens, made.kind, made.words), (closes, ItemKind.CALL, ""), "an output has a call without words")


def check_host_parts(samples: DialectSamples) -> None:
    """Of a message in the user's role, what its host put there can be kept without a person's words."""
    dialect = samples.dialect
    kept = dialect.keep_host_parts(dialect.parse(samples.mixed("cwd: /src", "Never push.")))
    host = None if kept is None else dialect.view(kept)
    said = None if host is None else (host.by_person, "cwd: /src" in host.text, "push" in host.text)
    expect(said, (False, True, False), "the host's part stays")
    expect(dialect.keep_host_parts(dialect.parse(samples.person("Never push."))), None, "a person's message has no other part")


def check_window_rules(samples: DialectSamples) -> None:
    """The abilities that only some APIs have change no word of a history, and do nothing where they are not needed."""
    dialect, api = samples.dialect, samples.dialect.api
    request = _make_request(samples)
    items = parse_all(samples, [samples.person("One."), samples.answer("Two."), samples.person("Three.")])
    forms = list(map(dialect.canonical, items))
    if api.cache_markers is not None:
        marked = [*items[:-1], api.cache_markers.mark_item(items, request, at=2)]
        expect((marked == items, list(map(dialect.canonical, marked))), (False, forms), "a marker is set, and is no word")
        expect(api.cache_markers.limit_markers(marked, request), marked, "one marker is not too many")
    if api.thinking is not None:
        sealed = dialect.parse(samples.sealed(SECRET))
        expect_that(SECRET.encode() not in api.thinking.remove_thinking(sealed).raw, "bound thinking is taken out")
        expect([api.thinking.remove_thinking(item) for item in items], items, "items without thinking stay")
        expect_that(api.thinking.is_bound("a-model-of-tomorrow"), "unknown models bind their thinking")
        expect_that(api.thinking.is_requested(request) is False, "a plain request asks for no thinking")
        expect(api.thinking.drop_mismatched(request), (request, {}), "where none is asked for, none is dropped")
    if api.prompt_cache is not None:
        keyed = api.prompt_cache.set_key(request, "k")
        expect((keyed == request, api.prompt_cache.set_key(keyed, "other")), (False, keyed), "a cache key is set once")
        expect_that(b'"k"' in keyed.fields.values(), "the key is the one that was given")
        ended = api.prompt_cache.set_breakpoint(items[2])
        raws = [] if ended is None else [items[2].raw, ended.raw]
        expect([api.prompt_cache.has_breakpoint(raw) for raw in raws], [False, True], "a breakpoint is set and seen")
        expect_that(api.prompt_cache.takes_breakpoints("a-model-of-tomorrow", {}) is False, "unknown models take none")
    if api.merger is not None:
        expect([api.merger.is_user_message(item) for item in items], [True, False, True], "messages of the user's role are known")
        merged = dialect.view(api.merger.merge_messages([items[0], items[2]]))
        expect(merged.said.split(), ["One.", "Three."], "merged messages keep every word, in order")
        expect_that(api.merger.takes_neighbours("a-model-of-tomorrow") is False, "unknown models take no neighbours")
    if api.continuation is not None:
        body = dialect.join(request, items[2:])
        name, *_ = dialect.held_elsewhere
        named = dialect.join(replace(request, fields={**request.fields, name: b'"r_1"'}), items[2:])
        found = [api.continuation.read_previous(each) for each in (body, named)]
        expect(found, [None, "r_1"], "a request goes on from the answer that it names")
        expect_that(api.continuation.is_stored(request.fields) is True, "an answer can be gone on from")
        expect_that(api.continuation.is_abridged(body) is False, "no checkpoint stands in a plain request")
        whole = api.continuation.join_history(body, (), items[:2])
        again = None if whole is None else dialect.split(whole)
        expect(again and list(again.items), items, "a history is what came before, and what is new")
    for name in dialect.held_elsewhere:
        held = replace(request, fields={**request.fields, name: b'"r_1"'})
        expect(dialect.split(dialect.join(held, items)), None, "a history that the provider holds is not in the request")
    if dialect.opens_with_user:
        expect(dialect.view(dialect.make_user_message("Go on.")).role, Role.USER, "a history can be opened")


def check_provider_compactions(samples: DialectSamples) -> None:
    """Where the provider compacts, a request for it has the history; what it wrote is told from everything else."""
    dialect, compaction = samples.dialect, samples.dialect.api.compaction
    items = parse_all(samples, build_items(samples))
    expect([dialect.split_compaction(item).rest for item in items], items, "plain items hold no compaction")
    if compaction is None:
        return
    request = _make_request(samples)
    asked = compaction.ask(request, model="m-1")
    histories = [each.request.items[: len(request.items)] for each in asked]
    expect(histories, [request.items] * len(asked), "what is compacted is the history")
    expect(compaction.instruct(request, "Keep the ports.").items, request.items, "instructions are no part of the history")
    expect([each.request.fields["model"] for each in asked], [b'"m-1"'] * len(asked), "the model is the one that is asked")
    expect_that(asked and all(each.path.startswith("/") for each in asked), "it is asked for at an address")
    expect(compaction.address_turn(request)[0].items, request.items, "behind a compaction the history is the same")
    expect([compaction.split(item).written for item in items], [None] * len(items), "plain items hold no compaction")


def check_compaction_service(samples: DialectSamples) -> None:
    """Where clients ask a provider to compact, the gateway's answer is one compaction, and no plain turn is taken for it."""
    dialect, service = samples.dialect, samples.dialect.api.compaction_service
    if service is None:
        return
    request, points = _make_request(samples), dialect.api.endpoints
    expect(service.find_asked(request, path=points.turn), None, "a turn asks for no compaction")
    asked = [found for path in points.others if (found := service.find_asked(request, path=path)) is not None]
    expect([split_request(samples, body).items for body in asked], [request.items], "what is compacted is the history")
    path = next(path for path in points.others if service.find_asked(request, path=path) is not None)
    streamed = replace(request, fields={"stream": b"true"})
    for each, at in ((request, path), (request, points.turn), (streamed, points.turn)):
        answer = service.render_answer(each, path=at, name="threadkeep:c_1", created_at=17)
        expect_that(b"threadkeep:c_1" in answer, "the answer names the compaction")
    expect_that(service.has_begun(answer) is True, "the beginning of a compaction is known")
    plain = dialect.wire.render_answer_stream(_make_answer("Done."))
    expect([service.has_begun(plain), service.has_begun(b"")], [False, None], "a plain answer is none")


def check_translated_requests(samples: DialectSamples) -> None:
    """What a client says reaches a provider of another language: words, calls and what they returned, instructions and tools."""
    dialect, form, upstream = samples.dialect, samples.dialect.api.client_form, samples.dialect.api.upstream_form
    if upstream is not None:
        said = PlainRequest(model="m", is_streamed=False, messages=(Message(role="user", content=("Begin.",)),))
        expect_that(b"Begin." in upstream.write_request(said), "a request says what was said")
    if form is None:
        return
    tool = dialect.api.define_tool(name="ls", description="", parameters=SCHEMA)
    spoken = [samples.person("Begin."), *samples.calls({"c_1": "{}"}), *samples.outputs({"c_1": "one"})]
    request = dialect.compose(system="Be brief.", tools=[tool], cache_key=None)
    plain = form.read_request(replace(request, items=tuple(parse_all(samples, spoken))))
    expect(list(plain.tools), ["ls"], "tools keep their names")
    for other, provider in _list_upstreams():
        written = other.split(provider.write_request(plain))
        views = [other.view(item) for item in written.items] if written else []
        told = [(call.id, call.arguments) for view in views for call in view.calls]
        outputs = [(output.call_id, output.text) for view in views for output in view.outputs]
        expect(([view.said for view in views[:1]], told, outputs), (["Begin."], [("c_1", "{}")], [("c_1", "one")]), "all is said")
        expect(written and other.api.find_instructions(written), "Be brief.", "instructions are instructions")


def check_translated_answers(samples: DialectSamples) -> None:
    """A client reads in its own language, streamed and whole, what a provider said in another."""
    dialect, plain = samples.dialect, PlainRequest(model="m", is_streamed=True, messages=())
    if (form := dialect.api.client_form) is not None:
        writer = form.make_writer(_make_answer(""), plain)
        reader = dialect.wire.make_reader()
        writer.begin()
        writer.open("text")
        writer.grow("Done.")
        writer.close()
        writer.finish("stop", Usage(read=9))
        expect_that(reader.feed(writer.take()), "an answer has an end")
        for reply in (reader.reply, dialect.wire.read_reply(writer.whole())):
            said = "".join(dialect.wire.read_speech(item).text for item in reply.items)
            expect((said, reply.input_tokens, reply.outcome), ("Done.", 9, "completed"), "an answer says what was said")
    for client in DIALECTS.values() if dialect.api.upstream_form is not None else ():
        for streamed in samples.streams if client.api.client_form is not None else ():
            assert dialect.api.upstream_form is not None
            assert client.api.client_form is not None
            translator = dialect.api.upstream_form.make_translator(client.api.client_form.make_writer(_make_answer(""), plain))
            reader = client.wire.make_reader()
            reader.feed(translator.translate(streamed.stream) + translator.translate(b""))
            told = [
                "".join(language.wire.read_speech(item).text.strip() for item in reply.items)
                for language, reply in ((client, reader.reply), (dialect, streamed.reply))
            ]
            expect(told[0], told[1], "a translated answer says what was said")


def _list_upstreams() -> list[tuple[Dialect, UpstreamForm]]:
    return [(each, each.api.upstream_form) for each in DIALECTS.values() if each.api.upstream_form is not None]


def check_conversations(samples: DialectSamples) -> None:
    """Where a provider holds histories by name, a name is read, its items are listed page by page, and one can be made."""
    dialect, continuation = samples.dialect, samples.dialect.api.continuation
    if continuation is None:
        return
    one = parse_all(samples, [samples.person("One.")])
    named = [
        continuation.read_conversation(body) for body in (b'{"conversation":"c/1"}', b'{"conversation":{"id":"c/1"}}', b"{}")
    ]
    expect(named, ["c/1", "c/1", None], "a conversation is named by its id")
    paths = [continuation.make_items_path("c/1", after=after) for after in (None, "i/2")]
    expect(["c%2F1" in path and "i%2F2" in path for path in paths], [False, True], "a page begins behind an item")
    pages = [b'{"data":[%b],"has_more":%b,"last_id":"i_1"}' % (one[0].raw, more) for more in (b"true", b"false")]
    expect(
        [continuation.read_items_page(page) for page in (*pages, b"[]")], [(one, "i_1"), (one, None), None], "a page has items"
    )
    made = b'{"items":[%b],"metadata":{"a":"b"}}' % one[0].raw
    first = continuation.find_first_items(made, path=paths[0].split("/c%2F1")[0])
    begun = None if first is None else dialect.split(first)
    expect(begun and list(begun.items), one, "a conversation begins with the items that it is given")
    expect(continuation.find_first_items(made, path=dialect.api.endpoints.turn), None, "a turn makes none")
    told = continuation.render_conversation(made, name="c_2", created_at=17)
    expect_that(b'"c_2"' in told and b'"b"' in told, "a conversation is told its name, and keeps what was said about it")


def check_frames(samples: DialectSamples) -> None:
    """Where the API is spoken over WebSocket, a frame says what a request over HTTP says, and frames name their lane."""
    dialect, frames = samples.dialect, samples.dialect.api.frames
    if frames is None:
        return
    items = parse_all(samples, [samples.person("One."), samples.answer("Two."), samples.person("Three.")])
    body = dialect.join(_make_request(samples), items)
    first, spans = frames.make_create_frame(body, sent=(), previous=None)
    later, _ = frames.make_create_frame(body, sent=spans[:2], previous="r_1")
    whole, rest = frames.read_frame(first), frames.read_frame(later)
    if whole is None or rest is None:
        raise AssertionError("a frame that was made can be read")
    found = [(frame.kind, frame.previous, frame.input) for frame in (whole, rest)]
    expect(found, [("create", None, tuple(items)), ("create", "r_1", tuple(items[2:]))], "a frame has what is new")
    again = split_request(samples, frames.make_body(whole, previous=None, items=items))
    expect((again.items, again.fields["x_unknown"]), (tuple(items), b"[ 1.0 ]"), "a frame says what its request says")
    expect(dict(frames.read_headers(whole)), {}, "a plain frame has no headers")
    expect(frames.read_frame(b"[1]"), None, "what is no object is no frame")
    events = [json.loads(event) for event in frames.make_empty_answer(_make_answer(""))]
    expect_that(events and all("type" in event for event in events), "an answer that says nothing has its events")
    made = [
        frames.make_event(b'{"type":"t"}', stream="s"),
        frames.make_error(400, {"code": "bad"}, stream="s"),
        frames.make_steer_event("failed", {"id": "x"}, stream="s"),
    ]
    expect([json.loads(each)["stream_id"] for each in made], ["s"] * len(made), "a frame names its lane")
    called = parse_all(samples, samples.calls({"call_1": "{}", "call_2": "{}"}))
    required = [each["call_id"] for each in frames.list_required(called, ["call_2"])]
    expect(required, ["call_2"], "what is still to be handed over is told by its call")


def _make_request(samples: DialectSamples) -> Request:
    """Return a request with nothing beside its history but a field that nobody knows."""
    return Request(fields={"x_unknown": b"[ 1.0 ]"}, head=(), items=tuple(parse_all(samples, [samples.person("Go.")])))


def _make_answer(text: str) -> Answer:
    return Answer(text=text, response_id="r_1", message_id="m_1", model="m", created_at=17)


def _filter_rounds(dialect: Dialect, streams: Sequence[bytes], *, name: str, size: int) -> bytes:
    """Return what a client gets of several answers, read in chunks of this size."""
    shown, blend = b"", dialect.wire.make_filter(name)
    for number, stream in enumerate(streams):
        if number:
            blend.start_next()
        shown += b"".join(blend.feed(stream[at : at + size]) for at in range(0, len(stream), size)) + blend.feed(b"")
    return shown + blend.end()


def _read(dialect: Dialect, stream: bytes) -> Reply:
    reader = dialect.wire.make_reader()
    reader.feed(stream)
    return reader.reply


def _expect_both(dialect: Dialect, reply: Reply) -> None:
    said = " ".join(dialect.wire.read_speech(item).text for item in reply.items)
    expect((reply.outcome, all(text in said for text in ROUNDS)), ("completed", True), "one answer says what all of them said")


API_CHECKS: tuple[Check, ...] = (
    check_composed_requests,
    check_recognised_items,
    check_instructions,
    check_tools,
    check_asking,
    check_endpoints,
    check_deltas,
    check_hidden_tool,
    check_sealed_items,
    check_erased_items,
    check_host_parts,
    check_window_rules,
    check_provider_compactions,
    check_compaction_service,
    check_translated_requests,
    check_translated_answers,
    check_conversations,
    check_frames,
)
