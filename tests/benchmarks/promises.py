"""The promises of threadkeep and the tests that can break each; docs/promises.md is generated from this.

`python -m tests.benchmarks.promises` writes the page anew.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "promises.md"
FEWEST_TESTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A promise: what it says, and tests as `FILE::NAME` below tests/."""

    number: int
    title: str
    says: str
    tests: tuple[str, ...]


PROMISES: Final = (
    Promise(
        number=1,
        title="Nothing is lost",
        says="Every recorded item can be read back byte for byte: after compactions, forks and rollbacks, and after the "
        "process was killed.",
        tests=(
            "store/test_processes.py::test_a_hundred_kills_lose_nothing",
            "store/test_sqlite_full.py::test_a_full_disk_costs_the_append_and_nothing_else",
            "store/test_sqlite_append_only.py::test_history_cannot_be_rewritten",
            "client/every_dialect/test_thread.py::test_what_is_recorded_is_the_window",
            "client/every_dialect/test_thread.py::test_forks_before_and_after_a_checkpoint",
            "client/test_nothing_lost.py::test_what_was_rolled_back_is_read_back_byte_for_byte",
            "recall/test_recall.py::test_what_was_rolled_back_is_not_found_by_words_but_by_pointer",
            "client/test_verify.py::test_a_flipped_byte_is_found",
        ),
    ),
    Promise(
        number=2,
        title="Code never overrules a person",
        says="People's messages are in the window in their own words and in order. If two contradict each other, both "
        "stay and the reader sees which is later. A message leaves Active Memory only by an operation that names "
        "it: a person's own, or a model's that quotes a later message of that person, and code finds the quotation."
        " An empty, cut-off, malformed or hostile summary changes nothing. Messages without room are shortened or "
        "left out with a pointer, and come back when there is room.",
        tests=(
            "compaction/test_merge.py::test_each_message_is_one_entry_in_order_and_nothing_is_concluded",
            "compaction/test_merge.py::test_what_no_operation_mentions_is_retained",
            "compaction/test_merge.py::test_a_users_entry_gives_way_to_a_quotation_of_a_later_message",
            "compaction/test_merge.py::test_what_no_later_message_says_retires_nothing",
            "compaction/test_merge.py::test_pins_and_the_objective_hold_against_any_quotation",
            "compaction/test_hostile_drafts.py::test_no_operation_takes_a_users_words_away_or_speaks_for_a_user",
            "compaction/test_hostile_drafts.py::test_a_window_made_with_any_reply_is_whole_bounded_and_the_users",
            "compaction/test_quotes.py::test_every_message_ever_said_is_told_by_the_window",
            "compaction/test_budget.py::test_a_state_keeps_within_its_room_and_names_what_it_leaves_out",
            "compaction/test_budget.py::test_what_a_model_wrote_takes_no_room_from_what_people_said",
            "compaction/test_engine.py::test_a_wide_compaction_shows_again_what_a_tight_one_left_out",
            "drafting/test_ladder.py::test_a_bad_draft_changes_nothing_that_the_model_free_one_would_not",
            "client/every_dialect/test_long_work.py::test_forty_demands_outlive_twenty_compactions",
        ),
    ),
    Promise(
        number=3,
        title="Every line of the state is true, and the audit proves it",
        says="A quotation is found in its message. A file is listed as changed only if a tool changed it, a call as open"
        " only if nothing answered it, an error as the last only if nothing fixed it since. Tool output and a "
        "model's text never become a rule. Claims of a draft that the source does not support are flagged and "
        "removed.",
        tests=(
            "compaction/test_audit.py::test_what_code_makes_of_any_records_is_true",
            "compaction/test_audit.py::test_every_message_is_in_the_ledger_whatever_the_draft",
            "compaction/test_audit.py::test_a_quotation_that_its_message_does_not_hold_is_put_right",
            "compaction/test_audit.py::test_a_fact_that_the_records_do_not_show_is_taken_out",
            "compaction/test_audit.py::test_a_rule_that_only_a_tool_or_the_model_said_is_no_rule",
            "compaction/test_audit.py::test_what_a_model_invents_is_taken_out_and_flagged",
            "compaction/test_facts.py::test_a_call_answered_with_an_error_changes_nothing",
            "compaction/test_facts.py::test_an_error_goes_when_it_is_put_right",
            "client/every_dialect/test_thread.py::test_every_demand_is_in_force_word_for_word",
        ),
    ),
    Promise(
        number=4,
        title="Every pointer resolves",
        says="A pointer in a window names a thread and a record, and recall returns the original.",
        tests=(
            "recall/test_recall.py::test_every_pointer_a_compaction_leaves_leads_to_the_original",
            "recall/test_recall.py::test_what_was_rolled_back_is_not_found_by_words_but_by_pointer",
            "recall/test_recall.py::test_a_pointer_to_nothing_is_an_error",
            "client/every_dialect/test_thread.py::test_an_original_is_recalled",
        ),
    ),
    Promise(
        number=5,
        title="It always shrinks, never loops, never ratchets",
        says="A draft that does not shrink the window is rejected, and the next strategy is tried; the last one needs no"
        " model. Two compactions need growth between them.",
        tests=(
            "compaction/test_engine.py::test_a_second_compaction_without_growth_is_refused",
            "compaction/test_engine.py::test_a_second_compaction_after_a_few_words_is_refused",
            "drafting/test_ladder.py::test_a_summary_that_does_not_shrink_the_window_is_not_taken",
            "drafting/test_ladder.py::test_remote_falls_back_to_session_and_then_to_no_model",
            "compaction/test_two_hundred.py::test_two_hundred_compactions_stay_bounded_and_move_the_prefix_once_each",
            "gateway/test_background_compaction.py::test_what_gained_nothing_is_tried_again_after_growth",
        ),
    ),
    Promise(
        number=6,
        title="No turn is lost to a compaction",
        says="If a compaction fails, the input is recorded, the turn goes on with the best window there is, and the "
        "error is reported. Every compaction can be undone.",
        tests=(
            "client/test_turn.py::test_a_compaction_that_fails_costs_nothing_and_says_why",
            "client/test_branching.py::test_undo_restores_the_exact_window_again_and_again",
            "gateway/test_background_compaction.py::test_a_failure_in_the_background_is_recorded_and_costs_nothing",
            "gateway/test_conversations.py::test_a_store_that_fails_costs_no_answer",
            "drafting/test_branching.py::test_undo_takes_back_one_compaction_after_the_other",
        ),
    ),
    Promise(
        number=7,
        title="Pairs, roles and bytes",
        says="There is no call without its output and no output without its call. Where a provider forbids two user "
        "messages in a row, there are none. Reasoning stays with its item, and unknown fields survive. The current "
        "request is whole, and last.",
        tests=(
            "compaction/test_plan_properties.py::test_no_cut_orphans_an_output",
            "compaction/test_plan_properties.py::test_reasoning_stays_with_the_item_it_belongs_to",
            "compaction/test_plan_properties.py::test_the_newest_request_is_in_the_window_byte_for_byte",
            "client/every_dialect/test_thread.py::test_unknown_items_are_kept_or_replaced_whole",
            "client/every_dialect/test_thread.py::test_the_request_is_whole_and_last",
            "drafting/test_handoff.py::test_roles_alternate_where_they_must",
            "gateway/test_provider_rules.py::test_rule_21_roles_alternate_through_compactions",
        ),
    ),
    Promise(
        number=8,
        title="A stable prefix",
        says="Between two checkpoints, what is sent to the provider only grows, and a checkpoint changes its beginning "
        "once. The prompt-cache key survives compactions and restarts. A fork before a checkpoint sees the history "
        "as it was.",
        tests=(
            "drafting/test_session.py::test_turns_after_it_only_grow_the_window",
            "client/test_turn.py::test_the_cache_key_outlives_compactions_and_is_a_forks_own",
            "client/test_cache_key.py::test_the_cache_key_survives_a_restart",
            "client/test_cache_key.py::test_the_key_a_gateway_makes_survives_a_restart",
            "gateway/test_background_compaction.py::test_rule_7_a_gateway_that_comes_back_sends_the_same_prefix",
            "gateway/test_conversations.py::test_rule_8_the_same_request_twice_is_the_same_bytes_upstream",
            "gateway/test_conversations.py::test_rule_6_a_fork_before_the_cut_and_an_edit_see_the_uncompacted_history",
            "compaction/test_state_text.py::test_the_same_ledger_gives_the_same_bytes_and_whole_tells_all",
        ),
    ),
    Promise(
        number=9,
        title="Rollback and resume mean what they say",
        says="Across any number of checkpoints: what was taken back does not count, and what is left is unchanged.",
        tests=(
            "client/every_dialect/test_thread.py::test_rollback_goes_back_across_three_checkpoints",
            "client/every_dialect/test_thread.py::test_a_thread_resumes_after_reopening",
            "drafting/test_branching.py::test_a_rollback_into_an_older_span_brings_its_window_back",
            "client/test_branching.py::test_a_rollback_of_a_rollback_counts_the_turns_that_are_left",
            "client/test_branching.py::test_a_thread_resumed_after_closing_is_the_thread_it_was",
        ),
    ),
    Promise(
        number=10,
        title="Waiting is optional",
        says="A compaction is prepared in the background at the soft limit and used when it is ready; only the hard limit waits.",
        tests=(
            "gateway/test_background_compaction.py::test_background_compaction_hinders_no_request_and_is_swapped_in",
            "client/test_background.py::test_a_turn_that_ends_past_the_soft_limit_has_a_compaction_made_beside_the_next",
            "client/test_background.py::test_past_the_hard_limit_a_turn_waits_for_the_draft_and_makes_none",
            "drafting/test_triggers.py::test_a_soft_limit_of_ones_own",
            "client/test_turn.py::test_over_the_hard_limit_the_turn_compacts_and_its_request_is_whole_and_last",
            "gateway/test_conversations.py::test_a_request_goes_out_at_once_and_is_durable_before_its_answer_ends",
        ),
    ),
    Promise(
        number=11,
        title="Bad input gets a clear error",
        says="It is refused with a named error and changes nothing in the store.",
        tests=(
            "client/test_turn.py::test_bad_input_records_nothing",
            "adapters/test_host_history.py::test_bad_input_is_refused_before_anything_is_written",
            "store/test_any_file.py::test_any_bytes_as_a_file_are_a_named_error_and_stay_as_they_are",
            "gateway/test_fuzz.py::test_hostile_traffic_breaks_nothing",
            "config/test_config.py::test_a_value_of_the_wrong_kind_is_refused_by_name",
        ),
    ),
    Promise(
        number=12,
        title="Whose thread it is, is checked",
        says="Without a key nothing can be read. Tenants share no digest, no search result and no memory.",
        tests=(
            "gateway/test_keys.py::test_without_a_key_nothing_is_served",
            "gateway/test_tenants.py::test_a_search_finds_only_ones_own",
            "gateway/test_tenants.py::test_the_same_history_under_two_keys_is_two_threads",
            "gateway/test_memory.py::test_another_tenant_is_shown_nothing",
            "store/test_postgres_tenants.py::test_a_tenant_sees_its_own_rows_alone",
            "client/test_facade.py::test_no_tenant_sees_anothers_threads",
        ),
    ),
)


