"""What every dialect must do, as checks that need no test framework.

A dialect proves itself by running each of `CHECKS`, and of `API_CHECKS` in `threadkeep.testing.dialect_api_checks`, on samples of
its own. A check raises `AssertionError` with the fact that does not hold. Random choices have fixed seeds: a check that failed
fails again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations, pairwise
from random import Random
from typing import Any, Final, Protocol

from threadkeep.compaction import Ledger, render_state
from threadkeep.dialects import Answer, Dialect, Reply, Request
from threadkeep.dialects.values import SEPARATOR
from threadkeep.errors import InvalidItem
from threadkeep.items import Item, ItemKind, Role, View, find_boundaries, find_open_calls, find_orphans
from threadkeep.testing.expectations import expect, expect_error

Json = dict[str, Any]

HALF: Final = rb"\ud83d"
UNKNOWN_FIELD: Final[Json] = {"x_unknown": {"z": [1, None, 0.5, "\u2028é"], "a": {}}}
ODD_VALUES: Final[tuple[object, ...]] = (
    *(None, True, -1, 0.5, 10**25, "", "x", "user", "tool_result"),
    *([], [[]], {}, [1, {}], {"type": 3}, {"type": []}),
)
ODD_BYTES: Final = (b"", b"\xff", b"[1]", b"null", b'{"a":NaN}', b'{"v":1e999999999}', b'{"a":' * 3_000 + b"1" + b"}" * 3_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """A recorded stream and the reply a reader must build from it; `ended` says whether it holds the terminal event.

    `stop_reason` is why the answer ended, in the API's own word.
    """

    stream: bytes
    reply: Reply
    ended: bool = True
    stop_reason: str | None = None


class DialectSamples(Protocol):
    """Items of one dialect, as its own clients and providers write them. What is built is decoded JSON."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def requests(self) -> Sequence[bytes]:
        """Request bodies without blanks around their fields and messages; each can be split."""
        ...

    @property
    def streams(self) -> Sequence[Streamed]: ...

    def person(self, text: str) -> Json: ...

    def pictured(self, text: str) -> Json:
        """A person's message with one image."""
        ...

    def host(self, text: str) -> Json:
        """A client's text about its environment, in the user's role."""
        ...

    def system(self, text: str) -> Json: ...

    def answer(self, text: str) -> Json: ...

    def thought(self, text: str) -> Json:
        """An item that holds reasoning and nothing else."""
        ...

    def calls(self, arguments: Mapping[str, str], *, thought: str | None = None) -> list[Json]:
        """Calls made at once, by id, with the reasoning that led to them."""
        ...

    def outputs(self, texts: Mapping[str, str]) -> list[Json]:
        """The outputs of those calls, by id."""
        ...

    def sealed(self, secret: str) -> Json:
        """An item with `secret` in a form that only the account it was issued to may hand back."""
        ...

    def mixed(self, host: str, said: str) -> Json:
        """A message with a client's text about its environment in one part, and a person's words in another."""
        ...

    def unknown(self) -> Json:
        """An item of an unknown form."""
        ...

    def respelled(self, item: Json) -> Json:
        """The same item as another client would send it: other ids, markers, forms of content."""
        ...

    def may_follow(self, before: Json, after: Json) -> bool:
        """Whether the provider accepts `after` right behind `before`."""
        ...


def build_items(samples: DialectSamples) -> list[Json]:
    """Return one item of each sort the samples have."""
    return [
        samples.person("Never push to main."),
        samples.pictured("What is this?"),
        samples.host("cwd: /src"),
        samples.system("Be brief."),
        samples.answer("It is a logo."),
        samples.thought("Look first."),
        *samples.calls({"call_1": '{"path":"a"}', "call_2": "{}"}, thought="Both."),
        *samples.outputs({"call_1": "one", "call_2": "two"}),
        samples.unknown(),
    ]


def parse_all(samples: DialectSamples, items: Sequence[Json]) -> list[Item]:
    return [samples.dialect.parse(item) for item in items]


def split_request(samples: DialectSamples, body: bytes) -> Request:
    request = samples.dialect.split(body)
    if request is None:
        raise AssertionError(f"a request with a readable history can be taken apart: {body!r:.300}")
    return request


