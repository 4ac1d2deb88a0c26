"""`show --tree` with sub-agents in the family."""

from __future__ import annotations

import json

import pytest
from tests.histories import turn, turns

from threadkeep import Thread, Threadkeep
from threadkeep.cli.show import show_tree

pytestmark = pytest.mark.anyio


async def family(tk: Threadkeep) -> Thread:
    """A lead with a fork, a finished helper, and a scout whose own helper has the last turn; returns that one."""
    lead = await tk.thread("lead")
    await lead.record(turns(1, 2))
    await lead.fork(before_turn=2, new_id="fork")
    helper = await lead.spawn("Help.", name="helper", new_id="helper")
    await helper.report("Helped.")
    scout = await lead.spawn(name="scout", history="full", new_id="scout")
    await scout.record(turn(3))
    return await scout.spawn(history=1, new_id="below")


async def test_sub_agents_stand_below_who_spawned_them(tk: Threadkeep, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever they began with; each with its edge, and the whole family from any of its members."""
    youngest = await family(tk)
    await show_tree(tk, youngest, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    told = [(each["depth"], each["id"], each["parent"], each.get("spawned_by"), each.get("status")) for each in shown["threads"]]
    assert told == [
        (0, "lead", None, None, None),
        (1, "helper", None, "lead", "closed"),
        (1, "fork", "lead", None, None),
        (1, "scout", "lead", "lead", "open"),
        (2, "below", "scout", "scout", "open"),
    ]


async def test_the_tree_says_what_a_sub_agent_is_called_and_whether_it_is_done(
    tk: Threadkeep, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words, one line a thread."""
    await show_tree(tk, await family(tk), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  Please")[0].rstrip() for line in lines] == [
        "lead",
        "├─ helper  helper, closed",
        "├─ fork  from #7",
        "└─ scout  from #16  scout, open",
        "   └─ below  from #23  sub-agent, open  this one",
    ]
