"""How full a thread's window is, against the limits of the model that is asked next."""

from __future__ import annotations

from threadkeep.llm.base import Model, ModelName
from threadkeep.store import Record, RecordKind, Span
from threadkeep.threads import AskedBody, History, LivePath, ReplyBody, TurnBody
from threadkeep.threads.backend import ThreadBackend
from threadkeep.threads.reader import answers_in, last_usage, readable
from threadkeep.tokens import Limits, Pressure, measure_pressure

# How far back it is looked for who was asked: most threads say so with every turn, and one that never does is not read whole.
TURNS_AT_FIRST = 8
TURNS_AT_MOST = 1_000
# Whose records say who is asked.
NAMING = frozenset({RecordKind.TURN, RecordKind.CONTEXT})


def limits_named(backend: ThreadBackend, name: str | None) -> Limits | None:
    """Return what is known of a model's limits, by its name as it is or without its provider; None where nobody said."""
    names = [] if name is None else [name, ModelName.parse(name).model]
    return next((backend.limits_for(each) for each in names if backend.knows_window_of(each)), None)


def limits_of(backend: ThreadBackend, model: Model, *, otherwise: Limits) -> Limits:
    """Return how large a thread's window may grow with `model` as its own.

    What is configured is the user's word for it; a model that says it takes less is believed.
    """
    known = limits_named(backend, model.name) or otherwise
    said = backend.of_window(model.window_tokens) if model.window_tokens is not None else known
    return said if said.full < known.full else known


def limits_with(backend: ThreadBackend, model: str | Model | None) -> Limits:
    """Return the limits of a window that goes to `model` next; by its name alone it is known only as others listed it."""
    if model is None or isinstance(model, str):
        return limits_named(backend, model) or backend.limits
    return limits_of(backend, model, otherwise=backend.limits)


def request_window(backend: ThreadBackend, model: Model, *, otherwise: Limits) -> int:
    """Return what one request to `model` may hold: as it says itself, else as is known of its name, else as `otherwise`."""
    return model.window_tokens or (limits_named(backend, model.name) or otherwise).full


async def pressure_of(
    backend: ThreadBackend, path: LivePath, history: History, *, head_tokens: int, model: str | Model | None
) -> Pressure:
    """Return the pressure of a window with what goes out beside it; real usage corrects the estimate."""
    usage = await last_usage(backend.store, path, history.checkpoint)
    baseline = await _first_count(backend, path) if backend.scope == "body_after_prefix" else None
    return measure_pressure(
        limits=limits_with(backend, model),
        estimated=history.tokens + head_tokens,
        calibration=usage,
        scope=backend.scope,
        baseline=baseline,
        body_bytes=sum(len(item.raw) for item in history.items),
    )


async def model_before(backend: ThreadBackend, path: LivePath) -> str | None:
    """Return the model that was asked last, as far as turns name one."""
    last = await asked_last(backend, path)
    return last.model if last is not None else None


async def asked_last(backend: ThreadBackend, path: LivePath) -> AskedBody | None:
    """Return who was asked last, as far as turns, and who goes on with them, name a model."""
    for most in (TURNS_AT_FIRST, TURNS_AT_MOST):
        for span in path.spans:
            records = await backend.store.read(span, kinds=NAMING, newest_first=True, limit=most)
            named = (asked for record in records if (asked := asked_in(record)) is not None and asked.model is not None)
            if (newest := next(named, None)) is not None:
                return newest
    return None


def asked_in(record: Record) -> AskedBody | None:
    """Return whom a record says is asked from there on; None where it says nothing about that."""
    if record.kind is RecordKind.TURN:
        opened = readable(record, TurnBody)
        asked = None if opened is None else AskedBody(model=opened.model, issuer=opened.issuer)
    else:
        asked = readable(record, AskedBody)
    return asked if asked is not None and (asked.model or asked.issuer) else None


async def _first_count(backend: ThreadBackend, path: LivePath) -> int | None:
    """Return what the provider first counted in this window: its prefix, which the scope leaves uncharged."""
    since = path.checkpoint.ordinal if path.checkpoint else 0
    for span in reversed(path.spans):
        if span.stop <= since:
            continue
        own = Span(thread_id=span.thread_id, start=max(span.start, since), stop=span.stop)
        for record in await answers_in(backend.store, own, most=8):
            reply = readable(record, ReplyBody)
            if reply is not None and reply.input_tokens:
                return reply.input_tokens
    return None