def shuffle_keys(value: object, order: Random) -> object:
    """Return a value with the keys of its every object in another order."""
    if isinstance(value, dict):
        return {name: shuffle_keys(value[name], order) for name in order.sample(list(value), len(value))}
    return [shuffle_keys(each, order) for each in value] if isinstance(value, list) else value


def generate_strange_values(values: Sequence[Json], luck: Random, *, count: int) -> Iterator[object]:
    """Yield values like these with something odd in the place of one of their parts."""
    yield from ODD_VALUES
    yield from ({"role": one, "type": other} for one, other in combinations(ODD_VALUES, 2))
    for _ in range(count):
        yield _mutate(luck.choice(values), luck)


def _mutate(value: object, luck: Random) -> object:
    if luck.random() < 0.25 or not value or not isinstance(value, (dict, list)):
        return luck.choice(ODD_VALUES)
    place = luck.choice(list(value) if isinstance(value, dict) else range(len(value)))
    if isinstance(value, dict):
        return {**value, place: _mutate(value[place], luck)}
    return [_mutate(each, luck) if index == place else each for index, each in enumerate(value)]


def _halve_emoji(item: Item) -> Item:
    """Return an item whose every `@` is half an emoji."""
    return Item(item.raw.replace(b"@", HALF))


def check_items_keep_every_field(samples: DialectSamples) -> None:
    """Parsing keeps every field, known or not, in order, and parsing the result again changes no byte."""
    for value in build_items(samples):
        item = samples.dialect.parse({**value, **UNKNOWN_FIELD})
        expect(list(json.loads(item.raw).items()), list({**value, **UNKNOWN_FIELD}.items()), "an item says what was given")
        expect(samples.dialect.parse(json.loads(item.raw)), item, "there is one serialisation")


def check_values_beyond_json_are_refused(samples: DialectSamples) -> None:
    """A value that JSON would change is an error."""
    deep: Json = {}
    for _ in range(100_000):
        deep = {"a": deep}
    held: tuple[object, ...] = (
        float("nan"),
        float("inf"),
        b"bytes",
        {1, 2},
        (1,),
        Decimal("1.5"),
        View(kind=ItemKind.OPAQUE, role=Role.USER),
        object(),
        "\ud83d",
        {1: 2},
        deep,
    )
    values: tuple[object, ...] = (None, [], "text", 7, *({"x": inner} for inner in held))
    for value in values:
        with expect_error(InvalidItem, f"{type(value).__name__} is no item"):
            samples.dialect.parse(value)


def check_requests_keep_their_bytes(samples: DialectSamples) -> None:
    """Splitting and joining changes nothing; another history changes the history alone."""
    state = samples.dialect.make_user_message("S")
    for body in samples.requests:
        request = split_request(samples, body)
        expect(samples.dialect.join(request, request.items), body, "a request comes back as it was sent")
        rewritten = split_request(samples, samples.dialect.join(request, [state]))
        expect((rewritten.head, rewritten.items), (request.head, (state,)), "the head stays, the history is the new one")
        changed = [name for name, span in request.fields.items() if rewritten.fields[name] != span]
        expect((list(rewritten.fields), len(changed)), (list(request.fields), 1), "one field holds the history, no other moves")


def check_unknown_items_survive(samples: DialectSamples) -> None:
    """Odd spelling, unknown items and unknown fields keep their bytes in a request."""
    request = split_request(samples, samples.requests[0])
    spelled = [json.dumps({**value, **UNKNOWN_FIELD}, indent=1).encode() for value in build_items(samples)]
    body = samples.dialect.join(request, [Item(raw) for raw in spelled])
    again = split_request(samples, body)
    expect([*again.head, *again.items], [*request.head, *map(Item, spelled)], "an item is the span it came from")


