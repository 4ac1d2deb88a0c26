"""Tools: typed Python functions whose JSON schemas a model is given."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_type_hints

import msgspec

from threadkeep.dialects import ToolCall
from threadkeep.errors import InvalidArgument, InvalidTool
from threadkeep.memory.memory import Memories
from threadkeep.memory.records import Memory
from threadkeep.session.events import Returned

ROOT = "#/$defs/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that a model may call.

    Attributes:
        schema: JSON schema of its arguments, an object.
        run: Called with the decoded arguments; the model reads what it returns, or the error it raises.
    """

    name: str
    description: str
    schema: Mapping[str, object]
    run: Callable[[dict[str, Any]], Awaitable[str]]


def tool_from(function: Callable[..., object]) -> Tool:
    """Make a tool of a function: its name, its docstring, and a schema from its annotations.

    Missing arguments take their defaults; arguments of the wrong type are refused before the function is called.
    `Annotated[str, msgspec.Meta(description=...)]` describes an argument. A coroutine function runs on the event loop, any other
    in a thread. A text result is given to the model as it is, any other as JSON.

    Raises:
        InvalidTool: The function has no docstring, or an argument without an annotation or of a type that JSON does not have.
    """
    name = getattr(function, "__name__", type(function).__name__)
    description = inspect.getdoc(function)
    if not description:
        raise InvalidTool(name, reason="has no docstring; write one, the model reads it as the tool's description")
    arguments = _define_arguments(function, name=name)
    (_, schemas) = msgspec.json.schema_components((arguments,), ref_template=ROOT + "{name}")
    schema = {key: value for key, value in schemas.pop(name).items() if key != "title"}

    async def run(given: dict[str, Any]) -> str:
        values = msgspec.structs.asdict(msgspec.convert(given, arguments, strict=False))
        if inspect.iscoroutinefunction(function):
            return _encode_output(await function(**values))
        return _encode_output(await asyncio.to_thread(function, **values))

    return Tool(name=name, description=description, schema={**schema, "$defs": schemas} if schemas else schema, run=run)


def decode_arguments(text: str) -> dict[str, Any]:
    """Return a call's arguments.

    Raises:
        InvalidArgument: They are not a JSON object, as when the model was cut off.
    """
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise InvalidArgument(
            "arguments", f"the arguments are not a JSON object: {error}; call the tool again with one"
        ) from error


def _define_arguments(function: Callable[..., object], *, name: str) -> type[msgspec.Struct]:
    hints = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        by_name = parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        if parameter.name not in hints or not by_name:
            raise InvalidTool(
                name, reason=f"has an argument {parameter.name!r} without an annotation, or not by name; give it both"
            )
        required = parameter.default is inspect.Parameter.empty
        hint = hints[parameter.name]
        fields.append((parameter.name, hint) if required else (parameter.name, hint, parameter.default))
    try:
        made = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.schema_components((made,))
    except TypeError as error:
        raise InvalidTool(name, reason=f"has an argument of a type that JSON does not have: {error}") from error
    return made


def _encode_output(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# Python decodes an unreadable byte to half a surrogate pair, which neither providers nor stores accept.
_not_text: Final = re.compile("[\ud800-\udfff]")
MARK: Final = "\ufffd"


async def run_tool(call: ToolCall, *, tools: Mapping[str, Tool]) -> Returned:
    """Run one call and return its output.

    An error that the tool raises, `SystemExit` included, becomes its output. `KeyboardInterrupt` and a cancellation end the turn.
    """
    (result,) = await asyncio.gather(_call_tool(call, tools), return_exceptions=True)
    if isinstance(result, BaseException):
        return Returned(call=call, text=replace_non_text(f"error: {type(result).__name__}: {result}"), failed=True)
    return Returned(call=call, text=replace_non_text(result))


def replace_non_text(text: str) -> str:
    """Replace every character that is not valid text, and say so in a last line."""
    repaired, count = _not_text.subn(MARK, text)
    return f"{repaired}\n[{MARK} replaces characters that are not valid text, {count} times]" if count else text


async def _call_tool(call: ToolCall, tools: Mapping[str, Tool]) -> str:
    tool = tools.get(call.name)
    if tool is None:
        raise LookupError(f"there is no tool {call.name!r}; there are: {', '.join(tools) or 'none'}")
    try:
        return await tool.run(decode_arguments(call.arguments))
    except SystemExit as error:
        # Argument parsers raise this. In a task it would end the event loop, and every other turn with it.
        raise RuntimeError(f"the tool tried to end the process with code {error.code!r}") from error


HITS = 8
NOTHING = "No memory matches."


def memory_tools(memory: Memories) -> list[Callable[..., object]]:
    """Return the tools. They only read; a memory counts as used when an answer cites it."""

    async def memory_search(
        query: Annotated[str, msgspec.Meta(description="Words to look for.")],
    ) -> str:
        """Search the memories of earlier work with these people. Cite what you use as [memory:NAME]."""
        found = await memory.search(query, limit=HITS)
        return "\n".join(f"{each.id} ({each.kind}) {each.text}" for each in found) or NOTHING

    async def memory_read(
        name: Annotated[str, msgspec.Meta(description="A memory's name, such as m0123456789.")],
    ) -> str:
        """Return one memory and the records it comes from."""
        found = await memory.read(name.strip().removeprefix("^"))
        return NOTHING if found is None else _render_memory(found)

    return [memory_search, memory_read]


def _render_memory(memory: Memory) -> str:
    origin = f"said in {', '.join(memory.sources)}" if memory.sources else "written by a person"
    return f"{memory.id} ({memory.kind}) {memory.text}\n{origin}"
