"""Every trap that Hermes is known to lay for a context engine, without the host."""

from __future__ import annotations

import copy
import json
from pathlib import Path

from tests.adapters.hermes.lists import SESSION, engine_for, find_faults, items, recorded, said, turn, turns


def test_a_list_read_back_from_the_host_s_database_is_the_same_list(home: Path) -> None:
    """Outer white space lost, a timestamp gained, a tool's name under another key: nothing is recorded twice."""
    shown = engine_for(home).compress(turns(1, 5), current_tokens=50_000)
    read_back = [
        {**{key: value for key, value in message.items() if not key.startswith("_")}, "timestamp": 1.5} for message in shown
    ]
    later = engine_for(home)
    again = turn(6)
    again[2] = {**{key: value for key, value in again[2].items() if key != "name"}, "tool_name": "read_file"}
    later.on_session_end(SESSION, [*read_back, *again])
    later.on_session_end(SESSION, [*read_back, *turn(6)])
    assert recorded(home) == items(turns(1, 6))


def test_a_lock_would_keep_the_engine_from_being_copied_and_it_has_none(home: Path) -> None:
    """The host copies the registered engine for each agent; the copy has its window and no session, and both work."""
    first = engine_for(home)
    first.compress(turns(1, 5), current_tokens=50_000)
    second = copy.deepcopy(first)
    assert (second.context_length, second.threshold_tokens, second.compression_count) == (64_000, 48_000, 0)
    assert second.thread_id != first.thread_id
    assert second.get_status()["session_id"] == ""


def test_whatever_goes_wrong_the_host_keeps_its_list_and_hears_why(home: Path) -> None:
    """A store that cannot be opened: the very list comes back, nothing is raised, and the host's warning has a reason."""
    (home / "threadkeep.toml").write_text(f'store = "{home}"\n', encoding="utf-8")
    engine, shown = engine_for(home), turns(1, 5)
    assert engine.compress(shown, current_tokens=50_000) is shown
    assert engine._last_compress_aborted
    assert engine._last_summary_error == engine.trouble == engine.get_status()["trouble"]
    assert str(engine.trouble).startswith("Store")
    assert json.loads(engine.handle_tool_call("recall", {"query": "port"})) == {"error": engine.trouble}
    engine.on_session_end(SESSION, shown)


def test_a_configuration_nobody_can_read_is_said_and_raised_nowhere(home: Path) -> None:
    """A broken `threadkeep.toml` beside the host's config is an error in the status."""
    (home / "threadkeep.toml").write_text("store = 7\n", encoding="utf-8")
    engine, shown = engine_for(home), turns(1, 5)
    assert engine.compress(shown) is shown
    assert engine.trouble == f"InvalidSetting: store ({home / 'threadkeep.toml'}) must be a text, not 7"


def test_the_list_never_grows(home: Path) -> None:
    """Where a compaction would gain nothing the same list comes back, and it is not tried again before the list has grown."""
    engine = engine_for(home)
    shown = [said("word " * 60_000)]
    assert engine.should_compress(75_000)
    assert engine.compress(shown, current_tokens=75_000) is shown
    assert not engine._last_compression_made_progress
    assert not engine._last_compress_aborted
    assert [engine.should_compress(tokens) for tokens in (75_000, 80_000, 90_000)] == [False, False, True]


def test_malformed_lists_come_back_in_a_form_that_can_be_sent(home: Path) -> None:
    """Two users in a row, a result without a call, an assistant first: what is handed back has none of it, and the request."""
    orphan = {"role": "tool", "tool_call_id": "nobody", "content": "lost"}
    shown = [turn(0)[3], orphan, *turns(1, 5), said("first this"), said("then that")]
    compacted = engine_for(home).compress(shown, current_tokens=50_000)
    assert find_faults(compacted) == []
    assert compacted[-1]["content"].endswith("first this\n\n---\n\nthen that")


def test_an_end_of_session_that_is_none_changes_nothing(home: Path) -> None:
    """The host says so at every compaction, with the list from before it, and takes agents down with no list at all."""
    engine = engine_for(home)
    shown = turns(1, 5)
    compacted = engine.compress(shown, current_tokens=50_000)
    for _ in range(2):
        engine.on_session_end(SESSION, shown)
        engine.on_session_end(SESSION, [])
        engine.on_session_start(SESSION, boundary_reason="compression", old_session_id=SESSION, platform="cli")
    shown = [*compacted, *turns(6, 10)]
    again = engine.compress(shown, current_tokens=50_000)
    engine.on_session_end(SESSION, shown)
    assert recorded(home) == items(turns(1, 10))
    later = engine.compress([*again, *turns(11, 15)], current_tokens=50_000)
    assert [port for port in range(8001, 8016) if f"port {port}" not in later[0]["content"]] == []


