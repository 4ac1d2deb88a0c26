"""What a dialect must make of items and requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from random import Random

from threadkeep.compaction import Ledger, render_state
from threadkeep.dialects.base import SEPARATOR
from threadkeep.errors import InvalidItem
from threadkeep.items import Item, ItemKind, Role, View, boundaries, open_calls, orphans
from threadkeep.testing.dialect_samples import (
    HALF,
    ODD_BYTES,
    UNKNOWN_FIELD,
    DialectSamples,
    Json,
    every_item,
    parsed,
    shuffled,
    split_of,
    strange_values,
)
from threadkeep.testing.store_facts import expect, refuses


def _with_half(item: Item) -> Item:
    """Return an item whose every `@` is half an emoji."""
    return Item(item.raw.replace(b"@", HALF))


def items_say_what_was_given(samples: DialectSamples) -> None:
    """Parsing keeps every field, known or not, in order, and parsing what it wrote changes no byte."""
    for value in every_item(samples):
        item = samples.dialect.parse({**value, **UNKNOWN_FIELD})
        expect(list(json.loads(item.raw).items()), list({**value, **UNKNOWN_FIELD}.items()), "an item says what was given")
        expect(samples.dialect.parse(json.loads(item.raw)), item, "there is one serialisation")


def what_json_cannot_say_is_refused(samples: DialectSamples) -> None:
    """A value that would come back as another one is an error, not a silent change."""
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
        with refuses(InvalidItem, f"{type(value).__name__} is no item"):
            samples.dialect.parse(value)


def requests_survive_to_the_byte(samples: DialectSamples) -> None:
    """Splitting and joining changes nothing; another history changes the history alone."""
    state = samples.dialect.make_state_item("S")
    for body in samples.requests:
        request = split_of(samples, body)
        expect(samples.dialect.join(request, request.items), body, "a request comes back as it was sent")
        rewritten = split_of(samples, samples.dialect.join(request, [state]))
        expect((rewritten.head, rewritten.items), (request.head, (state,)), "the head stays, the history is the new one")
        changed = [name for name, span in request.fields.items() if rewritten.fields[name] != span]
        expect((list(rewritten.fields), len(changed)), (list(request.fields), 1), "one field holds the history, no other moves")


def unknown_items_survive(samples: DialectSamples) -> None:
    """Odd spelling, unknown items and fields come through a request as the bytes they are."""
    request = split_of(samples, samples.requests[0])
    spelled = [json.dumps({**value, **UNKNOWN_FIELD}, indent=1).encode() for value in every_item(samples)]
    body = samples.dialect.join(request, [Item(raw) for raw in spelled])
    again = split_of(samples, body)
    expect([*again.head, *again.items], [*request.head, *map(Item, spelled)], "an item is the span it came from")


def half_an_emoji_costs_nothing(samples: DialectSamples) -> None:
    """Clients cut strings inside a surrogate pair; no request, byte, view or canonical form is lost to it."""
    dialect = samples.dialect
    request = split_of(samples, samples.requests[0])
    person, (output, *_) = samples.person("Never push @"), samples.outputs({"c": "cut @"})
    items = [_with_half(dialect.parse(value)) for value in (person, samples.answer("@"), {**output, "x_unknown": "@"})]
    body = dialect.join(request, items)[:-1] + b',"x_note":"' + HALF + b'"}'
    again = split_of(samples, body)
    expect([*again.head, *again.items], [*request.head, *items], "items keep their halves")
    expect(dialect.join(again, again.items), body, "a request with halves comes back as it was sent")
    expect(dialect.view(items[0]).said, "Never push \ufffd", "a half is read as U+FFFD")
    stub = dialect.replace_output(items[2], "stub")
    expect((stub is not None and HALF in stub.raw, stub and dialect.view(stub).closes), (True, ("c",)), "a stub keeps them too")
    marked = _with_half(dialect.parse(samples.respelled(person)))
    upper = Item(marked.raw.replace(HALF, HALF.upper().replace(b"U", b"u")))
    expect({dialect.canonical(each) for each in (marked, upper)}, {dialect.canonical(items[0])}, "a half freezes no spelling")
    dialect.arrange(items)


def unreadable_requests_are_left_alone(samples: DialectSamples) -> None:
    """What cannot be taken apart is not taken apart."""
    body = samples.requests[0]
    for broken in (
        *ODD_BYTES[:5],
        b"{}",
        b'{"model":"m"}',
        *(body[:stop] for stop in range(1, len(body), max(1, len(body) // 60))),
    ):
        expect(samples.dialect.split(broken), None, f"no history is read from {broken!r:.100}")


def every_spelling_has_one_canonical_form(samples: DialectSamples) -> None:
    """Key order, ids, markers, string or list: none of them is content."""
    dialect, order = samples.dialect, Random(1)
    for value in every_item(samples):
        form = dialect.canonical(dialect.parse(value))
        for spelling in (shuffled(value, order), samples.respelled(value), shuffled(samples.respelled(value), order)):
            raw = json.dumps(spelling, indent=1).encode()
            expect(dialect.canonical(Item(raw)), form, f"{value!r:.200} has one form")


def what_differs_never_shares_a_form(samples: DialectSamples) -> None:
    """A changed character, id, value or half of a character is another history."""
    dialect = samples.dialect
    values = [
        *every_item(samples),
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


def views_say_what_items_are(samples: DialectSamples) -> None:
    """Kind, role and speaker of each sort of item."""
    view = {index: samples.dialect.view(item) for index, item in enumerate(parsed(samples, every_item(samples)))}
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


def nothing_is_too_strange(samples: DialectSamples) -> None:
    """Whatever JSON, or bytes, an item is, no method raises, and what is sent on alone is what came."""
    dialect = samples.dialect
    strange = (json.dumps(value).encode() for value in strange_values(every_item(samples), Random(2), count=1_500))
    for raw in (*ODD_BYTES, *strange):
        item = Item(raw)
        dialect.view(item)
        expect(dialect.canonical(item), dialect.canonical(Item(bytes(raw))), "equal bytes have one form")
        expect(dialect.arrange([item]), [item], "one item needs no arranging")
        dialect.arrange([item, item])
        dialect.abort_calls(item, dialect.view(item).opens)
        stub = dialect.replace_output(item, "stub")
        if stub is not None:
            expect(dialect.view(stub).closes, dialect.view(item).closes, "a stub closes what it closed")


def calls_pair(samples: DialectSamples) -> None:
    """Calls made at once open their ids, outputs close them, and no cut stands between."""
    arguments = {"a": '{"x":1}', "b": "{}", "c": '{"command":"ls"}'}
    made = [samples.dialect.view(item) for item in parsed(samples, samples.calls(arguments, thought="Three."))]
    given = [samples.dialect.view(item) for item in parsed(samples, samples.outputs({"b": "2", "a": "1", "c": "3"}))]
    asked = samples.dialect.view(samples.dialect.parse(samples.person("Go.")))
    expect(sorted(open_calls(made)), ["a", "b", "c"], "calls are open until their outputs come")
    expect((open_calls([*made, *given]), orphans([*made, *given])), ([], []), "outputs close calls")
    expect(sorted(orphans(given)), ["a", "b", "c"], "an output without its call is an orphan")
    whole = [asked, *made, *given, asked]
    expect(boundaries(whole), [0, 1, len(whole) - 1, len(whole)], "no cut separates calls, their thought and their outputs")
    expect([view for view in made if view.opens and not view.tool], [], "a call names its tool")


def a_stub_keeps_everything_else(samples: DialectSamples) -> None:
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
    others = [value for value in every_item(samples) if value not in samples.outputs({"call_1": "one", "call_2": "two"})]
    expect(
        [dialect.replace_output(item, "x") for item in parsed(samples, others)], [None] * len(others), "only outputs are stubbed"
    )


def broken_off_calls_can_be_closed(samples: DialectSamples) -> None:
    """What says that a call was aborted closes it, and no other call; what is no call is closed by nothing."""
    dialect = samples.dialect
    made = parsed(samples, samples.calls({"a": '{"x":1}', "b": "{}"}, thought="Both."))
    for wanted in (["a", "b"], ["b"], []):
        closing = [output for item in made for output in dialect.abort_calls(item, wanted)]
        views = [dialect.view(output) for output in closing]
        expect({view.kind for view in views}, {ItemKind.OUTPUT} if wanted else set(), "what closes a call is its output")
        expect(sorted(call_id for view in views for call_id in view.closes), wanted, "the calls asked for are closed")
        expect([view.by_person for view in views if view.by_person], [], "no person says that a call was aborted")
        left = open_calls([dialect.view(item) for item in (*made, *closing)])
        expect(left, [name for name in ("a", "b") if name not in wanted], "other calls stay open")
    others = [item for item in parsed(samples, every_item(samples)) if not dialect.view(item).opens]
    expect([dialect.abort_calls(item, ["a", "call_1"]) for item in others], [[]] * len(others), "only calls are closed")


def arranging_is_stable(samples: DialectSamples) -> None:
    """Deterministic, settled at once, stable under appending, free of forbidden neighbours, and without loss."""
    dialect, order = samples.dialect, Random(3)
    state = json.loads(dialect.make_state_item(render_state(Ledger())).raw)
    plain = [
        state,
        *(samples.person(f"p{number}") for number in range(3)),
        samples.host("w"),
        samples.pictured("i"),
        samples.answer("a"),
    ]
    for _ in range(200):
        items = parsed(samples, order.choices([*plain, *every_item(samples)[:4]], k=order.randrange(20)))
        arranged = dialect.arrange(items)
        expect(dialect.arrange(list(items)), arranged, "the same items are arranged the same way")
        expect(dialect.arrange(arranged), arranged, "what is arranged stays")
        settled = dialect.arrange(items[: order.randrange(len(items) + 1)])[:-1]
        expect(arranged[: len(settled)], settled, "what was sent before stays as it was sent")
        shown = [json.loads(item.raw) for item in arranged]
        expect([pair for pair in pairwise(shown) if not samples.may_follow(*pair)], [], "the provider accepts every neighbour")
        views, before = [dialect.view(item) for item in arranged], [dialect.view(item) for item in items]
        expect(sum(view.images for view in views), sum(view.images for view in before), "no image is lost")
        expect(_words(views), _words(before), "every word is there once, in order, in its own voice")


def the_state_is_nobodys_request(samples: DialectSamples) -> None:
    """It speaks in the user's role and is threadkeep's own, alone and merged with a person's message."""
    dialect = samples.dialect
    text = render_state(Ledger())
    state = dialect.make_state_item(text)
    view = dialect.view(state)
    expect((view.kind, view.role, view.text), (ItemKind.MESSAGE, Role.USER, text), "the state is a message of the user's role")
    expect((view.by_person, view.said, view.context), (False, "", None), "no person wrote the state")
    arranged = [dialect.view(item) for item in dialect.arrange([state, dialect.parse(samples.person("Go on."))])]
    expect("".join(each.said for each in arranged), "Go on.", "words beside the state are the person's")


def _words(views: list[View]) -> tuple[list[str], list[str]]:
    """Return the words a person said, and all words; what stands between messages that became one is no word."""
    mark = SEPARATOR.strip()
    said, texts = (view.said.split() for view in views), (view.text.split() for view in views)
    return [word for words in said for word in words if word != mark], [word for words in texts for word in words if word != mark]


ITEM_CHECKS: tuple[Callable[[DialectSamples], None], ...] = (
    items_say_what_was_given,
    what_json_cannot_say_is_refused,
    requests_survive_to_the_byte,
    unknown_items_survive,
    half_an_emoji_costs_nothing,
    unreadable_requests_are_left_alone,
    every_spelling_has_one_canonical_form,
    what_differs_never_shares_a_form,
    views_say_what_items_are,
    nothing_is_too_strange,
    calls_pair,
    a_stub_keeps_everything_else,
    broken_off_calls_can_be_closed,
    arranging_is_stable,
    the_state_is_nobodys_request,
)
