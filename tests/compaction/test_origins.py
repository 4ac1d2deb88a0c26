"""Where a value came from whose output is out of view: which values are looked for, and what counts as an origin."""

from __future__ import annotations

import json

import pytest
from tests.histories import RESPONSES, Json, answered, call, output, said

from threadkeep.compaction.bindings import bounded, reused, value_of
from threadkeep.compaction.origins import Origin, Sought, by_value, origin_of, sought
from threadkeep.compaction.working import Line, Observed
from threadkeep.thread import Pointer


def observed(*items: Json, start: int = 1) -> list[Observed]:
    return [
        Observed(view=RESPONSES.view(RESPONSES.parse(item)), source=Pointer("t", number))
        for number, item in enumerate(items, start=start)
    ]


def given(call_id: str, **arguments: object) -> Json:
    return call(call_id, json.dumps(arguments, ensure_ascii=False), name="act")


def wanted(value: str, *names: str) -> Sought:
    return Sought(value=value, query=value, given_as=frozenset(names))


def values(*items: Json, since: int = 0, told: tuple[str, ...] = ()) -> list[str]:
    return [each.value for each in sought(observed(*items), since=since, told=told)]


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ({"lease": "LS-1201-k"}, "LS-1201-k"),
        ({"cmd": "curl http://tern.local:48213/health"}, "48213"),
        ({"cmd": "aws s3 ls s3://brackwater/2031/"}, "brackwater"),
        ({"cmd": "java -Xmx1750m -jar till.jar"}, "1750"),
        ({"command": ["ssh", "plover", "uptime"]}, "plover"),
        ({"query": "select * from lots where code = 'teal'"}, "teal"),
        ({"share": "38%"}, "38%"),
        ({"to": {"berth": "Nordre Molo 4"}}, "Nordre Molo 4"),
        ({"text": "ask them about tx_90817264 today please"}, "tx_90817264"),
        ({"content": "[frame]\nbuffer = 61440\n"}, "61440"),
        ({"depot": "المنارة"}, "المنارة"),
        ({"berth": "北港三号"}, "北港三号"),
    ],
)
def test_what_a_new_call_was_given_and_nothing_in_view_explains_is_looked_for(arguments: Json, value: str) -> None:
    """Whole arguments, words of commands, parts of addresses, quoted words, what a file sets."""
    assert value in values(given("a", **arguments))


def test_what_is_in_view_told_or_old_is_not_looked_for() -> None:
    """An output before the call explains it; what a user said is kept as the user's; older calls were weighed before."""
    use = given("b", lease="LS-1201-k")
    assert values(call("a"), output("a", "granted: LS-1201-k"), use) == []
    assert values(said("Take LS-1201-k."), use) == []
    assert values(use, told=("Take LS-1201-k.",)) == []
    assert values(use, since=1) == []
    assert values(use, output("b", "renewed LS-1201-k")) == ["LS-1201-k"]


def test_what_nearly_every_call_is_given_is_the_place_they_work_in() -> None:
    """It explains itself."""
    calls = [given(f"c{number}", workdir="tidewater", lot=f"lot-{number}-x") for number in range(9)]
    assert "tidewater" not in values(*calls)


def test_the_first_output_that_says_what_a_value_is_is_its_origin() -> None:
    """With the line it stood in, and its record."""
    earlier = observed(call("a"), output("a", "hello\nproxy listens on port 48213\nbye"), call("b"), output("b", "48213 ok"))
    assert origin_of(wanted("48213", "port"), earlier) == Origin(
        value="48213", line=Line(text="proxy listens on port 48213", source=Pointer("t", 2))
    )


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("03:42", "05:03:42.571 connected"),
        ("4821", "invoice 48213 booked"),
        ("2.17", "released 2.17.4 today"),
        ("teal", "tealight holders: 4"),
        ("120", "src/wire.py:120: return frame"),
        ("parse", "def parse(raw):"),
        ("8192", "total 48 4096 4096 220 1337 8192 notes"),
    ],
)
def test_what_only_looks_like_it_is_no_origin(value: str, line: str) -> None:
    """A part of a longer word or figure, a place in a file, a name in code, a figure of a listing."""
    assert origin_of(wanted(value), observed(call("a"), output("a", line))) is None


def test_what_someone_named_before_did_not_come_from_the_output() -> None:
    """The agent made it up, and the output only repeats it."""
    repeated = observed(answered("I shall call it saltmarsh."), call("a"), output("a", "tenant: saltmarsh"))
    assert origin_of(wanted("saltmarsh", "tenant"), repeated) is None


def test_what_many_outputs_show_belongs_to_the_surroundings() -> None:
    """The next output shows it again."""
    shown = [item for number in range(5) for item in (call(f"a{number}"), output(f"a{number}", "tenant: saltmarsh"))]
    assert origin_of(wanted("saltmarsh", "tenant"), observed(*shown)) is None


def test_of_a_sentence_the_words_that_an_output_showed_are_found() -> None:
    """Names and sums in words that no rule would take for a name."""
    (asked,) = [
        each for each in sought(observed(given("b", text="Book pier 19 north for the crane.")), since=0, told=()) if each.rare
    ]
    earlier = observed(call("a"), output("a", "quay list\nthe barge lies at pier 19 north today\nend"))
    found = origin_of(asked, earlier)
    assert found is not None
    assert (found.value, found.line.text) == ("pier 19 north", "the barge lies at pier 19 north today")


def test_a_call_that_was_given_a_traced_value_has_it_kept_with_its_origin_and_the_tool() -> None:
    """Also where the agent named it first in this window."""
    origin = Origin(value="saltmarsh", line=Line(text="tenant: saltmarsh", source=Pointer("t", 3)))
    items = observed(answered("Now for saltmarsh."), given("b", tenant="saltmarsh"), start=40)
    assert reused(items, since=39, origins=by_value([origin])) == (
        Line(text="saltmarsh — tenant: saltmarsh; given to act", source=Pointer("t", 3)),
    )
    assert reused(items, since=60, origins=by_value([origin])) == ()


def test_what_was_used_long_after_it_was_seen_stays_longest() -> None:
    """Before what was used at once, before ids that nothing explains, before other values that nothing explains."""
    far = [Line(text=f"far{number} — {'lot ' * 20}; given to act", source=Pointer("t", number)) for number in range(60)]
    near = [Line(text=f"near{number} — {'lot ' * 20}", source=Pointer("t", 100 + number)) for number in range(200)]
    kept = [value_of(line.text) for line in bounded([*far, *near])]
    assert kept[: len(far)] == [f"far{number}" for number in range(60)]
    assert kept[len(far) :] == [f"near{number}" for number in range(200)][-(len(kept) - len(far)) :]
    assert len(kept) > len(far)


def test_what_no_longer_fits_whole_is_told_in_a_few_words() -> None:
    """The value, the words before it, and the pointer that leads to the rest."""
    lines = [
        Line(text=f"x{number}y — the crane driver noted slot: x{number}y in the log; given to act", source=Pointer("t", number))
        for number in range(100, 170)
    ]
    kept = [line.text for line in bounded(lines)]
    assert len(kept) == len(lines)
    assert (kept[0], kept[-1]) == ("x100y — driver noted slot; again", lines[-1].text)
    assert bounded([Line(text=text, source=Pointer("t", 1)) for text in kept])[0].text == kept[0]
