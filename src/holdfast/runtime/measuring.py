"""How full a thread's window is, against the limits of the model that is asked next."""

from __future__ import annotations

from holdfast.runtime.backend import Backend
from holdfast.runtime.reading import last_usage, readable
from holdfast.store import RecordKind, Span
from holdfast.thread import History, LivePath, ReplyBody, TurnBody
from holdfast.tokens import Pressure, measure_pressure


async def pressure_of(backend: Backend, path: LivePath, history: History, *, head_tokens: int, model: str | None) -> Pressure:
    """Return the pressure of a window with what goes out beside it; real usage corrects the estimate."""
    usage = await last_usage(backend.store, path, history.checkpoint)
    baseline = await _first_count(backend, path) if backend.scope == "body_after_prefix" else None
    return measure_pressure(
        limits=backend.limits_for(model),
        estimated=history.tokens + head_tokens,
        calibration=usage,
        scope=backend.scope,
        baseline=baseline,
        body_bytes=sum(len(item.raw) for item in history.items),
    )


async def model_before(backend: Backend, path: LivePath) -> str | None:
    """Return the model of the newest turn that names one."""
    for span in path.spans:
        for record in await backend.store.read(span, kinds={RecordKind.TURN}, newest_first=True, limit=8):
            opened = readable(record, TurnBody)
            if opened is not None and opened.model is not None:
                return opened.model
    return None


async def compacted_since_turn(backend: Backend, path: LivePath) -> int | None:
    """Return the checkpoint a window rests on, if no turn has begun after it."""
    if path.checkpoint is None:
        return None
    for span in path.spans:
        for record in await backend.store.read(span, kinds={RecordKind.TURN}, newest_first=True, limit=1, bodies=False):
            return path.checkpoint.ordinal if record.ordinal < path.checkpoint.ordinal else None
    return path.checkpoint.ordinal


async def _first_count(backend: Backend, path: LivePath) -> int | None:
    """Return what the provider first counted in this window: its prefix, which the scope leaves uncharged."""
    since = path.checkpoint.ordinal if path.checkpoint else 0
    for span in reversed(path.spans):
        if span.stop <= since:
            continue
        own = Span(thread_id=span.thread_id, start=max(span.start, since), stop=span.stop)
        for record in await backend.store.read(own, kinds={RecordKind.REPLY}, limit=8):
            reply = readable(record, ReplyBody)
            if reply is not None and reply.input_tokens:
                return reply.input_tokens
    return None
