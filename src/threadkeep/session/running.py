"""Running what a model called: whatever comes of a call is its output, in words that can be recorded."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Final

from threadkeep.session.events import Returned
from threadkeep.session.tools import Tool, decoded_arguments
from threadkeep.session.wire import Call

# Half a surrogate pair is what Python reads an undecodable byte as; no provider takes one, and no store.
_NO_TEXT: Final = re.compile("[\ud800-\udfff]")
MARK: Final = "\ufffd"


async def returned_by(call: Call, *, tools: Mapping[str, Tool]) -> Returned:
    """Run one call and return what came of it.

    What the tool raises is told to the model as its output, an attempt to end the process among it. A `KeyboardInterrupt` ends
    the turn as any interruption does, and so does being cancelled.
    """
    # Gathered so that it comes back as a value, whatever it is.
    (result,) = await asyncio.gather(_output(call, tools), return_exceptions=True)
    if isinstance(result, BaseException):
        return Returned(call=call, text=legible(f"error: {type(result).__name__}: {result}"), failed=True)
    return Returned(call=call, text=legible(result))


def legible(text: str) -> str:
    """Return what a tool said with every character that is no text replaced, and a line that says so."""
    mended, count = _NO_TEXT.subn(MARK, text)
    return f"{mended}\n[{MARK} stands for what could not be read as text, {count} times]" if count else text


async def _output(call: Call, tools: Mapping[str, Tool]) -> str:
    tool = tools.get(call.name)
    if tool is None:
        raise LookupError(f"there is no tool {call.name!r}; there are: {', '.join(tools) or 'none'}")
    try:
        return await tool.run(decoded_arguments(call.arguments))
    except SystemExit as error:
        # Parsers of arguments and scripts end like this. In a task it would end the event loop, and every other turn with it.
        raise RuntimeError(f"the tool wanted to end the process, with code {error.code!r}") from error
