"""Facts that tests of hooks speak of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from threadkeep.hooks import CommandHook, CompactionFacts, HookEvent, Hooks, SessionFacts, StartSource, Trigger


def compaction(cwd: Path | str = "/srv/app", *, trigger: Trigger = "manual") -> CompactionFacts:
    return CompactionFacts(
        thread_id="ship-it",
        turn_id="3",
        cwd=str(cwd),
        model="gpt-5",
        trigger=trigger,
        reason="user_requested" if trigger == "manual" else "context_limit",
        phase="standalone_turn" if trigger == "manual" else "pre_turn",
        strategy="session",
        tokens_before=9_000,
    )


def committed(cwd: Path | str = "/srv/app", *, trigger: Trigger = "manual") -> CompactionFacts:
    return compaction(cwd, trigger=trigger).complete(
        strategy="extractive", fell_back_from="session", tokens_after=1_200, checkpoint=41
    )


def started(cwd: Path | str = "/srv/app", *, source: StartSource = "compact") -> SessionFacts:
    return SessionFacts(thread_id="ship-it", cwd=str(cwd), model="gpt-5", source=source, checkpoint=41)


def commands(
    event: HookEvent,
    *lines: str | tuple[str, ...],
    timeout_s: float = 60.0,
    timeouts_s: Mapping[str, float] = MappingProxyType({}),
) -> Hooks:
    """Return hooks that run `lines`, called a, b, c and so on. `timeouts_s` gives some of them less time than the others."""
    hooks = Hooks()
    for name, line in zip("abcdef", lines, strict=False):
        hooks = hooks.on(event, CommandHook(command=line, timeout_s=timeouts_s.get(name, timeout_s), name=name))
    return hooks
