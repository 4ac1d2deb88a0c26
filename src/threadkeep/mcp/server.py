"""The MCP server: the official SDK's handlers around the tools and the checkpoints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

from threadkeep import __version__
from threadkeep.errors import BadInput, NotFound, ThreadkeepError
from threadkeep.mcp.checkpoints import MEDIA_TYPE, TEMPLATE, list_checkpoints, read_checkpoint
from threadkeep.mcp.confirming import Confirming, Word
from threadkeep.mcp.desk import Desk
from threadkeep.mcp.instructions import INSTRUCTIONS
from threadkeep.mcp.tools import TOOLS, unknown_tool

Context = ServerRequestContext[Any, Any]
# Whose threads a request is about: decided at the door, never by what the request says.
DeskOf = Callable[[Context], Awaitable[Desk]]


class _AskFirst(Exception):
    """The client is to ask a person and to call again; never leaves this module."""

    def __init__(self, question: InputRequiredResult) -> None:
        super().__init__("ask first")
        self.question = question


class _Refused(Exception):
    """Nobody agreed to a call; never leaves this module."""


def make_server(desk_of: DeskOf, *, read_only: bool = False) -> Server[Any]:
    """Return a server over the threads that `desk_of` says; `read_only` leaves out the tools that write."""
    offered = {name: kind for name, kind in TOOLS.items() if not (read_only and kind.writes)}
    confirming = Confirming()

    async def list_tools(_: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_tool(name) for name in offered])

    async def call_tool(context: Context, call: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        if call.name not in offered:
            raise MCPError(INVALID_PARAMS, str(unknown_tool(call.name)))
        try:
            desk = await desk_of(context)
            ask = _asking(confirming, context, call, trusted=desk.trusts_client)
            return _said(await offered[call.name].run(desk, call.arguments, ask))
        except _AskFirst as asked:
            return asked.question
        except (ThreadkeepError, _Refused) as error:
            return _said(str(error), is_error=True)

    async def list_resources(context: Context, page: PaginatedRequestParams | None) -> ListResourcesResult:
        try:
            found, cursor = await list_checkpoints(await desk_of(context), cursor=page.cursor if page else None)
        except BadInput as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        listed = [
            Resource(uri=each.uri, name=each.name, title=each.title, description=f"In turn {each.turn}.", mime_type=MEDIA_TYPE)
            for each in found
        ]
        return ListResourcesResult(resources=listed, next_cursor=cursor)

    async def list_templates(_: Context, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        described = "One compaction of a thread: what it kept, what it cost, and what the audit found."
        template = ResourceTemplate(
            uri_template=TEMPLATE, name="checkpoint", title="Checkpoint", description=described, mime_type=MEDIA_TYPE
        )
        return ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(context: Context, asked: ReadResourceRequestParams) -> ReadResourceResult:
        try:
            text = await read_checkpoint(await desk_of(context), str(asked.uri))
        except (BadInput, NotFound) as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        return ReadResourceResult(contents=[TextResourceContents(uri=asked.uri, mime_type=MEDIA_TYPE, text=text)])

    return Server(
        "threadkeep",
        version=__version__,
        title="threadkeep",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def _tool(name: str) -> Tool:
    kind = TOOLS[name]
    hints = ToolAnnotations(
        title=kind.title,
        read_only_hint=not kind.writes,
        destructive_hint=False,
        idempotent_hint=name != "note",
        open_world_hint=False,
    )
    return Tool(name=name, title=kind.title, description=kind.does, input_schema=kind.takes, annotations=hints)


def _said(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=is_error)


def _asking(
    confirming: Confirming, context: Context, call: CallToolRequestParams, *, trusted: bool
) -> Callable[[str, str], Awaitable[None]]:
    async def ask(question: str, command: str) -> None:
        """Return where a person agreed; `command` is how they could do it by themselves."""
        word = Word.GIVEN if trusted else await confirming.ask(context, call, question)
        if isinstance(word, InputRequiredResult):
            raise _AskFirst(word)
        if word is Word.REFUSED:
            raise _Refused(f"The user did not agree, and nothing was changed. They can do it themselves: `{command}`.")
        if word is Word.UNASKABLE:
            raise _Refused(
                "Only the user can decide this, and this client has no way to ask them; nothing was changed. "
                f"They can do it themselves: `{command}`."
            )

    return ask
