"""One turn of an agent: its input is durable before anything else happens, and it is never lost to a compaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from holdfast.errors import CompactionError, CompactionStopped, Conflict, ModelError
from holdfast.llm.base import Model
from holdfast.runtime.orders import Order
from holdfast.runtime.reports import CompactionReport, Window


@dataclass(frozen=True, slots=True)
class Head:
    """What goes out with every request beside the history; it counts against the window and is never compacted."""

    system: str | None = None
    tools: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What hooks want said before a turn's input, and why the turn is to end, if it is."""

    items: tuple[Mapping[str, Any], ...] = ()
    stopped_by: str | None = None


class TurnThread(Protocol):
    """What a turn asks of its thread."""

    async def record(self, items: Sequence[Mapping[str, Any]], *, model: str | None = None) -> None: ...

    async def window(self, *, head: Head | None = None, model: str | None = None, trouble: str | None = None) -> Window: ...

    async def carry_out(self, order: Order, *, head: Head | None = None) -> CompactionReport: ...

    async def last_model(self) -> str | None: ...

    @property
    def id(self) -> str: ...

    async def started_anew(self, *, model: str | None) -> Start: ...

    async def record_usage(self, *, input_tokens: int, output_tokens: int, head: Head | None) -> None: ...


class TurnScope:
    """`async with thread.turn(incoming) as turn:`; see `Thread.turn`."""

    def __init__(
        self, thread: TurnThread, incoming: Sequence[Mapping[str, Any]], *, model: str | Model | None, head: Head | None
    ) -> None:
        self._thread = thread
        self._incoming = incoming
        self._model = None if model is None or isinstance(model, str) else model
        self._model_name = model if model is None or isinstance(model, str) else model.name
        self._head = head
        self._switched_from: str | None = None
        self._answered = False

    async def __aenter__(self) -> TurnScope:
        """Record the input, after what SessionStart hooks add if the thread was compacted since its last turn began.

        Raises:
            CompactionStopped: Such a hook wants the turn to end; the input is recorded all the same.
        """
        before = await self._thread.last_model() if self._model_name else None
        self._switched_from = before if before != self._model_name else None
        start = Start()
        try:
            start = await self._thread.started_anew(model=self._model_name)
        finally:
            await self._thread.record([*start.items, *self._incoming], model=self._model_name)
        if start.stopped_by is not None:
            raise CompactionStopped(self._thread.id, event="SessionStart", reason=start.stopped_by)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    async def window(self) -> Window:
        """Return what to send next, compacting first if the hard limit of this turn's model is reached.

        A compaction that fails changes nothing and loses nothing: the best window there is comes back, and `trouble`
        says what went wrong.

        Raises:
            CompactionStopped: A hook wants the turn to end; its input is recorded.
        """
        window = await self._thread.window(head=self._head, model=self._model_name)
        if not window.pressure.must_compact:
            return window
        trouble: str | None = None
        try:
            await self._thread.carry_out(self._order(window), head=self._head)
        except CompactionStopped:
            raise
        except (CompactionError, Conflict, ModelError) as error:
            trouble = str(error)
        return await self._thread.window(head=self._head, model=self._model_name, trouble=trouble)

    def _order(self, window: Window) -> Order:
        """Return the compaction a full window calls for; before the first answer it stands in front of the turn."""
        return Order(
            model=self._model,
            trigger="auto",
            phase="mid_turn" if self._answered else "pre_turn",
            reason="model_downshift" if self._switched_from is not None and not self._answered else "context_limit",
        )

    async def record(self, items: Sequence[Mapping[str, Any]], *, usage: Mapping[str, int] | None = None) -> None:
        """Record what the model or a tool produced; `usage` (`input_tokens`, `output_tokens`) sharpens the estimates."""
        self._answered = True
        if usage and usage.get("input_tokens"):
            await self._thread.record_usage(
                input_tokens=usage["input_tokens"], output_tokens=usage.get("output_tokens", 0), head=self._head
            )
        await self._thread.record(items)
