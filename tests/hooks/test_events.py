"""What hooks are told, key by key: a hook written for Codex finds everything where it looks for it."""

from __future__ import annotations

from dataclasses import replace

from tests.hooks.samples import committed, compaction, started


def test_before_a_compaction_the_outer_keys_are_codexs_own() -> None:
    """What only threadkeep knows stands under one key; there is no transcript on this machine to point at."""
    assert compaction(trigger="auto").payload() == {
        "session_id": "ship-it",
        "turn_id": "3",
        "transcript_path": None,
        "cwd": "/srv/app",
        "hook_event_name": "PreCompact",
        "model": "gpt-5",
        "trigger": "auto",
        "threadkeep": {
            "thread": "ship-it",
            "reason": "context_limit",
            "phase": "pre_turn",
            "strategy": "session",
            "tokens_before": 9_000,
        },
    }


def test_after_a_compaction_the_outer_keys_are_the_same() -> None:
    """No summary, no status, no error among them; what became of it is threadkeep's to add."""
    assert committed().payload() == {
        "session_id": "ship-it",
        "turn_id": "3",
        "transcript_path": None,
        "cwd": "/srv/app",
        "hook_event_name": "PostCompact",
        "model": "gpt-5",
        "trigger": "manual",
        "threadkeep": {
            "thread": "ship-it",
            "reason": "user_requested",
            "phase": "standalone_turn",
            "strategy": "extractive",
            "tokens_before": 9_000,
            "tokens_after": 1_200,
            "checkpoint": 41,
            "fell_back_from": "session",
        },
    }


def test_a_sub_agents_compaction_names_the_agent() -> None:
    """Both keys, or neither; the session is the one at the root, as Codex has it, and the thread stays named."""
    for facts in (compaction(), committed(), started()):
        told = replace(facts, session_id="root", agent_id="a7", agent_type="reviewer").payload()
        changed = {key: told[key] for key in told if told[key] != facts.payload().get(key)}
        assert changed == {"session_id": "root", "agent_id": "a7", "agent_type": "reviewer"}


def test_a_start_has_a_source_and_no_turn() -> None:
    """As Codex tells it, permission mode included."""
    assert started(source="compact").payload() == {
        "session_id": "ship-it",
        "transcript_path": None,
        "cwd": "/srv/app",
        "hook_event_name": "SessionStart",
        "model": "gpt-5",
        "permission_mode": "default",
        "source": "compact",
        "threadkeep": {"thread": "ship-it", "checkpoint": 41},
    }
