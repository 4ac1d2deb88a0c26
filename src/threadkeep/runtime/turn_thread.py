"""What a turn asks of its thread, and what it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from threadkeep.items import Item, View
from threadkeep.llm.base import Model
from threadkeep.runtime.deadline import Deadline
from threadkeep.runtime.head import Head
from threadkeep.runtime.mailbox import Choose, TurnOver
from threadkeep.runtime.orders import Order
from threadkeep.runtime.reports import CompactionReport, Window
from threadkeep.runtime.turn_lease import TurnLease
from threadkeep.thread import History
from threadkeep.thread.mailbox import Mail, Mailbox
from threadkeep.thread.phases import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A turn that was opened or is gone on with.

    Attributes:
        number: Its number; 0 where nobody has asked for anything yet.
        at: The ordinal it begins at.
        by_person: A person's input opened it just now.
        under_way: Somebody asked for it, and it is not over: false where nobody did, or its answer was there before.
    """

    number: int
    at: int
    by_person: bool
    under_way: bool
    progress: Progress


class TurnThread(Protocol):
    """What a turn asks of its thread."""

    def turn_lease(self) -> TurnLease: ...

    async def open_turn(self, items: Sequence[Mapping[str, Any]], *, model: str | None, issuer: str | None) -> Opened: ...

    async def record(self, items: Sequence[Mapping[str, Any]], *, model: str | None = None) -> None: ...

    async def window(
        self,
        *,
        head: Head | None = None,
        model: str | Model | None = None,
        issuer: str | None = None,
        trouble: str | None = None,
        to_send: bool = False,
    ) -> Window: ...

    async def history(self) -> History: ...

    async def mail(self) -> Mailbox: ...

    async def take_mail(self, choose: Choose) -> tuple[Mail, ...]: ...

    async def end_turn(self, over: TurnOver) -> None: ...

    def seen(self, items: Sequence[Mapping[str, Any] | Item]) -> list[tuple[Item, View]]: ...

    async def carry_out(self, order: Order, *, head: Head | None = None) -> CompactionReport: ...

    def compact_beside(self, order: Order, *, tokens: int, head: Head | None = None) -> None: ...

    async def upkeep_is_over(self, deadline: Deadline | None = None) -> bool: ...

    @property
    def draft_wait_s(self) -> float: ...

    async def last_model(self) -> str | None: ...

    @property
    def id(self) -> str: ...

    async def started_anew(self, *, model: str | None) -> str | None: ...

    async def record_usage(
        self, *, input_tokens: int, output_tokens: int, head: Head | None, model: str | None, issuer: str | None
    ) -> None: ...
