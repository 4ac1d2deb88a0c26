"""Where people said more than fits, what binds nobody gives way first."""

from __future__ import annotations

import pytest
from tests.histories import answered, said

from threadkeep import Threadkeep
from threadkeep.compaction import Ledger, Section, Speaker
from threadkeep.compaction.speech import may_bind

pytestmark = pytest.mark.anyio

RULES = [f"Never restart berth {number:02} without a call to the harbour master." for number in range(10, 30)]
TALK = [
    f"The {word} looks lovely in this light, and the morning was calm." for word in "quay pier mole lock buoy crane hull".split()
]


async def test_rules_are_told_before_talk_that_came_later(tk: Threadkeep) -> None:
    """The target is met, rules from before the talk are told, and the state counts what it left out."""
    thread = await tk.thread("t")
    spoken = [*RULES, *(f"{text} Part {part} of it, too." for part in "abcdefgh" for text in TALK)]
    for text in spoken:
        await thread.record([said(text), answered("I see.")])
    report = await thread.compact(target="800")
    state = await thread.state()
    window = str(list(await thread.window()))
    assert report.tokens_after <= 800
    assert sum(rule in window for rule in RULES) >= 5
    assert (
        f"left out for want of room: {sum(entry in state.left_out for entry in _messages(state))} messages of the user" in window
    )


def _messages(state: Ledger) -> list[str]:
    return [entry.id for entry in state.section(Section.ACTIVE) if entry.speaker is Speaker.USER]


@pytest.mark.parametrize(
    ("text", "binds"),
    [
        ("Never push to main.", True),
        ("The port is 8080.", True),
        ("Bitte immer auf Deutsch antworten.", True),
        ("端口不要改。", True),
        ("May I?", False),
        ("Should we keep port 8080?", False),
        ("The weather was nice with that breeze from the coast.", False),
        ("Nice. What about the tests? Use the small cluster.", True),
    ],
)
def test_what_may_bind_later_work_obliges_or_names_something_exact(text: str, *, binds: bool) -> None:
    assert may_bind(text) is binds
