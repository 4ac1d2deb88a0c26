"""Makes the summariser of a compaction: a model with retries, bounds and a meter."""

from __future__ import annotations

from functools import partial

from threadkeep.compaction.backend import Backend, CompactionPolicy, DraftBudget, Order
from threadkeep.compaction.fallback import SummariserFactory
from threadkeep.compaction.strategies.requests import ANSWER_TOKENS, OVER_BUDGET, NotAsked, estimate_request
from threadkeep.compaction.strategies.strategy import AskRemote, Meter, Summariser
from threadkeep.dialects import Dialect, Request, find_dialect
from threadkeep.errors import ModelRejected
from threadkeep.llm import (
    BoundableModel,
    Model,
    ModelReply,
    RemoteCompaction,
    RemoteCompactor,
    RetryPolicy,
)
from threadkeep.threads import History, Pointer
from threadkeep.threads.pressure import find_request_window
from threadkeep.threads.sealed_items import Recipient, find_account, find_foreign_seals

MOST_ANSWER_TOKENS = 16_000
MICRO_USD_IN_A_CENT = 10_000


def choose_model(order: Order, policy: CompactionPolicy) -> Model | None:
    """Return the model for a compaction: the one that a person named, else the configured one, else that of the turn."""
    if order.trigger == "auto" and policy.model is not None:
        return policy.model
    return order.model or policy.model


async def make_summariser(
    order: Order, backend: Backend, history: History, *, thread_id: str, dialect: Dialect
) -> SummariserFactory | None:
    """Return a factory of summarisers for a thread's window; None without a model."""
    model = choose_model(order, backend.policy)
    if model is None:
        return None
    reader = Recipient(model=model.name, issuer=find_account(model))
    return partial(
        _build_summariser,
        model,
        policy=backend.policy,
        # The budget limits automatic compactions only.
        budget=backend.policy.draft_budget if order.trigger == "auto" else None,
        window_tokens=find_request_window(backend, model, otherwise=order.limits or backend.limits),
        own=order.own if model is order.model else None,
        foreign=await find_foreign_seals(reader, history, store=backend.store, thread_id=thread_id, dialect=dialect),
    )


def _build_summariser(
    model: Model,
    meter: Meter,
    *,
    policy: CompactionPolicy,
    budget: DraftBudget | None,
    window_tokens: int,
    own: Request | None,
    foreign: frozenset[Pointer],
) -> Summariser:
    patience = policy.patience
    count = partial(_count_call, meter)

    async def ask(request: Request) -> ModelReply:
        most = answer_tokens(window_tokens)
        if budget is not None:
            most = min(most, budget.output_tokens - (meter.output_tokens or 0))
            price = policy.prices.get(model.name, 0.0)
            expected = (meter.cost_micro_usd or 0) + price * estimate_request(request)
            if most <= 0 or expected > budget.cents * MICRO_USD_IN_A_CENT:
                raise NotAsked(OVER_BUDGET)
        bounded = model.bound(request, answer_tokens=most) if isinstance(model, BoundableModel) else request
        try:
            reply = await patience.run(partial(model.ask, bounded), on_attempt=count)
        except ModelRejected as rejected:
            # A model with a smaller maximum, or a server with another name for the bound, rejects it; ask without the bound.
            if not any(name in rejected.reason for name in bounded.fields.keys() - request.fields.keys()):
                raise
            reply = await patience.run(partial(model.ask, request), on_attempt=count)
        meter.add_reply(reply)
        counted = (reply.input_tokens or 0) + (reply.output_tokens or 0)
        if reply.cost_usd is not None and counted:
            policy.prices[model.name] = reply.cost_usd * 100 * MICRO_USD_IN_A_CENT / counted
        return reply

    remote = model if isinstance(model, RemoteCompactor) else None
    return Summariser(
        name=model.name,
        dialect=find_dialect(model.dialect),
        ask=ask,
        compact=_build_compact(remote, meter, patience=patience) if remote else None,
        issuer=remote.issuer if remote else None,
        window_tokens=window_tokens,
        most_read_tokens=budget.input_tokens if budget is not None else None,
        foreign=foreign,
        own=own,
    )


def answer_tokens(window_tokens: int) -> int:
    """Return the bound on a draft's answer in tokens: a model that does not stop costs money and time.

    Thinking counts, so there is room for it. Together with the largest request the answer fits the window.
    """
    return min(MOST_ANSWER_TOKENS, min(ANSWER_TOKENS, window_tokens // 4) + window_tokens // 20)


def _build_compact(model: RemoteCompactor, meter: Meter, *, patience: RetryPolicy) -> AskRemote:
    async def compact(request: Request) -> RemoteCompaction:
        made = await patience.run(partial(model.compact, request), on_attempt=partial(_count_call, meter))
        meter.add_reply(made)
        return made

    return compact


def _count_call(meter: Meter, number: int) -> None:
    """Count a call; retries count too."""
    meter.calls += 1
