"""`threadkeep compact`: compact now, and say what became of everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.stories import Cli, asked, grown, stored

from threadkeep import Threadkeep


async def tokens(tk: Threadkeep) -> int:
    return (await (await tk.find("ship-it")).window()).tokens


def _took(report: dict[str, Any]) -> dict[str, int]:
    """Return the time of the only attempt, where it took a millisecond or more."""
    return {key: value for key, value in report["attempts"][0].items() if key == "took_ms"}


def test_the_report_is_the_contract_s(on_store: Cli, store: Path) -> None:
    """The JSON has the contract's keys, and its figures are those of the window before and after."""
    before = asked(store, tokens)
    ran = on_store("compact", "ship-it", "--json")
    report = ran.json
    assert (ran.code, ran.err) == (0, "")
    assert report["audit"]["required"] == report["audit"]["kept"] + report["audit"]["repaired"] > 0
    assert report == {
        "thread": "ship-it",
        "checkpoint": 21,
        "strategy": "extractive",
        "fell_back_from": None,
        "tokens_before": before,
        "tokens_after": asked(store, tokens),
        "model_calls": 0,
        "sheds": before - report["tokens_after"],
        "rebills": report["tokens_after"],
        "attempts": [{"strategy": "extractive", "outcome": "taken", **_took(report)}],
        "audit": {**report["audit"], "invented": 0},
        "over_target": False,
        "dry_run": False,
        "findings": {"repaired": report["findings"]["repaired"], "invented": []},
        "plan": report["plan"],
    }
    assert len(report["findings"]["repaired"]) == report["audit"]["repaired"]
    assert report["tokens_after"] < before


def test_a_dry_run_writes_nothing(on_store: Cli, store: Path) -> None:
    """`--dry-run` reports the same compaction and leaves every byte where it was."""
    records = on_store("show", "ship-it", "--records", "--json").out
    dry = on_store("compact", "ship-it", "--dry-run", "--json").json
    assert on_store("show", "ship-it", "--records", "--json").out == records
    real = on_store("compact", "ship-it", "--json").json
    # How long it took is not the same twice.
    attempts = [{"strategy": "extractive", "outcome": "taken", **_took(dry)}]
    assert dry == {**real, "checkpoint": None, "dry_run": True, "attempts": attempts}


def test_a_focus_and_a_target_are_heeded(on_store: Cli, store: Path) -> None:
    """`--target` bounds the window, as tokens or as a share; a smaller one gives a smaller window."""
    loose = on_store("compact", "ship-it", "--dry-run", "--json", "--target", "80%").json
    tight = on_store("compact", "ship-it", "--dry-run", "--json", "--target", "700", "--focus", "the ports").json
    assert loose["tokens_after"] <= loose["tokens_before"] * 80 // 100
    assert tight["tokens_after"] <= 700 < loose["tokens_after"]
    assert not loose["over_target"]
    assert not tight["over_target"]


def test_a_missed_target_is_said_and_explained(on_store: Cli) -> None:
    """What cannot be reached is reached as nearly as promises allow, and the report says so."""
    ran = on_store("compact", "ship-it", "--target", "1")
    assert ran.code == 0
    told = " ".join(ran.out.split())
    assert "the target of 1 was missed: " in told
    assert "The session state (" in told


def test_people_see_before_and_after(on_store: Cli) -> None:
    """The report shows both sizes as bars, the audit, and the way back."""
    lines = on_store("compact", "ship-it").out.splitlines()
    assert lines[0].startswith("ship-it  checkpoint #21  extractive")
    assert lines[2].startswith("before  " + "█" * 32)
    assert lines[3].startswith("after   █")
    assert "░" in lines[3]
    assert any(line.startswith("audit: ") for line in lines)
    assert lines[-1] == "`threadkeep undo ship-it` takes it back"


def test_nothing_to_compact_is_a_named_error(cli: Cli, home: Path) -> None:
    """A thread too short to shrink exits 1 with a sentence, and nothing is written."""
    path = stored(home / "new.db", lambda tk: grown(tk, "new", turns=0))
    ran = cli("compact", "new", "--json", "--store", path)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("threadkeep: thread 'new' has nothing to compact: ")
    assert '"error":"nothing_to_compact"' in ran.err
    assert len(cli("show", "new", "--records", "--json", "--store", path).json["records"]) == 1


def test_an_unknown_strategy_is_a_named_error(on_store: Cli) -> None:
    """A strategy nobody knows is refused, and those there are are named."""
    ran = on_store("compact", "ship-it", "--strategy", "magic")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("threadkeep: no compaction strategy is called 'magic'; known: ")


def test_a_plan_accounts_for_every_token(on_store: Cli) -> None:
    """Its parts add up to the window, before and after."""
    report = on_store("compact", "ship-it", "--dry-run", "--target", "1500", "--json").json
    plan = report["plan"]
    parts = [plan[name] for name in ("replaced", "quoted", "context", "request", "frontier", "stubbed", "state")]
    assert sum(part["tokens_before"] for part in parts) == report["tokens_before"]
    assert sum(part["tokens_after"] for part in parts) == report["tokens_after"]
    assert list(plan) == ["replaced", "quoted", "context", "request", "frontier", "stubbed", "state", "changes"]
    assert plan["replaced"]["tokens_after"] == 0
    assert sum(part["items"] for part in parts[:-1]) == 16


def test_a_plan_says_what_the_state_would_say(on_store: Cli) -> None:
    """The changes a dry run announces are those that `diff` finds after the real one."""
    planned = on_store("compact", "ship-it", "--dry-run", "--json").json["plan"]["changes"]
    on_store("compact", "ship-it")
    found = on_store("diff", "ship-it", "--json").json
    assert planned == {name: found[name] for name in planned}
    assert planned["added"]


def test_people_see_the_plan_of_a_dry_run(on_store: Cli) -> None:
    """How much would be replaced and how much cut, what each part costs before and after, and what would be added."""
    lines = on_store("compact", "ship-it", "--dry-run", "--target", "1500").out.splitlines()
    assert lines[0].startswith("ship-it  nothing written: a dry run")
    plan = lines.index("Plan")
    assert lines[plan + 1].split() == ["items", "before", "after"]
    assert lines[plan + 2].split()[:4] == ["replaced", "by", "the", "state"]
    assert lines[plan + 3].split()[:4] == ["outputs", "cut", "to", "a"]
    assert any(line.startswith("Session state  how it would change") for line in lines)
    assert any("keep port 4601" in line and line.endswith("#2") for line in lines)
    assert not any("undo" in line for line in lines)
