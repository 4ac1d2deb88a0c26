"""Walking to the live path."""

from __future__ import annotations

from threadkeep.store import Span, ThreadRow
from threadkeep.threads import PathWalk


def test_a_thread_that_descends_from_itself_does_not_walk_for_ever() -> None:
    """Damage in the file ends the walk; what was found until then is the path."""
    row = ThreadRow(id="t", dialect="responses", created_at_ms=0, updated_at_ms=0, start=3, parent="t", next=9)
    walk = PathWalk("t", stop=9)
    for _ in range(10):
        if walk.ask is None:
            break
        walk.feed(row, [])
    assert walk.ask is None
    assert walk.path.spans == (Span(thread_id="t", start=3, stop=9),)
