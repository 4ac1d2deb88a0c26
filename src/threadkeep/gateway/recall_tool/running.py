"""One request whose model may recall: what it asks for is found in the client's own thread, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from threadkeep.client.thread import Thread
from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect, Reply
from threadkeep.dialects.base import HiddenTool
from threadkeep.errors import InvalidPointer, ThreadkeepError
from threadkeep.gateway.recall_tool.exchanges import Exchange, Exchanges
from threadkeep.gateway.recall_tool.form import TOOL
from threadkeep.gateway.recordings import Recorded
from threadkeep.items import Item
from threadkeep.recall.tool import ARGUMENT, NOTHING, recalled_text
from threadkeep.threads import parse_pointer
from threadkeep.threads.reader import live_path

# How often a model may look something up before it must answer with what it has.
ROUNDS: Final = 3
UNREADABLE: Final = "Say what to look for in `query`."
ENOUGH: Final = "Nothing more can be recalled in this turn; answer with what you have."


@dataclass(slots=True, kw_only=True)
class Recalling:
    """What one request's answers came to. Made for it, gone with it.

    `body` is what was sent first, `depth` how many links of the client's chain it holds.
    """

    backend: Backend
    dialect: Dialect
    exchanges: Exchanges
    recorded: Recorded
    body: bytes = field(repr=False)
    depth: int
    _items: list[Item] = field(default_factory=list, repr=False)
    _shown: list[Item] = field(default_factory=list, repr=False)
    _rounds: int = 0
    _body: bytes = field(default=b"", repr=False)

    @property
    def form(self) -> HiddenTool:
        return self.dialect.api.make_hidden_tool(TOOL)

    async def answered(self, reply: Reply) -> bytes | None:
        """Take one answer of the provider; return what it is to be asked next, or None where the answer is the client's.

        What a client sees nothing of is durable when None is returned.
        """
        found = self.form.find_calls(reply.items)
        outputs = self.form.make_outputs({call_id: await self._output(arguments) for call_id, arguments in found.calls})
        if not outputs or found.has_others or reply.outcome != "completed" or self._rounds > ROUNDS:
            await self._keep(reply, pending=tuple(outputs))
            return None
        self._rounds += 1
        self._items.extend((*reply.items, *outputs))
        self._shown.extend(reply.items)
        self._body = self._longer(self._body or self.body, (*reply.items, *outputs))
        return self._body

    def _longer(self, body: bytes, items: Sequence[Item]) -> bytes:
        request = self.dialect.split(body)
        if request is None:
            raise AssertionError("what the gateway wrote itself can be read")
        return self.dialect.join(request, [*request.items, *items])

    async def _keep(self, reply: Reply, *, pending: tuple[Item, ...]) -> None:
        """Record what the client sees nothing of, if there is anything."""
        if not self._items and not pending:
            return
        said = self.form.spoken_text([*self._shown, *reply.items])
        exchange = Exchange(depth=self.depth, said=said, items=(*self._items, *reply.items), pending=pending)
        await self.exchanges.keep(await self.recorded(), exchange)

    async def _output(self, arguments: object) -> str:
        if self._rounds >= ROUNDS:
            return ENOUGH
        query = arguments.get(ARGUMENT) if isinstance(arguments, dict) else None
        if not isinstance(query, str) or not query.strip():
            return UNREADABLE
        try:
            thread = Thread(self.backend, (await self.recorded()).thread_id, dialect=self.dialect)
            return await recalled_text(thread, query) if await self._is_within(thread, query) else NOTHING
        except ThreadkeepError as error:
            return f"Nothing can be recalled now ({error.code})."

    async def _is_within(self, thread: Thread, query: str) -> bool:
        """Whether a question stays in its own conversation: a pointer may name any thread of the tenant's."""
        try:
            pointer = parse_pointer(query, within=thread.id)
        except InvalidPointer:
            return True
        path = await live_path(self.backend.store, thread.id, whole=True)
        # Within a fork a pointer without a name means the record on the path, whichever thread wrote it.
        return path.holds(pointer.ordinal) is not None and pointer.thread_id in (thread.id, path.holds(pointer.ordinal))


def first_counted(shown: Reply, first: Reply) -> Reply:
    """Return what the client was shown, with what was counted for the request that the gateway estimated."""
    return replace(shown, input_tokens=first.input_tokens, cached_tokens=first.cached_tokens)
