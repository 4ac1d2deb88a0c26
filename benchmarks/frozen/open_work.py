"""What is under way when this family's sessions are compacted. Frozen: see the package's docstring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.frozen.lines import Domain
from benchmarks.frozen.tools import Toolset
from benchmarks.retention.open_work import Part
from benchmarks.story.session import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A card in hand: the steps that show it, and what can be asked about it."""

    label: str
    steps: tuple[Step, ...]
    parts: tuple[Part, ...]


def make_card(rng: Random, *, number: int, work: Domain, tools: Toolset, slug: str) -> Card:
    """Return the work on card `number`; no two cards share a value."""
    label = f"card {number:03d}"

    def four(templates: Sequence[str]) -> tuple[str, str, str, str]:
        template = rng.choice(templates)
        one, two, three, last = (
            template.format(s=slug, k=200_000 + number * 1_000 + ending) for ending in rng.sample(range(100, 1_000), 4)
        )
        return one, two, three, last

    files = four([path.replace("{s}", "{s}_{k}") for path in work.files])
    next_steps, blockers, commands = four(work.todo), four(work.blockers), four(work.commands)
    parts = (
        Part(name="file", value=files[0], question=f"In which file was the change for {label} left half done?", likes=files[1:]),
        Part(name="next step", value=next_steps[0], question=f"What comes next on {label}?", likes=next_steps[1:]),
        Part(name="blocker", value=blockers[0], question=f"What is {label} stuck on?", likes=blockers[1:]),
        Part(name="command", value=commands[0], question=f"How does one reproduce the failure of {label}?", likes=commands[1:]),
    )
    todo = [(f"{label}: find the cause", "completed"), (next_steps[0], "in_progress"), ("tell the others", "pending")]
    steps = (
        tools.planned(todo),
        tools.edited(files[0], old="    pass", new=f"    raise NotImplementedError('{label}')"),
        tools.ran(commands[0], f"running 1 check for {label}\n{blockers[0]}\n1 failed", code=1),
    )
    return Card(label=label, steps=steps, parts=parts)