def check_half_emoji_survive(samples: DialectSamples) -> None:
    """Clients cut strings inside a surrogate pair; no request, byte, view or canonical form is lost to it."""
    dialect = samples.dialect
    request = split_request(samples, samples.requests[0])
    person, (output, *_) = samples.person("Never push @"), samples.outputs({"c": "cut @"})
    items = [_halve_emoji(dialect.parse(value)) for value in (person, samples.answer("@"), {**output, "x_unknown": "@"})]
    body = dialect.join(request, items)[:-1] + b',"x_note":"' + HALF + b'"}'
    again = split_request(samples, body)
    expect([*again.head, *again.items], [*request.head, *items], "items keep their halves")
    expect(dialect.join(again, again.items), body, "a request with halves comes back as it was sent")
    expect(dialect.view(items[0]).said, "Never push \ufffd", "a half is read as U+FFFD")
    stub = dialect.replace_output(items[2], "stub")
    expect((stub is not None and HALF in stub.raw, stub and dialect.view(stub).closes), (True, ("c",)), "a stub keeps them too")
    marked = _halve_emoji(dialect.parse(samples.respelled(person)))
    upper = Item(marked.raw.replace(HALF, HALF.upper().replace(b"U", b"u")))
    expect({dialect.canonical(each) for each in (marked, upper)}, {dialect.canonical(items[0])}, "a half freezes no spelling")
    dialect.arrange(items)


