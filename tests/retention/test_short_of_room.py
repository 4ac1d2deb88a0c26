"""Where people said more than fits, the target is met and no correction is left out before what it corrects."""

from __future__ import annotations

import pytest
from tests.histories import answered, said

from threadkeep import Threadkeep
from threadkeep.compaction import Section, Speaker
from threadkeep.compaction.message_judgement import may_bind

pytestmark = pytest.mark.anyio

SAID = [f"The tug at berth {number:02} goes out with the tide, and its crew is to be told." for number in range(10, 90)]


@pytest.mark.parametrize("target", [400, 800, 1_600])
async def test_what_is_told_is_all_of_it_from_some_message_on(tk: Threadkeep, target: int) -> None:
    """Whatever is told of what people said, everything they said later is told as well; the state counts the rest."""
    thread = await tk.thread("t")
    for text in SAID:
        await thread.record([said(text), answered("I see.")])
    report = await thread.compact(target=str(target))
    state = await thread.state()
    window = str(list(await thread.window()))
    messages = [entry for entry in state.section(Section.ACTIVE) if entry.speaker is Speaker.USER]
    left = [entry for entry in messages if entry.id in state.left_out]
    assert (report.tokens_after <= target, report.over_target) == (True, False)
    assert left == messages[: len(left)] != []
    assert [text for text in SAID[1:] if text[:30] not in window] == [entry.text for entry in left]
    assert f"left out for want of room: {len(left)} messages of the user" in window


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
