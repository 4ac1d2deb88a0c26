"""Which HTTP status each named failure has. This table is the only place where the two meet."""

from __future__ import annotations

from collections.abc import Mapping

from threadkeep.errors import ThreadkeepError

STATUSES: Mapping[str, int] = {
    "threadkeep_error": 500,
    "bad_input": 400,
    "invalid_item": 400,
    "invalid_thread_id": 400,
    "invalid_pointer": 400,
    "invalid_target": 400,
    "not_enough_turns": 400,
    "unknown_dialect": 400,
    "unknown_strategy": 400,
    "not_found": 404,
    "thread_not_found": 404,
    "ambiguous_thread": 409,
    "record_not_found": 404,
    "entry_not_found": 404,
    "conflict": 409,
    "ordinal_conflict": 409,
    "thread_exists": 409,
    "stale_checkpoint": 409,
    "compaction_running": 409,
    "compaction_error": 422,
    "nothing_to_compact": 422,
    "nothing_to_undo": 422,
    # Not 409: clients of both APIs send again what they are told conflicts, and a hook that said no is not to be asked once more.
    "compaction_stopped": 422,
    "broken_window": 422,
    "model_error": 502,
    "unknown_model": 400,
    "model_overflow": 422,
    "model_unavailable": 503,
    "model_rejected": 502,
    "gateway_error": 500,
    "unsafe_bind": 500,
    "port_taken": 500,
    "cannot_listen": 500,
    "cannot_keep_token": 500,
    "launch_error": 500,
    "store_error": 500,
    "store_missing": 503,
    "store_busy": 503,
    "store_unreachable": 503,
    "store_full": 507,
    "store_read_only": 503,
    "store_foreign": 500,
    "store_too_new": 500,
    "store_corrupt": 500,
    "store_closed": 503,
}


def find_status(error: ThreadkeepError) -> int:
    """Return the status of an error: its own, or that of the nearest kind of error it is."""
    for kind in type(error).__mro__:
        code = getattr(kind, "code", None)
        if isinstance(code, str) and code in STATUSES:
            return STATUSES[code]
    return 500
