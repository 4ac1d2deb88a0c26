"""The context engine for Hermes, without the host: what it hands back, what it keeps, what it tells."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.adapters.hermes.lists import SESSION, Message, engine_for, find_faults, items, recorded, said, turn, turns

from threadkeep.dialects.values import STATE_OPENING


def test_a_list_becomes_a_state_the_newest_work_and_the_request(home: Path) -> None:
    """The state and people's words in one user message, then the newest work, its output cut short, and the request."""
    engine = engine_for(home)
    shown = [*turns(1, 3, lines=2_000), said("And what about part 4?")]
    compacted = engine.compress(shown, current_tokens=50_000)
    opening, _, rest = compacted[0].pop("content").partition("\n\n")
    assert compacted[0] == {"role": "user", "_compressed_summary": True}
    assert [message["role"] for message in compacted[1:]] == ["assistant", "tool", "assistant", "user"]
    assert [compacted[1], compacted[3]["content"], compacted[4]] == [shown[-4], "Part 3 is fine.", shown[-1]]
    assert len(compacted[2]["content"]) < len(shown[-3]["content"]) // 10
    assert opening.startswith(STATE_OPENING)
    assert rest == snapshot("""\
<session_compact_state>
Objective:
- Look at part 1. Always keep port 8001 free. (#2)

Active Memory:
- none

Inactive Changes:
- none

Current Handoff:
- asked: Look at part 1. Always keep port 8001 free. — answered: Part 1 is fine. (#2)
- asked: Look at part 2. Always keep port 8002 free. — answered: Part 2 is fine. (#7)
- asked: Look at part 3. Always keep port 8003 free. — answered: Part 3 is fine. (#12)

Evidence Pointers:
- none
</session_compact_state>

---

Look at part 2. Always keep port 8002 free.

---

Look at part 3. Always keep port 8003 free.\
""")
    assert (engine._last_compression_made_progress, engine._last_compress_aborted) == (True, False)


def test_what_the_model_has_not_seen_stays_whole(home: Path) -> None:
    """A compaction between a tool's answer and the model's keeps the pair, with everything the host put on it."""
    engine = engine_for(home)
    shown = [*turns(1, 5, lines=1_000), *turn(6, lines=1_000)[:3]]
    compacted = engine.compress(shown, current_tokens=50_000)
    assert compacted[1:] == shown[-2:]
    assert [message["role"] for message in compacted] == ["user", "assistant", "tool"]
    assert compacted[0]["content"].endswith("Look at part 6. Always keep port 8006 free.")


def test_three_compactions_in_a_row_lose_nothing_and_store_nothing_twice(home: Path) -> None:
    """The host goes on from each list; all is in the thread once, every rule is in view, every list could be sent."""
    engine = engine_for(home)
    shown: list[Message] = []
    for number in range(1, 16):
        shown = [*shown, *turn(number)]
        if number % 5 == 0:
            shown = engine.compress(shown, current_tokens=50_000)
            assert find_faults(shown) == []
    assert engine.compression_count == 3
    assert recorded(home) == items(turns(1, 15))
    assert [port for port in range(8001, 8016) if f"port {port}" not in shown[0]["content"]] == []


def test_a_session_that_the_host_rotated_goes_on_with_the_same_memory(home: Path) -> None:
    """A new id after a compaction is a fork: recall reaches back, and the state is carried on, also by another process."""
    engine = engine_for(home)
    compacted = engine.compress(turns(1, 5), current_tokens=50_000)
    engine.on_session_start("20260101_130000_bbbbbb", boundary_reason="compression", old_session_id=SESSION)
    shown = engine.compress([*compacted, *turns(6, 10)], current_tokens=50_000)
    assert [port for port in range(8001, 8011) if f"port {port}" not in shown[0]["content"]] == []
    found = json.loads(engine.handle_tool_call("recall", {"query": "part 2, line 17"}, messages=shown))
    assert any("part 2, line 17" in hit["text"] for hit in found["recalled"])