def test_a_system_prompt_in_the_list_stays_in_front_and_out_of_the_thread(home: Path) -> None:
    """Some callers show it, most do not; index 0 is never taken for it."""
    system = {"role": "system", "content": "You are terse.", "_db_persisted": True}
    with_it = engine_for(home, session="one").compress([system, *turns(1, 5)], current_tokens=50_000)
    without = engine_for(home, session="two").compress(turns(1, 5), current_tokens=50_000)
    assert with_it[0] == {"role": "system", "content": "You are terse."}
    assert [message["role"] for message in with_it[1:]] == [message["role"] for message in without]
    assert recorded(home, "one") == items(turns(1, 5))


def test_a_second_agent_on_the_same_session_adds_nothing_twice(home: Path) -> None:
    """The host's gateway compacts through an agent made for the occasion: its copy sees the same thread."""
    main, hygiene = engine_for(home), engine_for(home)
    main.on_session_end(SESSION, turns(1, 5))
    compacted = hygiene.compress(turns(1, 5), current_tokens=50_000)
    main.on_session_end(SESSION, [*compacted, *turn(6)])
    assert recorded(home) == items(turns(1, 6))


def test_an_agent_that_borrows_the_session_s_name_records_nothing_in_it(home: Path) -> None:
    """The host's background review runs as another session and is ended under the name of the one it looked at."""
    engine_for(home).on_session_end(SESSION, turns(1, 2))
    engine_for(home, session="review").on_session_end(SESSION, [*turns(1, 2), said("Review the conversation above.")])
    assert recorded(home) == items(turns(1, 2))


def test_markers_of_the_host_never_come_back_and_thoughts_do(home: Path) -> None:
    """What says that a row is stored is gone from every message; replayed thoughts stay on the messages that stay."""
    shown = [*turns(1, 4, lines=1_000), *turns(5, 5, lines=4)]
    compacted = engine_for(home).compress(shown, current_tokens=50_000)
    assert [message for message in compacted if "_db_persisted" in message] == []
    assert compacted[-3:] == [{key: value for key, value in message.items() if key != "_db_persisted"} for message in shown[-3:]]


def test_the_host_s_list_of_tasks_joined_to_the_request_is_told_apart(home: Path) -> None:
    """The host appends it behind our list and makes one message of both: only the tasks are new."""
    engine = engine_for(home)
    compacted = engine.compress([*turns(1, 5), said("And part 6?")], current_tokens=50_000)
    tasks = "[Your active task list was preserved across context compression]\n- [>] 1. read (in_progress)"
    joined = [*compacted[:-1], {**compacted[-1], "content": f"{compacted[-1]['content']}\n\n{tasks}"}]
    for _ in range(2):
        engine.on_session_end(SESSION, [*joined, {"role": "assistant", "content": "Reading."}])
    expected = [*items(turns(1, 5)), said("And part 6?"), said(tasks), {"role": "assistant", "content": "Reading."}]
    assert recorded(home) == expected


def test_later_hosts_may_ask_for_more_and_earlier_ones_for_less(home: Path) -> None:
    """Unknown arguments are passed over, optional ones may be missing, and what a newer host calls is there."""
    engine = engine_for(home)
    engine.update_model("m2", 128_000, "url", "key", "provider", "mode", "and more")
    assert engine.threshold_tokens == 96_000
    engine.update_from_response({})
    engine.update_from_response({"input_tokens": 7, "output_tokens": 3, "cache_read_tokens": 1})
    assert (engine.last_prompt_tokens, engine.last_completion_tokens, engine.last_total_tokens) == (7, 3, 10)
    engine.on_turn_complete(turns(1, 2), usage={}, turn_id="x")
    assert recorded(home) == items(turns(1, 2))
    assert engine.compress(turns(1, 2), deadline=3.0, cache_plan=None) is not None
    assert engine.should_compress_preflight([said("hi")]) is False
