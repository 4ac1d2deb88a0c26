"""What goes wrong around a turn costs no thread: nothing said, outputs that are no text, tools that want to end it all."""

from __future__ import annotations

import sys

import pytest
from tests.session.answers import DIALECTS, calling, outputs_of

from threadkeep import Session, Threadkeep
from threadkeep.errors import BadInput
from threadkeep.testing.scripted_model import ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("said", ["", " \n\t", "\u2003"])
async def test_saying_nothing_is_refused_before_anything_is_recorded(tk: Threadkeep, dialect: str, said: str) -> None:
    """Providers refuse an empty message, and with it every request of a thread that has one."""
    model = ScriptedModel(["Yes."], dialect=dialect)
    session = await Session.open(tk, "t", model=model)
    before = await session.thread.records()
    with pytest.raises(BadInput, match="the message is empty"):
        await session.ask(said)
    assert await session.thread.records() == before
    assert (await session.ask("Are you there?")).text == "Yes."


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_output_that_is_no_text_is_that_tools_output(tk: Threadkeep, dialect: str) -> None:
    """Undecodable bytes stand as replacement marks, and the output says so; in an error too."""

    def reads() -> str:
        """Read a file that is no text."""
        return "bad \udcff byte \udcfe"

    def fails() -> str:
        """Fail over a name that is no text."""
        raise FileNotFoundError("caf\udce9")

    model = ScriptedModel([calling(dialect, ("c1", "reads", {}), ("c2", "fails", {})), "I see."], dialect=dialect)
    session = await Session.open(tk, "t", model=model, tools=[reads, fails])
    assert (await session.ask("Go.")).text == "I see."
    assert outputs_of(dialect, list(await session.window())) == {
        "c1": "bad \ufffd byte \ufffd\n[\ufffd replaces characters that are not valid text, 2 times]",
        "c2": "error: FileNotFoundError: caf\ufffd\n[\ufffd replaces characters that are not valid text, 1 times]",
    }


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_tool_that_ends_the_process_ends_its_call_alone(tk: Threadkeep, dialect: str) -> None:
    """On the event loop and in a thread; the other calls and the turn go on."""

    def leaves() -> str:
        """End the process."""
        sys.exit(3)

    async def leaves_too() -> str:
        """End the process."""
        raise SystemExit("enough")

    model = ScriptedModel([calling(dialect, ("c1", "leaves", {}), ("c2", "leaves_too", {})), "I see."], dialect=dialect)
    session = await Session.open(tk, "t", model=model, tools=[leaves, leaves_too])
    assert (await session.ask("Go.")).text == "I see."
    assert outputs_of(dialect, list(await session.window())) == {
        "c1": "error: RuntimeError: the tool tried to end the process with code 3",
        "c2": "error: RuntimeError: the tool tried to end the process with code 'enough'",
    }
