"""The order for one compaction, the policy of a store, and the backend that threads with compactions need."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final, Literal

from threadkeep.compaction.background import Upkeep
from threadkeep.compaction.budget import StateBudget
from threadkeep.compaction.engine import Phase
from threadkeep.compaction.fallback import Breaker, Deadline
from threadkeep.compaction.telemetry import CompactionObserver, Unobserved
from threadkeep.dialects import Request
from threadkeep.hooks import Hooks, Trigger
from threadkeep.llm import Model
from threadkeep.llm.models import Models
from threadkeep.llm.retry import Jitter, Sleep
from threadkeep.threads.backend import ThreadBackend
from threadkeep.tokens import Limits

# Why a checkpoint was made of what a provider compacted by itself.
ADOPTED: Final = "provider_compacted"
Reason = Literal["user_requested", "context_limit", "model_downshift", "provider_overflow", "provider_compacted", "background"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One compaction, asked for.

    Attributes:
        strategy: None takes the policy's.
        model: Whom to ask; None takes the policy's, if it has one.
        own: The thread's own request beside its history, where `model` is the thread's own: it is then asked on its warm prefix.
        target: Bound of the new window: tokens (`8000`) or a share of the old one (`10%`).
        focus: What a person wants kept in view.
        limits: Of the model that is asked next; None takes the store's.
        fit_tokens: What the new window may hold at most for the next request to fit.
        forced: The provider refused the window as it is; too little growth is then no reason to leave it.
        room_tokens: How much may still come before the window is full, where nothing calls for a compaction yet: where waiting
            is cheaper, none is made. None is made whatever it costs.
        adopting: What the provider compacted by itself in an answer is made the checkpoint; nobody is asked.
        deadline: By when a draft must be there; a turn that waits for this compaction sets it.
    """

    strategy: str | None = None
    model: Model | None = None
    own: Request | None = None
    target: str | None = None
    focus: str | None = None
    dry_run: bool = False
    trigger: Trigger = "manual"
    phase: Phase = "standalone_turn"
    reason: Reason = "user_requested"
    limits: Limits | None = None
    fit_tokens: int | None = None
    forced: bool = False
    room_tokens: int | None = None
    adopting: bool = False
    deadline: Deadline = field(default_factory=Deadline, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a model is asked again when that may help, and what waits in between."""

    attempts: int = 4
    sleep: Sleep = asyncio.sleep
    jitter: Jitter = random.random


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftBudget:
    """What a draft that no person asked for may cost, all its requests together.

    Attributes:
        cents: US cents. It counts where a provider says what it charges: from the second request to a model on.
    """

    input_tokens: int = 400_000
    output_tokens: int = 16_000
    cents: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """How compactions of a store are made, where nothing else is said.

    Attributes:
        model: A model that may be asked about any thread; None leaves it to whoever has the thread's own.
        prompt: The user's own wording of the instruction.
        state_budget: How large the session state may be, and how its parts share that.
        user_tokens: How many tokens of the user's messages a hand-off quotes; behind a state stand half as many.
        timeout_s: How long one strategy may take before the next is tried.
        wait_s: How long a turn that needs the room waits for a draft; then none is waited for any more.
        prices: What a token of a draft cost last by the name of the model, in millionths of a dollar, where its provider said so.
        cwd: The working directory hooks run in.
        environ: The environment of hooks that are commands, whole.
    """

    strategy: str = "default"
    model: Model | None = None
    prompt: str | None = None
    user_tokens: int = 20_000
    state_budget: StateBudget = field(default_factory=StateBudget)
    timeout_s: float = 300
    wait_s: float = 20
    draft_budget: DraftBudget = field(default_factory=DraftBudget)
    prices: dict[str, float] = field(default_factory=dict)
    patience: RetryPolicy = field(default_factory=RetryPolicy)
    hooks: Hooks = field(default_factory=Hooks)
    observer: CompactionObserver = field(default_factory=Unobserved)
    breaker: Breaker = field(default_factory=Breaker)
    cwd: str = "."
    environ: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend(ThreadBackend):
    """The outside world of a thread that can be compacted, handed in once.

    Attributes:
        models: The models that a compaction may ask, by name.
        upkeep: Compactions in the background, of every tenant's threads.
    """

    policy: CompactionPolicy = field(default_factory=CompactionPolicy)
    models: Models = field(default_factory=lambda: Models({}))
    upkeep: Upkeep = field(default_factory=Upkeep)