def test_a_branch_the_host_s_database_tells_of_is_a_fork(home: Path) -> None:
    """Nobody said so to the engine; the parent stands in the host's own table of sessions."""

    class Database:
        def get_session(self, session_id: str) -> dict[str, str | None]:
            return {"id": session_id, "parent_session_id": SESSION}

    compacted = engine_for(home).compress(turns(1, 5), current_tokens=50_000)
    branch = engine_for(home, session="branch")
    branch.bind_session_state(Database(), "branch")
    shown = branch.compress([*compacted, *turns(6, 10)], current_tokens=50_000)
    assert [port for port in range(8001, 8011) if f"port {port}" not in shown[0]["content"]] == []
    assert recorded(home) == items(turns(1, 5))


def test_recall_returns_originals_and_never_its_own_answers(home: Path) -> None:
    """A needle from before the compaction comes back word for word; asked again, the first answer is not among the hits."""
    engine = engine_for(home)
    shown = engine.compress([*turns(1, 3), said("The needle is heliotrope-7."), *turns(4, 6)], current_tokens=50_000)
    for number in (1, 2):
        answer = engine.handle_tool_call("recall", {"query": "heliotrope needle"}, messages=shown)
        texts = [hit["text"] for hit in json.loads(answer)["recalled"]]
        assert [text for text in texts if "heliotrope" in text] == ["The needle is heliotrope-7."]
        function = {"name": "recall", "arguments": '{"query": "heliotrope needle"}'}
        calls = [{"id": f"r{number}", "type": "function", "function": function}]
        shown = [
            *shown,
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "name": "recall", "tool_call_id": f"r{number}", "content": answer},
        ]


@pytest.mark.parametrize(
    ("name", "args"), [("recall", {}), ("recall", {"query": 7}), ("recall", {"query": " "}), ("recall", None), ("grep", {})]
)
def test_bad_calls_of_the_tool_are_answered_with_an_error(home: Path, name: str, args: dict[str, Any] | None) -> None:
    """The model hears what was wrong; nothing is raised to the host."""
    assert list(json.loads(engine_for(home).handle_tool_call(name, args, messages=[]))) == ["error"]


def test_the_tool_s_schema_is_a_bare_function(home: Path) -> None:
    """The host wraps it; one that is wrapped already would be refused by strict servers."""
    (schema,) = engine_for(home).get_tool_schemas()
    assert sorted(schema) == ["description", "name", "parameters"]
    assert (schema["name"], schema["parameters"]["required"]) == ("recall", ["query"])


def test_the_status_tells_all_figures(home: Path) -> None:
    """What the host shows, and what the last compaction did; the sentinel after a compaction counts as nothing used."""
    engine = engine_for(home)
    engine.compress([*turns(1, 5), said("And part 6?")], current_tokens=50_000)
    engine.last_prompt_tokens = -1
    assert engine.get_status() == snapshot(
        {
            "engine": "threadkeep",
            "last_prompt_tokens": 0,
            "threshold_tokens": 48000,
            "context_length": 64000,
            "usage_percent": 0.0,
            "compression_count": 1,
            "session_id": "20260101_120000_aaaaaa",
            "thread": "20260101_120000_aaaaaa",
            "last_compaction": {
                "strategy": "extractive",
                "tokens_before": 18795,
                "tokens_after": 1213,
                "model_calls": 0,
                "required": 6,
                "kept": 6,
                "repaired": 0,
            },
            "trouble": None,
        }
    )


def test_a_project_s_own_file_does_not_move_the_store(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder the agent works in came from anywhere; a `threadkeep.toml` in it is not read."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "threadkeep.toml").write_text(f'store = "{project / "stolen.db"}"\n', encoding="utf-8")
    monkeypatch.chdir(project)
    engine_for(home).compress(turns(1, 5), current_tokens=50_000)
    assert not (project / "stolen.db").exists()
    assert (tmp_path / "threads.db").exists()


def test_an_environment_variable_names_the_store_first(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """THREADKEEP_STORE counts in the host as everywhere."""
    monkeypatch.setitem(os.environ, "THREADKEEP_STORE", str(tmp_path / "elsewhere.db"))
    engine_for(home).compress(turns(1, 5), current_tokens=50_000)
    assert (tmp_path / "elsewhere.db").exists()
