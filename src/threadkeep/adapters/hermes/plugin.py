"""The engine as a subclass of the host's own class; importable where Hermes is."""

from __future__ import annotations

import weakref

from agent.context_engine import ContextEngine

from threadkeep.adapters.hermes.engine import Engine

_live: weakref.WeakSet[HermesEngine] = weakref.WeakSet()


class HermesEngine(Engine, ContextEngine):  # type: ignore[misc]  # the host's class, which the type checker cannot see
    """threadkeep's engine in a running Hermes."""

    def on_session_start(self, session_id: str, **kwargs: object) -> None:
        super().on_session_start(session_id, **kwargs)
        _live.add(self)


def show_figures(raw_args: str = "") -> str:
    """Return the figures of every session of this process, for people."""
    lines: list[str] = []
    for status in sorted((engine.get_status() for engine in _live), key=lambda status: str(status["session_id"])):
        last = status["last_compaction"]
        lines.append(f"session {status['session_id']}, thread {status['thread']}")
        lines.append(
            f"  context {status['last_prompt_tokens']:,} of {status['context_length']:,} tokens,"
            f" compacts at {status['threshold_tokens']:,}; {status['compression_count']} compactions"
        )
        if last:
            lines.append(
                f"  last: {last['tokens_before']:,} to {last['tokens_after']:,} tokens ({last['strategy']},"
                f" {last['model_calls']} model calls); {last['required']} required, {last['kept'] + last['repaired']} kept"
            )
        if status["trouble"]:
            lines.append(f"  trouble: {status['trouble']}")
    return "\n".join(lines) or "threadkeep is registered; no session uses it yet"
