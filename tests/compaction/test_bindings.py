"""Values a tool gave and a later step used."""

from __future__ import annotations

from tests.histories import RESPONSES, Json, answered, call, output, said

from holdfast.compaction.bindings import reused
from holdfast.compaction.working import Observed
from holdfast.thread import Pointer


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
    assert [line.text for line in found] == ["snap-85204-vg — exec: restore snap-85204-vg"]


def test_names_in_source_code_and_files_are_no_findings() -> None:
    """Every patch repeats them, and the working state lists files."""
    code = "def load_label_snapshot(path):\n    return path.open()"
    edit = call("b", '{"patch":"load_label_snapshot in src/labels_2.py"}')
    assert reused(observed(call("a"), output("a", code), edit)) == ()


def test_a_person_who_names_a_value_makes_it_count() -> None:
    """What a user picks out of a tool's output is what the work rests on."""
    found = reused(observed(call("a"), output("a", "candidates: rel-2031.4, rel-2031.5"), said("Take rel-2031.5, please.")))
    assert [line.text.split(" — ")[0] for line in found] == ["rel-2031.5"]
