"""A model made a voice: what a strategy may ask, patiently, and knowing how much it takes."""

from __future__ import annotations

from holdfast.compaction.drafting import AskRemote, Voice
from holdfast.dialects import Request, dialect_named
from holdfast.llm import ModelReply, RemoteCompaction, RemoteCompactor, ask_patiently, compact_patiently
from holdfast.runtime.orders import CompactionPolicy, Order
from holdfast.tokens import Limits


def voice_of(order: Order, policy: CompactionPolicy, *, limits: Limits) -> Voice | None:
    """Return whom a compaction may ask; None where there is nobody.

    A model that says nothing of its window is taken to have the thread's own.
    """
    model = order.model or policy.model
    if model is None:
        return None
    patience = policy.patience

    async def ask(request: Request) -> ModelReply:
        return await ask_patiently(model, request, attempts=patience.attempts, sleep=patience.sleep, jitter=patience.jitter)

    return Voice(
        name=model.name,
        dialect=dialect_named(model.dialect),
        ask=ask,
        compact=_compacting(model, policy) if isinstance(model, RemoteCompactor) else None,
        window_tokens=model.window_tokens or limits.full,
        own=order.own if order.model is not None else None,
    )


def _compacting(model: RemoteCompactor, policy: CompactionPolicy) -> AskRemote:
    patience = policy.patience

    async def compact(request: Request) -> RemoteCompaction:
        return await compact_patiently(model, request, attempts=patience.attempts, sleep=patience.sleep, jitter=patience.jitter)

    return compact