@cache
def found_in(file: Path) -> dict[str, bool]:
    """Return the tests of a file, and of each whether it is expected to fail or left out, whatever the machine."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return dict(_tests(tree.body, left_out=_leaves_out_module(tree.body)))


def _tests(body: Sequence[ast.stmt], *, left_out: bool) -> Iterator[tuple[str, bool]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            marked = any(map(_is_mark_that_leaves_out, node.decorator_list))
            yield from _tests(node.body, left_out=left_out or marked or _leaves_out_module(node.body))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            marked = any(map(_is_mark_that_leaves_out, node.decorator_list))
            yield node.name, left_out or marked or any(map(_is_skip, node.body))


def _leaves_out_module(body: Sequence[ast.stmt]) -> bool:
    """Return whether a module, or a class, skips itself: by a `pytestmark`, or by a call where nothing is asked first."""
    marks = [node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"]
    each = [mark for mark in marks for mark in (mark.elts if isinstance(mark, ast.List | ast.Tuple) else [mark])]
    return any(map(_is_mark_that_leaves_out, each)) or any(map(_is_skip, body))


def _is_mark_that_leaves_out(mark: ast.expr) -> bool:
    """Return whether a mark expects a failure, skips, or skips if something that is written there as true."""
    called, arguments = (mark.func, mark.args) if isinstance(mark, ast.Call) else (mark, [])
    name = ast.unparse(called).rpartition(".")[2]
    always = bool(arguments) and isinstance(arguments[0], ast.Constant) and bool(arguments[0].value)
    return name in ("xfail", "skip") or (name == "skipif" and always)


def _is_skip(node: ast.stmt) -> bool:
    """Return whether a statement skips or expects a failure, whatever came before: it stands under no condition."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    return ast.unparse(node.value.func) in ("pytest.skip", "pytest.xfail", "skip", "xfail")


def docstring_of(test: str) -> str:
    """Return the fact a test states, without its full stop."""
    file, _, name = test.partition("::")
    for node in ast.walk(ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return " ".join((ast.get_docstring(node) or "").split()).removesuffix(".")
    raise LookupError(test)


def page() -> str:
    """Return docs/promises.md as it should be."""
    lines = [
        "# Promises",
        "",
        "What threadkeep promises, and the tests that fail if a promise is broken. `python -m tests.benchmarks.promises` "
        "generates this page from the tests; a test fails if it is out of date.",
        "",
    ]
    for promise in PROMISES:
        lines += [f"## {promise.number}. {promise.title}", "", promise.says, ""]
        lines += ["| test | what it checks |", "| --- | --- |"]
        lines += [f"| `tests/{test}` | {docstring_of(test).replace('|', '∣')} |" for test in promise.tests]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
