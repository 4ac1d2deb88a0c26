"""The manifest that comes with threadkeep, and what is refused of others."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from benchmarks.cases.manifest import CATEGORIES, WORKING_STATE, Case, Manifest, SessionRecipe, load_manifest
from benchmarks.cases.probes import LETTERS, make_probes
from benchmarks.cases.recipes import items_by_hop, text_of
from benchmarks.cases.validation import check_manifest, find_problems
from threadkeep.errors import BadInput


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return load_manifest()


def with_case(manifest: Manifest, name: str, **changes: object) -> Manifest:
    """Return the manifest with one case changed."""

    def changed(case: Case) -> Case:
        made: Case = msgspec.structs.replace(case, **changes) if case.id == name else case
        return made

    def remade(session: SessionRecipe) -> SessionRecipe:
        made: SessionRecipe = msgspec.structs.replace(session, cases=[changed(case) for case in session.cases])
        return made

    return Manifest(sessions=[remade(session) for session in manifest.sessions])


def test_what_comes_with_threadkeep_is_sound_and_wide_enough(manifest: Manifest) -> None:
    """At least 24 cases over every category, three sessions of five hops each, nothing wrong with any."""
    assert find_problems(manifest) == []
    assert len(manifest.cases) >= 24
    assert {case.category for _, case in manifest.cases} == set(CATEGORIES) - {WORKING_STATE}
    assert [session.hops for session in manifest.sessions] == [5, 5, 5]


def test_no_probe_holds_its_answer(manifest: Manifest) -> None:
    """The evidence is never shown; an accepted answer never stands in the question; choices show four options alike."""
    for probe in make_probes(manifest, seed=1):
        if probe.case is None:
            continue
        assert not probe.case.evidence or probe.case.evidence not in probe.text
        assert [answer for answer in probe.case.accepted if answer in probe.text] == []
        assert sorted(probe.options) == sorted([probe.case.right, *probe.case.wrong] if probe.options else [])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_letter_is_right_equally_often_whatever_the_seed(manifest: Manifest, seed: int) -> None:
    """Up to one; and another seed gives another order."""
    probes = [probe for probe in make_probes(manifest, seed=seed) if probe.case is not None and probe.options]
    right = Counter(LETTERS[probe.options.index(probe.case.right)] for probe in probes if probe.case is not None)
    assert max(right.values()) - min(right.values()) <= 1
    assert [probe.options for probe in probes] != [
        probe.options for probe in make_probes(manifest, seed=seed + 1) if probe.options
    ]


def test_a_session_is_the_same_every_time_and_ends_every_other_hop_in_a_turn(manifest: Manifest) -> None:
    """The same bytes twice; after an even hop the newest item is a tool's output, else the agent's answer."""
    for session in manifest.sessions:
        hops = list(items_by_hop(session))
        assert hops == list(items_by_hop(session))
        assert [items[-1]["role"] for items in hops] == ["assistant", "tool", "assistant", "tool", "assistant"]


@pytest.mark.parametrize(
    ("name", "changes", "trouble"),
    [
        ("ferry-staging-port", {"category": "whim"}, "'whim' is no category"),
        ("ferry-staging-port", {"question": "On which port does 18473 answer?"}, "gives the right option away"),
        ("ferry-staging-port", {"wrong": ["1", "2"]}, "needs 4 different options"),
        ("ferry-staging-port", {"wrong": ["berth_ledger", "2", "3"]}, "'berth_ledger' is said in the session"),
        ("ferry-staging-port", {"hard_fail": ["4"]}, "hard_fail names '4'"),
        ("ferry-staging-port", {"turn": 3}, "does not stand in turn 3"),
        ("ferry-staging-port", {"turn": 99}, "the session has 6"),
        ("ferry-staging-port", {"speaker": "tool"}, "where the tool speaks"),
        ("ferry-staging-port", {"evidence": "The staging gateway"}, "does not hold the answer"),
        ("ferry-time-zone", {"stale": "Europe/Fetlar"}, "'Europe/Fetlar' is not said"),
        ("ferry-crew-locker", {"accepted": []}, "needs accepted answers"),
        ("ferry-crew-locker", {"accepted": ["crew locker"]}, "holds an accepted answer"),
        ("ferry-crew-locker", {"abstain_score": 1.0}, "not from 0 to below 1"),
        ("ferry-crew-locker", {"id": "ferry-staging-port"}, "2 cases have this id"),
        ("ferry-fuel-price", {"evidence": "said"}, "nobody said"),
        ("ferry-fuel-price", {"form": "working_state"}, "from the work of each hop"),
    ],
)
def test_a_case_that_is_wrong_is_refused_with_the_reason(
    manifest: Manifest, name: str, changes: dict[str, object], trouble: str
) -> None:
    """Each rule names the case and what is wrong with it."""
    broken = with_case(manifest, name, **changes)
    assert [found for found in find_problems(broken) if trouble in found] != []
    with pytest.raises(BadInput, match="cannot be used"):
        check_manifest(broken)


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("id = ", "is no session of a manifest"),
        ('id = "x"', "missing required field"),
        ('id = "x"\nabout = ""\nseed = "one"\nnoise = []\nturns = []\nwork = []\ncases = []', "seed"),
        ('id = "x"\nabout = ""\nseed = 1\nnoise = []\nturns = []\nwork = []\ncases = []\nmore = 1', "unknown field `more`"),
    ],
)
def test_a_file_that_is_no_manifest_is_named(tmp_path: Path, text: str, trouble: str) -> None:
    """With the file and the key that is wrong."""
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=r"mine\.toml") as caught:
        load_manifest(tmp_path)
    assert trouble in str(caught.value)


def test_a_folder_without_a_manifest_and_a_session_that_is_none_are_refused(tmp_path: Path, manifest: Manifest) -> None:
    """Each by name."""
    with pytest.raises(BadInput, match=r"holds no \.toml file"):
        load_manifest(tmp_path)
    with pytest.raises(BadInput, match="there is no folder"):
        load_manifest(tmp_path / "nowhere")
    with pytest.raises(BadInput, match="no session 'sea'; it has archive, ferry, orchard"):
        manifest.only(["sea"])


def test_what_nobody_said_is_said_nowhere(manifest: Manifest) -> None:
    """A question to abstain from shares its subject with nothing in the session."""
    subjects = {"ferry": "fuel", "orchard": "beehive", "archive": "brewery"}
    assert [name for name, word in subjects.items() if word in text_of(manifest.only([name]).sessions[0])] == []
