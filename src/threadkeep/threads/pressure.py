"""Pressure: how full a thread's window is against the limits of the model that is asked next."""

from __future__ import annotations

from threadkeep.llm.base import Model, ModelName
from threadkeep.store import Record, RecordKind, Span
from threadkeep.threads import AskedBody, History, LivePath, ReplyBody, TurnBody
from threadkeep.threads.backend import ThreadBackend
from threadkeep.threads.reader import (
    find_last_usage,
    iterate_records,
    load_checkpoint,
    load_context_body,
    load_live_path,
    load_replies,
    read_body,
)
from threadkeep.threads.summary import measure_window
from threadkeep.tokens import Limits, Pressure, estimate_bytes, measure_pressure

# How many turns back the last asked model is looked for, and how many are read at once.
TURNS_AT_MOST, TURNS_AT_ONCE = 1_000, 32
# Records that name the model that is asked.
NAMING = frozenset({RecordKind.TURN, RecordKind.CONTEXT})


def find_named_limits(backend: ThreadBackend, name: str | None) -> Limits | None:
    """Return a model's limits by its name, with or without its provider; None if unknown."""
    names = [] if name is None else [name, ModelName.parse(name).model]
    return next((backend.find_limits(each) for each in names if backend.has_limits_for(each)), None)


def find_model_limits(backend: ThreadBackend, model: Model, *, otherwise: Limits) -> Limits:
    """Return the limits of a window for `model`: the configured ones, or the model's own if they are smaller."""
    known = find_named_limits(backend, model.name) or otherwise
    said = backend.of_window(model.window_tokens) if model.window_tokens is not None else known
    return said if said.full < known.full else known


def find_window_limits(backend: ThreadBackend, model: str | Model | None) -> Limits:
    """Return the limits of a window that goes to `model` next."""
    if model is None or isinstance(model, str):
        return find_named_limits(backend, model) or backend.limits
    return find_model_limits(backend, model, otherwise=backend.limits)


def find_request_window(backend: ThreadBackend, model: Model, *, otherwise: Limits) -> int:
    """Return how many tokens one request to `model` may hold: by the model itself, else by its name, else `otherwise`."""
    return model.window_tokens or (find_named_limits(backend, model.name) or otherwise).full


async def measure_thread_pressure(
    backend: ThreadBackend, path: LivePath, history: History, *, head_tokens: int, model: str | Model | None
) -> Pressure:
    """Return the pressure of a window and its head; real usage corrects the estimate."""
    usage = await find_last_usage(backend.store, path, history.checkpoint)
    baseline = await _find_first_count(backend, path) if backend.scope == "body_after_prefix" else None
    return measure_pressure(
        limits=find_window_limits(backend, model),
        estimated=history.tokens + head_tokens,
        calibration=usage,
        scope=backend.scope,
        baseline=baseline,
        body_bytes=sum(len(item.raw) for item in history.items),
    )


async def measure_recorded_pressure(backend: ThreadBackend, thread_id: str) -> Pressure:
    """Return the pressure of a thread as it is recorded, with what its client sent beside it, for the model asked last.

    Raises:
        StoreCorrupt: The newest checkpoint cannot be read.
    """
    store = backend.store
    row = await store.get(thread_id)
    path = await load_live_path(store, thread_id, stop=row.next)
    checkpoint = await load_checkpoint(store, path.checkpoint) if path.checkpoint else None
    beside = await load_context_body(store, thread_id, stop=row.next)
    head = estimate_bytes(sum(map(len, (*beside.fields.values(), *beside.head)))) if beside is not None else 0
    return measure_pressure(
        limits=await find_recorded_limits(backend, thread_id),
        estimated=await measure_window(store, row) + head,
        calibration=await find_last_usage(store, path, checkpoint),
    )


async def find_recorded_limits(backend: ThreadBackend, thread_id: str) -> Limits:
    """Return the limits of the model that a thread asked last: the configured ones, else those of the window it was told."""
    path = await load_live_path(backend.store, thread_id, whole=True)
    named = find_named_limits(backend, await find_last_model(backend, path))
    if named is not None:
        return named
    for span in path.spans:
        for record in await load_replies(backend.store, span, most=1, newest_first=True):
            reply = read_body(record, ReplyBody)
            return backend.of_window(reply.window) if reply is not None and reply.window else backend.limits
    return backend.limits


async def find_last_model(backend: ThreadBackend, path: LivePath) -> str | None:
    """Return the model that was asked last, if a turn names one."""
    last = await find_last_asked(backend, path)
    return last.model if last is not None else None


async def find_last_asked(backend: ThreadBackend, path: LivePath) -> AskedBody | None:
    """Return the model and account that were asked last, if a record names them."""
    left = TURNS_AT_MOST
    async for record in iterate_records(backend.store, path.spans, kinds=NAMING, newest_first=True, page=TURNS_AT_ONCE):
        left -= 1
        asked = read_asked(record)
        if asked is not None and asked.model is not None:
            return asked
        if left == 0:
            break
    return None


def read_asked(record: Record) -> AskedBody | None:
    """Return the model and account that a record names; None if it names none."""
    if record.kind is RecordKind.TURN:
        opened = read_body(record, TurnBody)
        asked = None if opened is None else AskedBody(model=opened.model, issuer=opened.issuer)
    else:
        asked = read_body(record, AskedBody)
    return asked if asked is not None and (asked.model or asked.issuer) else None


async def _find_first_count(backend: ThreadBackend, path: LivePath) -> int | None:
    """Return the provider's first count of this window: its prefix, which the scope leaves out."""
    since = path.checkpoint.ordinal if path.checkpoint else 0
    for span in reversed(path.spans):
        if span.stop <= since:
            continue
        own = Span(thread_id=span.thread_id, start=max(span.start, since), stop=span.stop)
        for record in await load_replies(backend.store, own, most=8):
            reply = read_body(record, ReplyBody)
            if reply is not None and reply.input_tokens:
                return reply.input_tokens
    return None
