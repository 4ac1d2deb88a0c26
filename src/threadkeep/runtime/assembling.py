"""From settings to a backend: limits, models, hooks and the policy compactions follow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import cast

from threadkeep.compaction.budget import StateBudget
from threadkeep.hooks import Hooks, hooks_from
from threadkeep.runtime.backend import Backend, Backing, Redact
from threadkeep.runtime.clock import Clock
from threadkeep.runtime.config import Config
from threadkeep.runtime.models import Models
from threadkeep.runtime.orders import CompactionPolicy, DraftBudget
from threadkeep.runtime.telemetry import installed_observer
from threadkeep.thread import Persistence
from threadkeep.tokens import Limits, Scope


def backend_of(
    config: Config,
    store: Backing,
    *,
    clock: Clock,
    environ: Mapping[str, str],
    redact: Redact | None = None,
    hooks: Hooks | None = None,
) -> Backend:
    """Return the outside world of a store's threads.

    Raises:
        BadInput: A hook is configured in a way that cannot be run.
        UnknownModel: `compact_model` names no model that can be asked.
    """
    models = Models(environ)
    scope = cast(Scope, config.model_auto_compact_token_limit_scope)
    policy = CompactionPolicy(
        strategy=config.compact_strategy,
        model=models.named(config.compact_model) if config.compact_model else None,
        prompt=config.compact_prompt,
        user_tokens=config.compact_user_message_tokens,
        state_budget=StateBudget(
            tokens=config.compact_state_tokens,
            messages=config.compact_state_messages_percent,
            findings=config.compact_state_findings_percent,
            handoff=config.compact_state_handoff_percent,
            evidence=config.compact_state_evidence_percent,
            drafted=config.compact_state_drafted_percent,
        ),
        timeout_s=config.compact_timeout_s,
        wait_s=config.compact_wait_s,
        draft_budget=DraftBudget(
            input_tokens=config.compact_draft_input_tokens,
            output_tokens=config.compact_draft_output_tokens,
            cents=config.compact_draft_cents,
        ),
        hooks=hooks_from(config.hooks) + (hooks or Hooks()),
        observer=installed_observer(),
        cwd=str(Path.cwd()),
        environ=dict(environ),
    )
    return Backend(
        store=store,
        clock=clock,
        limits=_limits(config, config.model_context_window, scope=scope),
        holder=f"{os.getpid()}-{clock.now_ms():x}-{id(store):x}",
        persistence=Persistence(config.persistence),
        redact=redact,
        policy=policy,
        models=models,
        limits_by_model={name: _limits(config, window, scope=scope) for name, window in config.model_windows.items()},
        scope=scope,
        of_window=partial(_limits, config, scope=scope),
    )


def _limits(config: Config, window: int, *, scope: Scope) -> Limits:
    return Limits.of_window(
        window,
        auto_limit=config.model_auto_compact_token_limit,
        soft_limit=config.model_soft_compact_token_limit,
        scope=scope,
    )