def check_unreadable_requests_are_not_split(samples: DialectSamples) -> None:
    """A request whose history cannot be read is not split."""
    body = samples.requests[0]
    for broken in (
        *ODD_BYTES[:5],
        b"{}",
        b'{"model":"m"}',
        *(body[:stop] for stop in range(1, len(body), max(1, len(body) // 60))),
    ):
        expect(samples.dialect.split(broken), None, f"no history is read from {broken!r:.100}")


def check_spellings_share_canonical_form(samples: DialectSamples) -> None:
    """Key order, ids, markers, and string or list make no difference."""
    dialect, order = samples.dialect, Random(1)
    for value in build_items(samples):
        form = dialect.canonical(dialect.parse(value))
        for spelling in (shuffle_keys(value, order), samples.respelled(value), shuffle_keys(samples.respelled(value), order)):
            raw = json.dumps(spelling, indent=1).encode()
            expect(dialect.canonical(Item(raw)), form, f"{value!r:.200} has one form")


def check_different_items_differ_canonically(samples: DialectSamples) -> None:
    """A changed character, id, value or half of a character is another history."""
    dialect = samples.dialect
    values = [
        *build_items(samples),
        *(samples.person(text) for text in ("line", "line\n", "Line", "")),
        samples.answer("line"),
        samples.thought("Look twice."),
        *samples.calls({"call_1": '{"path":"b"}'}),
        *samples.calls({"call_9": '{"path":"b"}'}),
        *samples.outputs({"call_9": "one"}),
        *({**samples.unknown(), "v": inner} for inner in (1, 1.5, "1.5", True, None)),
    ]
    forms = [dialect.canonical(dialect.parse(value)) for value in values]
    expect(len(set(forms)), len(forms), "two items have two forms")
    template = dialect.parse({**samples.person("x"), "x_unknown": "@"}).raw
    odd = (b"0.1", b"0.1000000000000000055", b"1e400", b"1e401", rb'"\ud83d"', rb'"\ud83e"', rb'"\ufffd"', rb'"\\ud83d"', b'"?"')
    spelled = {dialect.canonical(Item(template.replace(b'"@"', each))) for each in odd}
    expect(len(spelled), len(odd), "numbers beyond a float and halves of characters stay apart")


def check_views(samples: DialectSamples) -> None:
    """Kind, role and speaker of each sort of item."""
    view = {index: samples.dialect.view(item) for index, item in enumerate(parse_all(samples, build_items(samples)))}
    person, pictured, host, system, answer, thought = (view[index] for index in range(6))
    expect((person.kind, person.role, person.by_person), (ItemKind.MESSAGE, Role.USER, True), "a person's message")
    expect((person.said, person.text), ("Never push to main.",) * 2, "a person's words")
    expect((pictured.by_person, pictured.images, pictured.said), (True, 1, "What is this?"), "a person's picture")
    expect((host.by_person, host.said, host.context is None), (False, "", False), "a host's words about its world")
    expect((system.role, system.by_person, system.context is None), (Role.SYSTEM, False, False), "instructions")
    expect((answer.kind, answer.role, answer.text), (ItemKind.MESSAGE, Role.ASSISTANT, "It is a logo."), "an answer")
    expect((thought.kind, thought.role), (ItemKind.REASONING, Role.ASSISTANT), "a thought")
    expect(view[len(view) - 1].kind, ItemKind.OPAQUE, "what nobody knows")
    nothing = samples.dialect.view(samples.dialect.parse(samples.person("")))
    expect((nothing.by_person, nothing.said), (False, ""), "an empty message is nobody's request")


def check_strange_items(samples: DialectSamples) -> None:
    """Whatever JSON, or bytes, an item is, no method raises, and what is sent on alone is what came."""
    dialect = samples.dialect
    strange = (json.dumps(value).encode() for value in generate_strange_values(build_items(samples), Random(2), count=1_500))
    for raw in (*ODD_BYTES, *strange):
        item = Item(raw)
        view = dialect.view(item)
        expect({call.id for call in view.calls} - {*view.opens}, set(), "a view tells of no call that it does not open")
        expect({output.call_id for output in view.outputs} - {*view.closes}, set(), "nor of an output that closes none")
        expect(dialect.canonical(item), dialect.canonical(Item(bytes(raw))), "equal bytes have one form")
        expect(dialect.arrange([item]), [item], "one item needs no arranging")
        dialect.arrange([item, item])
        dialect.abort_calls(item, dialect.view(item).opens)
        stub = dialect.replace_output(item, "stub")
        if stub is not None:
            expect(dialect.view(stub).closes, dialect.view(item).closes, "a stub closes what it closed")


def check_calls_pair(samples: DialectSamples) -> None:
    """Calls made at once open their ids, outputs close them, and no cut stands between."""
    arguments = {"a": '{"x":1}', "b": "{}", "c": '{"command":"ls"}'}
    made = [samples.dialect.view(item) for item in parse_all(samples, samples.calls(arguments, thought="Three."))]
    given = [samples.dialect.view(item) for item in parse_all(samples, samples.outputs({"b": "2", "a": "1", "c": "3"}))]
    asked = samples.dialect.view(samples.dialect.parse(samples.person("Go.")))
    expect(sorted(find_open_calls(made)), ["a", "b", "c"], "calls are open until their outputs come")
    expect((find_open_calls([*made, *given]), find_orphans([*made, *given])), ([], []), "outputs close calls")
    expect(sorted(find_orphans(given)), ["a", "b", "c"], "an output without its call is an orphan")
    whole = [asked, *made, *given, asked]
    expect(find_boundaries(whole), [0, 1, len(whole) - 1, len(whole)], "no cut separates calls, their thought and their outputs")
    expect([view for view in made if view.opens and not view.tool], [], "a call names its tool")
    told = {call.id: json.loads(call.arguments) for view in made for call in view.calls if call.name}
    expect(told, {name: json.loads(text) for name, text in arguments.items()}, "a view tells each call's arguments")
    returned = {output.call_id: (output.text, output.is_error) for view in given for output in view.outputs}
    expect(returned, {"a": ("1", None), "b": ("2", None), "c": ("3", None)}, "a view tells what each call returned")


def check_stubs(samples: DialectSamples) -> None:
    """Only an output's payload gives way; ids, unknown fields and other kinds of item stay."""
    dialect = samples.dialect
    for value in samples.outputs({"a": "long " * 50, "b": "longer " * 50}):
        item = dialect.parse({**value, **UNKNOWN_FIELD})
        before, stub = dialect.view(item), dialect.replace_output(item, 'say "x"')
        if stub is None:
            raise AssertionError("an output of text can become a stub")
        after = dialect.view(stub)
        expect((after.kind, after.closes, after.role), (before.kind, before.closes, before.role), "a stub is the same output")
        expect(set(after.text.splitlines()), {'say "x"'}, "a stub says what it was given")
        kept, given = json.loads(stub.raw), json.loads(item.raw)
        expect((list(kept), kept["x_unknown"]), (list(given), given["x_unknown"]), "a stub keeps every field in order")
    others = [value for value in build_items(samples) if value not in samples.outputs({"call_1": "one", "call_2": "two"})]
    expect(
        [dialect.replace_output(item, "x") for item in parse_all(samples, others)],
        [None] * len(others),
        "only outputs are stubbed",
    )


def check_aborted_calls_close(samples: DialectSamples) -> None:
    """What says that a call was aborted closes it, and no other call; what is no call is closed by nothing."""
    dialect = samples.dialect
    made = parse_all(samples, samples.calls({"a": '{"x":1}', "b": "{}"}, thought="Both."))
    for wanted in (["a", "b"], ["b"], []):
        closing = [output for item in made for output in dialect.abort_calls(item, wanted)]
        views = [dialect.view(output) for output in closing]
        expect({view.kind for view in views}, {ItemKind.OUTPUT} if wanted else set(), "what closes a call is its output")
        expect(sorted(call_id for view in views for call_id in view.closes), wanted, "the calls asked for are closed")
        expect([view.by_person for view in views if view.by_person], [], "no person says that a call was aborted")
        left = find_open_calls([dialect.view(item) for item in (*made, *closing)])
        expect(left, [name for name in ("a", "b") if name not in wanted], "other calls stay open")
    others = [item for item in parse_all(samples, build_items(samples)) if not dialect.view(item).opens]
    expect([dialect.abort_calls(item, ["a", "call_1"]) for item in others], [[]] * len(others), "only calls are closed")


def check_arrangement(samples: DialectSamples) -> None:
    """Deterministic, settled at once, stable under appending, free of forbidden neighbours, and without loss."""
    dialect, order = samples.dialect, Random(3)
    state = json.loads(dialect.make_user_message(render_state(Ledger())).raw)
    plain = [
        state,
        *(samples.person(f"p{number}") for number in range(3)),
        samples.host("w"),
        samples.pictured("i"),
        samples.answer("a"),
    ]
    for _ in range(200):
        items = parse_all(samples, order.choices([*plain, *build_items(samples)[:4]], k=order.randrange(20)))
        arranged = dialect.arrange(items)
        expect(dialect.arrange(list(items)), arranged, "the same items are arranged the same way")
        expect(dialect.arrange(arranged), arranged, "what is arranged stays")
        drain_watch = dialect.arrange(items[: order.randrange(len(items) + 1)])[:-1]
        expect(arranged[: len(drain_watch)], drain_watch, "what was sent before stays as it was sent")
        shown = [json.loads(item.raw) for item in arranged]
        expect([pair for pair in pairwise(shown) if not samples.may_follow(*pair)], [], "the provider accepts every neighbour")
        views, before = [dialect.view(item) for item in arranged], [dialect.view(item) for item in items]
        expect(sum(view.images for view in views), sum(view.images for view in before), "no image is lost")
        expect(_collect_words(views), _collect_words(before), "every word is there once, in order, in its own voice")


def check_state_is_no_request(samples: DialectSamples) -> None:
    """It speaks in the user's role and is threadkeep's own, alone and merged with a person's message."""
    dialect = samples.dialect
    text = render_state(Ledger())
    state = dialect.make_user_message(text)
    view = dialect.view(state)
    expect((view.kind, view.role, view.text), (ItemKind.MESSAGE, Role.USER, text), "the state is a message of the user's role")
    expect((view.by_person, view.said, view.context), (False, "", None), "no person wrote the state")
    arranged = [dialect.view(item) for item in dialect.arrange([state, dialect.parse(samples.person("Go on."))])]
    expect("".join(each.said for each in arranged), "Go on.", "words beside the state are the person's")


def _collect_words(views: list[View]) -> tuple[list[str], list[str]]:
    """Return the words a person said, and all words; what stands between messages that became one is no word."""
    mark = SEPARATOR.strip()
    said, texts = (view.said.split() for view in views), (view.text.split() for view in views)
    return [word for words in said for word in words if word != mark], [word for words in texts for word in words if word != mark]


SPOKEN: Final = ("done", "", 'two\nlines, "quoted"\r\n', "\u2028 \u0085 端口 🙂", "data: [DONE]\n\nevent: x")


def check_stream_chunks(samples: DialectSamples) -> None:
    """Any cut, within a character or a line end too, and any line end gives the same reply; its end is seen."""
    cuts = Random(4)
    for sample in samples.streams:
        for eol in (b"\n", b"\r", b"\r\n"):
            stream = sample.stream.replace(b"\n", eol)
            for size in (1, 2, 7, len(stream)):
                expect(
                    _feed_reader(samples.dialect, stream, range(0, len(stream), size)),
                    (sample.reply, sample.ended),
                    "a stream is its bytes",
                )
            for _ in range(20):
                at = sorted(cuts.choices(range(len(stream)), k=9))
                expect(_feed_reader(samples.dialect, stream, at), (sample.reply, sample.ended), "a stream is its bytes")


def check_garbled_streams(samples: DialectSamples) -> None:
    """Cut off, garbled or no stream at all: nothing raises, and what it is read as does not depend on the cuts."""
    dialect, luck = samples.dialect, Random(5)
    noise = (b"\n\n", b"data:", b"\xff", b'"', b"}", b"[" * 3_000, rb"\ud83d", b"null", b"-1", b"data: {}\n\n")
    for sample in samples.streams:
        for _ in range(150):
            at, stop = sorted(luck.choices(range(len(sample.stream)), k=2))
            garbled = sample.stream[:at] + luck.choice(noise) + sample.stream[luck.choice((at, stop)) :][: luck.randrange(4_000)]
            found = _feed_reader(dialect, garbled, range(0, len(garbled), 13))
            expect(found, _feed_reader(dialect, garbled, ()), "a garbled stream is read the same however it is cut")
            expect([item for item in found[0].items if not dialect.canonical(item)], [], "every item can be seen")
            whole = dialect.wire.read_reply(garbled[:600])
            expect(whole.outcome if whole.outcome != "failed" else "cut", "cut", "a stream is no whole answer")
    for raw in ODD_BYTES:
        expect(_feed_reader(dialect, raw, ())[0], Reply(), "what is no stream says nothing")
        dialect.wire.read_reply(raw)


def check_gateway_answers(samples: DialectSamples) -> None:
    """What the gateway says by itself reads like a provider's answer, streamed or not; an error reads as a failure."""
    dialect = samples.dialect
    for text in SPOKEN:
        answer = Answer(text=text, response_id="r_1", message_id="m_1", model="m", created_at=17)
        streamed, ended = _feed_reader(dialect, dialect.wire.render_answer_stream(answer), ())
        whole = dialect.wire.read_reply(dialect.wire.render_answer(answer))
        expect((streamed.outcome, whole.outcome, ended), ("completed", "completed", True), "an answer has its end")
        expect([dialect.view(item).text for item in streamed.items], [text], "an answer says its text")
        forms = [[dialect.canonical(item) for item in reply.items] for reply in (streamed, whole)]
        expect(forms[0], forms[1], "both forms of an answer say the same")
    for status in (400, 404, 413, 429, 500, 502):
        error = dialect.wire.render_error(status, "some_code", 'what, "which"\n')
        described = json.loads(error)["error"]
        expect((described["message"], b'"some_code"' in error), ('what, "which"\n', True), "an error says what and which")
        expect(dialect.wire.read_reply(error), Reply(outcome="failed"), "an error is no answer")


def _feed_reader(dialect: Dialect, stream: bytes, cuts: Sequence[int]) -> tuple[Reply, bool]:
    """Return what a reader makes of a stream cut at these places, and whether it saw its end."""
    reader = dialect.wire.make_reader()
    ended = [reader.feed(stream[start:stop]) for start, stop in pairwise([0, *cuts, len(stream)])]
    if ended != sorted(ended):
        raise AssertionError("an end that was seen stays seen")
    return reader.reply, any(ended)


Check = Callable[[DialectSamples], None]

CHECKS: tuple[Check, ...] = (
    check_items_keep_every_field,
    check_values_beyond_json_are_refused,
    check_requests_keep_their_bytes,
    check_unknown_items_survive,
    check_half_emoji_survive,
    check_unreadable_requests_are_not_split,
    check_spellings_share_canonical_form,
    check_different_items_differ_canonically,
    check_views,
    check_strange_items,
    check_calls_pair,
    check_stubs,
    check_aborted_calls_close,
    check_arrangement,
    check_state_is_no_request,
    check_stream_chunks,
    check_garbled_streams,
    check_gateway_answers,
)
