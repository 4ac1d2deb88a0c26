"""Settings as text: for any settings a client may have, our groups come in and go out again and nothing else moves."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from threadkeep.adapters.client_hooks.clients import CLIENTS, is_ours, wanted_groups
from threadkeep.adapters.client_hooks.settings_text import with_groups, without_groups

CLIENT = CLIENTS["claude-code"]
GROUPS = wanted_groups(("/opt/threadkeep",), CLIENT, store=None)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
groups = st.fixed_dictionaries({"matcher": st.text(max_size=5), "hooks": st.just([{"type": "command", "command": "true"}])})
events = st.sampled_from(["PreCompact", "SessionStart", "Stop"])
hooks = st.dictionaries(events, st.lists(groups, max_size=2), max_size=3)
settings = st.tuples(st.dictionaries(st.text(max_size=6), values, max_size=3), st.none() | hooks).map(
    lambda both: {**both[0], **({} if both[1] is None else {"hooks": both[1]})}
)
indents = st.sampled_from([None, 2, 4, "\t"])


def ours(group: object) -> bool:
    return is_ours(group, CLIENT)


def expected(known: dict[str, Any]) -> dict[str, Any]:
    events = dict(known.get("hooks", {}))
    for event, group in GROUPS.items():
        events[event] = [*events.get(event, []), group]
    return {**known, "hooks": events}


@given(settings.filter(lambda known: isinstance(known.get("hooks", {}), dict)), indents)
def test_our_groups_are_added_and_nothing_else_changes(known: dict[str, Any], indent: int | str | None) -> None:
    """The settings mean what they meant, with one group more under each of our events."""
    text = json.dumps(known, indent=indent)
    added = with_groups(text, GROUPS, is_ours=ours)
    assert json.loads(added) == expected(known)
    assert json.loads(with_groups(added, GROUPS, is_ours=ours)) == expected(known)


@given(settings.filter(lambda known: isinstance(known.get("hooks", {}), dict)), indents)
def test_taking_them_out_leaves_what_was_there(known: dict[str, Any], indent: int | str | None) -> None:
    """Without them it is what it was, but for an event, or `hooks`, that held nothing."""
    text = json.dumps(known, indent=indent)
    left = json.loads(without_groups(with_groups(text, GROUPS, is_ours=ours), is_ours=ours))
    empty = {event for event in GROUPS if not known.get("hooks", {}).get(event)}
    kept = {event: value for event, value in known.get("hooks", {}).items() if event not in empty}
    rest = {name: value for name, value in known.items() if name != "hooks"}
    assert left == ({**rest, "hooks": kept} if kept else rest)
