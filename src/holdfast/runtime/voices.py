"""A model made a voice: what a strategy may ask, patiently, counting what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holdfast.compaction.asking import ANSWER_TOKENS
from holdfast.compaction.drafting import AskRemote, Meter, Voice
from holdfast.dialects import Dialect, Request, dialect_named
from holdfast.errors import ModelRejected
from holdfast.llm import Bounds, Model, ModelReply, RemoteCompaction, RemoteCompactor, ask_patiently, compact_patiently
from holdfast.llm.base import ModelName
from holdfast.llm.provider import EVERY_BOUND
from holdfast.runtime.backend import Backend
from holdfast.runtime.drafting import Speak
from holdfast.runtime.measuring import NamedTurn, request_window
from holdfast.runtime.orders import CompactionPolicy, Order, Patience
from holdfast.thread import History

MOST_ANSWER_TOKENS = 16_000


def model_for(order: Order, policy: CompactionPolicy) -> Model | None:
    """Return whom a compaction asks. What a person names outweighs what is configured, and that the model of a turn."""
    if order.trigger == "auto" and policy.model is not None:
        return policy.model
    return order.model or policy.model


def voice_for(order: Order, backend: Backend) -> Speak | None:
    """Return what gives a compaction its voice; None where there is nobody to ask."""
    model = model_for(order, backend.policy)
    if model is None:
        return None
    own = order.own if model is order.model else None
    window_tokens = request_window(backend, model, otherwise=order.limits or backend.limits)
    return lambda meter: _voice(model, meter, patience=backend.policy.patience, window_tokens=window_tokens, own=own)


def _voice(model: Model, meter: Meter, *, patience: Patience, window_tokens: int, own: Request | None) -> Voice:
    patiently = partial(
        ask_patiently,
        model,
        attempts=patience.attempts,
        sleep=patience.sleep,
        jitter=patience.jitter,
        attempted=partial(_counted, meter),
    )

    async def ask(request: Request) -> ModelReply:
        most = answer_tokens(window_tokens)
        bounded = model.bounded(request, answer_tokens=most) if isinstance(model, Bounds) else request
        try:
            reply = await patiently(bounded)
        except ModelRejected as rejected:
            # A model that can write less than the bound, or a server that calls it otherwise, says so; the draft matters more.
            if bounded is request or not any(name in rejected.reason for name in EVERY_BOUND):
                raise
            reply = await patiently(request)
        meter.heard(reply)
        return reply

    remote = model if isinstance(model, RemoteCompactor) else None
    return Voice(
        name=model.name,
        dialect=dialect_named(model.dialect),
        ask=ask,
        compact=_compacting(remote, meter, patience=patience) if remote else None,
        issuer=remote.issuer if remote else None,
        window_tokens=window_tokens,
        own=own,
    )


def answer_tokens(window_tokens: int) -> int:
    """Return the most a draft may answer: a model that does not stop costs money and time, and no state is as long.

    Thinking counts, so there is room for it. With the largest request that is made it stays within the window.
    """
    return min(MOST_ANSWER_TOKENS, min(ANSWER_TOKENS, window_tokens // 4) + window_tokens // 20)


def any_served_elsewhere(named: Sequence[NamedTurn], model: Model) -> bool:
    """Whether a turn names a model of another provider than this one's."""
    asked = ModelName.read(model.name)
    return any(not asked.is_served_with(ModelName.read(turn.model)) for turn in named)


def holds_foreign_seals(history: History, named: Sequence[NamedTurn], *, model: Model, dialect: Dialect) -> bool:
    """Whether a window holds what another provider than `model`'s signed or encrypted, as far as turns name who was asked.

    Turns are given newest first. What a provider compacted by itself says whose it is, and is shown to nobody else anyway.
    """
    asked = ModelName.read(model.name)
    for entry in history.entries:
        if entry.source is None or dialect.without_sealed(entry.item) is entry.item:
            continue
        by = next((turn.model for turn in named if turn.ordinal <= entry.source.ordinal), None)
        if by is not None and not asked.is_served_with(ModelName.read(by)):
            return True
    return False


def _compacting(model: RemoteCompactor, meter: Meter, *, patience: Patience) -> AskRemote:
    async def compact(request: Request) -> RemoteCompaction:
        made = await compact_patiently(
            model,
            request,
            attempts=patience.attempts,
            sleep=patience.sleep,
            jitter=patience.jitter,
            attempted=partial(_counted, meter),
        )
        meter.input_tokens += made.input_tokens or 0
        meter.output_tokens += made.output_tokens or 0
        meter.cached_tokens += made.cached_tokens or 0
        return made

    return compact


def _counted(meter: Meter, number: int) -> None:
    """Count an attempt, the ones asked again too."""
    meter.calls += 1
