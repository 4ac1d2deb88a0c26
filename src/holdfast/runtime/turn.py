"""One turn of an agent: its input is durable before anything else happens, and it is never lost to a compaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from holdfast.errors import CompactionError, Conflict
from holdfast.runtime.reports import CompactionReport, Window


@dataclass(frozen=True, slots=True)
class Head:
    """What goes out with every request beside the history; it counts against the window and is never compacted."""

    system: str | None = None
    tools: Sequence[Mapping[str, Any]] = ()


class TurnThread(Protocol):
    """What a turn asks of its thread."""

    async def record(self, items: Sequence[Mapping[str, Any]], *, model: str | None = None) -> None: ...

    async def window(self, *, head: Head | None = None, trouble: str | None = None) -> Window: ...

    async def compact(self) -> CompactionReport: ...

    async def record_usage(self, *, input_tokens: int, output_tokens: int, head: Head | None) -> None: ...


class TurnScope:
    """`async with thread.turn(incoming) as turn:`; see `Thread.turn`."""

    def __init__(
        self, thread: TurnThread, incoming: Sequence[Mapping[str, Any]], *, model: str | None, head: Head | None
    ) -> None:
        self._thread = thread
        self._incoming = incoming
        self._model = model
        self._head = head

    async def __aenter__(self) -> TurnScope:
        await self._thread.record(self._incoming, model=self._model)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    async def window(self) -> Window:
        """Return what to send next, compacting first if the hard limit is reached.

        A compaction that fails changes nothing and loses nothing: the best window there is comes back, and `trouble`
        says what went wrong.
        """
        window = await self._thread.window(head=self._head)
        if not window.pressure.must_compact:
            return window
        try:
            await self._thread.compact()
        except (CompactionError, Conflict) as error:
            return await self._thread.window(head=self._head, trouble=str(error))
        return await self._thread.window(head=self._head)

    async def record(self, items: Sequence[Mapping[str, Any]], *, usage: Mapping[str, int] | None = None) -> None:
        """Record what the model or a tool produced; `usage` (`input_tokens`, `output_tokens`) sharpens the estimates."""
        if usage and usage.get("input_tokens"):
            await self._thread.record_usage(
                input_tokens=usage["input_tokens"], output_tokens=usage.get("output_tokens", 0), head=self._head
            )
        await self._thread.record(items)
