"""Tools: typed Python functions, which a model is shown as JSON schemas."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

import msgspec

from threadkeep.dialects import ToolCall
from threadkeep.errors import BadInput
from threadkeep.session.events import Returned

ROOT = "#/$defs/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something a model may call.

    Attributes:
        schema: JSON schema of its arguments, an object.
        run: Called with the arguments the model wrote, decoded; what it returns is the output, what it raises an error the model
            reads.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    run: Callable[[dict[str, Any]], Awaitable[str]]


def tool_from(function: Callable[..., object]) -> Tool:
    """Return a function as a tool: its name, its docstring, and a schema from its annotations.

    Arguments the model leaves out take their defaults, and those of the wrong type are refused before the function is called.
    `Annotated[str, msgspec.Meta(description=...)]` describes one. A coroutine function runs on the event loop, any other in a
    thread. What it returns goes to the model as it is if it is a text, else as JSON.

    Raises:
        BadInput: It has no docstring, or an argument without an annotation, or one JSON cannot carry.
    """
    name = getattr(function, "__name__", type(function).__name__)
    description = inspect.getdoc(function)
    if not description:
        raise BadInput(f"tool {name!r} has no docstring; a model is told by it what the tool does")
    arguments = _arguments_of(function, name=name)
    (_, schemas) = msgspec.json.schema_components((arguments,), ref_template=ROOT + "{name}")
    schema = {key: value for key, value in schemas.pop(name).items() if key != "title"}

    async def run(given: dict[str, Any]) -> str:
        values = msgspec.structs.asdict(msgspec.convert(given, arguments, strict=False))
        if inspect.iscoroutinefunction(function):
            return _written(await function(**values))
        return _written(await asyncio.to_thread(function, **values))

    return Tool(name=name, description=description, schema={**schema, "$defs": schemas} if schemas else schema, run=run)


def decoded_arguments(text: str) -> dict[str, Any]:
    """Return a call's arguments.

    Raises:
        BadInput: They are no JSON object; a model that was cut off leaves such.
    """
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise BadInput(f"the arguments are no JSON object: {error}") from error


def _arguments_of(function: Callable[..., object], *, name: str) -> type[msgspec.Struct]:
    hints = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        by_name = parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        if parameter.name not in hints or not by_name:
            raise BadInput(f"tool {name!r}: argument {parameter.name!r} needs an annotation, and a name of its own")
        required = parameter.default is inspect.Parameter.empty
        hint = hints[parameter.name]
        fields.append((parameter.name, hint) if required else (parameter.name, hint, parameter.default))
    try:
        made = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.schema_components((made,))
    except TypeError as error:
        raise BadInput(f"tool {name!r}: {error}") from error
    return made


def _written(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# Half a surrogate pair is what Python reads an undecodable byte as; no provider takes one, and no store.
_NO_TEXT: Final = re.compile("[\ud800-\udfff]")
MARK: Final = "\ufffd"


async def returned_by(call: ToolCall, *, tools: Mapping[str, Tool]) -> Returned:
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


async def _output(call: ToolCall, tools: Mapping[str, Tool]) -> str:
    tool = tools.get(call.name)
    if tool is None:
        raise LookupError(f"there is no tool {call.name!r}; there are: {', '.join(tools) or 'none'}")
    try:
        return await tool.run(decoded_arguments(call.arguments))
    except SystemExit as error:
        # Parsers of arguments and scripts end like this. In a task it would end the event loop, and every other turn with it.
        raise RuntimeError(f"the tool wanted to end the process, with code {error.code!r}") from error
