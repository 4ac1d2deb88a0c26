"""Values a tool gave and a later step used."""

from __future__ import annotations

import json

import pytest
from tests.histories import RESPONSES, Json, answered, call, output, said

from threadkeep.compaction.bindings import BINDINGS_KEPT, BINDINGS_TOKENS, reused
from threadkeep.compaction.working import Observed
from threadkeep.thread import Pointer
from threadkeep.tokens import estimate_text


def observed(*items: Json) -> list[Observed]:
    return [
        Observed(view=RESPONSES.view(RESPONSES.parse(item)), source=Pointer("t", number))
        for number, item in enumerate(items, start=1)
    ]


def test_a_value_read_from_output_and_used_in_a_call_comes_back_with_its_line() -> None:
    """The line it stood in, and where."""
    log = "starting\nreplica is skua-21.shore.example today\ndone"
    found = reused(
        observed(
            said("Which replica?"),
            call("a", '{"cmd":"cat hosts"}'),
            output("a", log),
            call("b", '{"cmd":"ping skua-21.shore.example"}'),
        )
    )
    assert [(line.text, line.source.ordinal) for line in found] == [
        ("skua-21.shore.example — replica is skua-21.shore.example today", 3)
    ]


def test_a_value_nobody_used_again_is_not_kept() -> None:
    """Most of what tools print is never needed again; recall finds it."""
    assert reused(observed(call("a"), output("a", "build 918ec5927e"), answered("Fine."))) == ()


def test_an_id_in_a_call_that_nothing_in_view_explains_comes_with_the_call() -> None:
    """It was learned from output that an earlier compaction replaced; the call shows what it is for."""
    found = reused(observed(call("a", '{"cmd":"restore snap-85204-vg"}', name="exec")))
    assert [line.text for line in found] == ["snap-85204-vg — given to exec: restore snap-85204-vg"]


def test_names_in_source_code_and_files_are_no_findings() -> None:
    """Every patch repeats them, and the working state lists files."""
    code = "def load_label_snapshot(path):\n    return path.open()"
    edit = call("b", '{"patch":"load_label_snapshot in src/labels_2.py"}')
    assert reused(observed(call("a"), output("a", code), edit)) == ()


def test_a_person_who_names_a_value_makes_it_count() -> None:
    """What a user picks out of a tool's output is what the work rests on."""
    found = reused(observed(call("a"), output("a", "candidates: rel-2031.4, rel-2031.5"), said("Take rel-2031.5, please.")))
    assert [line.text.split(" — ")[0] for line in found] == ["rel-2031.5"]


def given(call_id: str, **arguments: object) -> Json:
    return call(call_id, json.dumps(arguments, ensure_ascii=False), name="act")


LEARNED = [
    ("queue depth is 4217 now", "4217", {"depth": 4217}),
    ("ratio=0.75 of last week", "0.75", {"cmd": "scale --ratio 0.75"}),
    ("region: frankfurt", "frankfurt", {"cmd": "deploy --region frankfurt"}),
    ("primary replica heron is healthy", "heron", {"cmd": "promote --replica heron"}),
    ("mounted at /srv/vault/blue since noon", "/srv/vault/blue", {"cmd": "ls /srv/vault/blue"}),
    ("cutover planned 2031-04-02", "2031-04-02", {"since": "2031-04-02"}),
    ("owner ops@reef.example", "ops@reef.example", {"to": "ops@reef.example"}),
    ('{"owner":"Marta Quist","seats":3}', "Marta Quist", {"cmd": "notify 'Marta Quist'"}),
    ("Zweigstelle: Kleinröhrsdorf", "Kleinröhrsdorf", {"branch": "Kleinröhrsdorf"}),
    ("responsable: Íñigo", "Íñigo", {"persona": "Íñigo"}),
    ("仓库：上海三号", "上海三号", {"warehouse": "上海三号"}),
    ("負責人「田中」", "田中", {"owner": "田中"}),
    ("Кластер: северный", "северный", {"cluster": "северный"}),
    ("المنطقة: الرياض", "الرياض", {"region": "الرياض"}),
]


@pytest.mark.parametrize(("line", "value", "arguments"), LEARNED)
def test_what_a_tool_said_first_and_a_later_call_was_given_is_kept(line: str, value: str, arguments: dict[str, object]) -> None:
    """A figure, a word, a path, a date, an address, a phrase, in any script: the line it stood in says what it is."""
    seen = output("a", f"checking\n{line}\nbye")
    found = reused(observed(said("Look."), call("a"), seen, answered("I see."), given("b", **arguments)))
    assert [(each.text, each.source.ordinal) for each in found] == [(f"{value} — {line}", 3)]


@pytest.mark.parametrize(("line", "value", "arguments"), LEARNED)
def test_what_someone_named_before_did_not_come_from_the_tool(line: str, value: str, arguments: dict[str, object]) -> None:
    """The user's words are kept as the user's, and the agent's own ideas are no findings."""
    seen = (call("a"), output("a", line), given("b", **arguments))
    assert reused(observed(said(f"It might be {value} again."), *seen)) == ()
    assert reused(observed(*seen), told=[f"It might be {value} again."]) == ()


TRIVIAL = [
    ("src/a.py:120: def foo(self):", {"path": "src/a.py", "offset": 120}),
    ("src/b.py:300:    return Config", {"cmd": "grep -rn Config src"}),
    ("def load(path: Path) -> Label:", {"cmd": "rg Label"}),
    ("total 48 4096 4096 220 1337 8192 notes", {"cmd": "test 8192"}),
    ("colour: auto", {"cmd": "ls --color=auto"}),
    ("lexer.py parser.py tokens.py", {"cmd": "pytest -k lexer"}),
]


@pytest.mark.parametrize(("line", "arguments"), TRIVIAL)
def test_what_only_helped_to_look_around_is_not_kept(line: str, arguments: dict[str, object]) -> None:
    """Places in files, names in code, figures of a listing, files of the workspace."""
    assert reused(observed(call("a"), output("a", line), given("b", **arguments))) == ()


def test_what_every_output_shows_belongs_to_the_surroundings() -> None:
    """It need not be remembered: the next output shows it again."""
    shown = [item for number in range(6) for item in (call(f"a{number}"), output(f"a{number}", "tenant: kelpworks"))]
    assert reused(observed(*shown, given("b", tenant="kelpworks"))) == ()


MORE = "and more " * 12


def test_lines_are_bounded_in_number_and_size_and_the_newest_stay() -> None:
    """However much a session learns, what it learned last is there."""
    items = [
        item
        for number in range(1_000, 1_200)
        for item in (call(f"a{number}"), output(f"a{number}", f"lot: {number} {MORE}"), given(f"b{number}", lot=number))
    ]
    found = reused(observed(*items))
    assert found[-1].text.startswith("1199 — lot: 1199")
    assert len(found) <= BINDINGS_KEPT
    assert sum(estimate_text(line.text) for line in found) <= BINDINGS_TOKENS
