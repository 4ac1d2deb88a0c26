"""What a model is told of a session whose history its client has just compacted: pure."""

from __future__ import annotations

from threadkeep.compaction import Ledger
from threadkeep.compaction.engine import remembered
from threadkeep.compaction.plan import Seen
from threadkeep.compaction.state_text import neutralise, render_state
from threadkeep.dialects import Dialect
from threadkeep.threads import EntryKind, History

# The request is quoted whole up to this; a log pasted into it would push out what was demanded.
QUOTED_CHARS = 4_000
REQUEST = "The user's newest message, word for word:"


def told(history: History, *, dialect: Dialect, thread_id: str, recall: str) -> str:
    """Return the session state of everything a window holds, the newest message of the user, and how to find the rest.

    Nothing where no one has said anything. `recall` is the command that finds originals, without the thread's id.
    """
    ledger = whole_state(history, dialect=dialect)
    if not ledger.entries:
        return ""
    spoken = [seen for seen in _seen(history, dialect=dialect) if seen.view.by_person and seen.view.said.strip()]
    newest = spoken[-1] if spoken and spoken[-1].entry.kind is not EntryKind.STUB else None
    return "\n\n".join(
        (
            render_state(ledger, whole=True),
            *((f"{REQUEST}\n{_quoted(newest)}",) if newest else ()),
            f"`{recall} {thread_id} WORDS` finds originals by what was said, `{recall} {thread_id} '#N'` the record N.",
        )
    )


def whole_state(history: History, *, dialect: Dialect) -> Ledger:
    """Return the ledger that a window comes to when nothing of it stays.

    A compaction of ours keeps the newest messages as they are, outside of its state. A client's compaction may keep none of
    them, so that they must be in the state that is handed to it.
    """
    return remembered(history, dialect=dialect)


def _seen(history: History, *, dialect: Dialect) -> list[Seen]:
    return [Seen(entry=entry, view=dialect.view(entry.item)) for entry in history.said]


def _quoted(seen: Seen) -> str:
    flat = neutralise(seen.view.said)
    place = f" (#{seen.entry.source.ordinal})" if seen.entry.source is not None else ""
    return f"{flat if len(flat) <= QUOTED_CHARS else f'{flat[:QUOTED_CHARS]} […cut, whole in the record]'}{place}"
