"""The order for one compaction, the policy of a store, and the backend that threads with compactions need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from threadkeep.compaction.background import Upkeep
from threadkeep.compaction.fallback import Breaker, Deadline
from threadkeep.compaction.state_budget import StateBudget
from threadkeep.compaction.strategies.strategy import Phase
from threadkeep.compaction.telemetry import CompactionObserver
from threadkeep.dialects import Request
from threadkeep.hooks import Hooks, Trigger
from threadkeep.llm import Model
from threadkeep.llm.models import Models
from threadkeep.llm.retry import RetryPolicy
from threadkeep.threads.backend import ThreadBackend
from threadkeep.tokens import Limits

# The reason of a checkpoint made from a provider's own compaction.
ADOPTED: Final = "provider_compacted"
Reason = Literal["user_requested", "context_limit", "model_downshift", "provider_overflow", "provider_compacted", "background"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A request for one compaction.

    Attributes:
        strategy: None takes the strategy of the policy.
        model: The model to ask; None takes the model of the policy, if it has one.
        own: The thread's own request without its history, if `model` is the thread's own: the draft then uses the warm prefix.
        target: Bound of the new window: tokens (`8000`) or a share of the old one (`10%`).
        focus: A topic that a person wants kept in view.
        limits: The limits of the model of the next request; None takes those of the store.
        fit_tokens: The largest new window with which the next request fits.
        forced: The provider refused the window, so compact it even after little growth.
        room_tokens: The room left in a window that is not full yet: if waiting is cheaper, there is no compaction. None skips
            this check.
        adopting: Make the provider's own compaction in a reply the checkpoint; no model is asked.
        deadline: The latest time for a draft; a turn that waits for this compaction sets it.
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
class DraftBudget:
    """The limit on all requests of one automatic draft.

    Attributes:
        cents: US cents. It applies if the provider reports prices, from the second request to a model on.
    """

    input_tokens: int = 400_000
    output_tokens: int = 16_000
    cents: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """The settings for compactions of a store; an order may override some.

    Attributes:
        model: A model that may be asked about any thread; None leaves only the thread's own.
        prompt: The user's own wording of the instruction.
        state_budget: How large the session state may be, and how its parts share that.
        user_tokens: How many tokens of the user's messages a hand-off quotes; behind a state stand half as many.
        timeout_s: The time limit of one strategy; then the next is tried.
        wait_s: How long a turn that needs room waits for a draft.
        prices: The last price of a draft's token by model name, in millionths of a dollar, if the provider reports it.
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
    observer: CompactionObserver = field(default_factory=CompactionObserver)
    breaker: Breaker = field(default_factory=Breaker)
    cwd: str = "."
    environ: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend(ThreadBackend):
    """The store, clock, models and policy of threads that can be compacted.

    Attributes:
        models: The models for compactions, by name.
        upkeep: The background compactions of all tenants' threads.
    """

    policy: CompactionPolicy = field(default_factory=CompactionPolicy)
    models: Models = field(default_factory=lambda: Models({}))
    upkeep: Upkeep = field(default_factory=Upkeep)
