"""What a compaction needs beside a thread's backend: the policy, models by name, background work."""

from __future__ import annotations

from dataclasses import dataclass, field

from threadkeep.compaction.background import Upkeep
from threadkeep.compaction.order import CompactionPolicy
from threadkeep.llm.models import Models
from threadkeep.threads.backend import ThreadBackend


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
