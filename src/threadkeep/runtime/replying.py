"""A provider's answer, written down beside the history of a thread whose host will show it with its next request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from threadkeep.runtime.recording import append_beside
from threadkeep.runtime.threadkeep import Threadkeep
from threadkeep.store import RecordKind
from threadkeep.thread import ReplyBody, encode_body


async def record_reply(
    tk: Threadkeep,
    thread_id: str,
    items: Sequence[Mapping[str, Any]],
    *,
    estimated_tokens: int,
    input_tokens: int | None,
    output_tokens: int | None,
) -> None:
    """Write down what was answered to a request estimated at `estimated_tokens`, and what the provider counted for it.

    It is not part of the window until the host shows it; the counts correct later estimates. Durable when it returns.

    Raises:
        ThreadNotFound: There is no such thread.
        InvalidItem: One of the items is not of the thread's dialect.
    """
    thread = await tk.find(thread_id)
    backend = tk.backend
    raws = [thread.dialect.parse(dict(item)).raw for item in items]
    body = ReplyBody(
        items=[msgspec.Raw(backend.redact(raw) if backend.redact else raw) for raw in raws],
        outcome="completed",
        estimated_tokens=estimated_tokens,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )
    await append_beside(backend, thread.id, RecordKind.REPLY, encode_body(body), tokens=output_tokens or 0)
