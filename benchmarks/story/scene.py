"""The context of a tool call: the checkout, the subject of the turn, and the random generator."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from benchmarks.story.checkout import Tree
from benchmarks.story.session import CWD, Step
from benchmarks.story.words import exit_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where a step happens. `scale` makes logs and listings longer; 1 is an everyday one."""

    rng: Random
    tree: Tree
    noun: str
    path: str
    scale: int = 1

    def count(self, low: int, high: int) -> int:
        """Return how many lines to print."""
        return self.rng.randrange(low, high) * self.scale


def command(scene: Scene, cmd: str, body: str, *, code: int = 0, about_seconds: float = 0.4) -> Step:
    """Return a shell command and its output as one step."""
    took = f"{about_seconds * scene.rng.uniform(0.5, 2.0):.1f} s"
    return Step(tool="exec_command", arguments={"cmd": cmd, "workdir": CWD}, output=exit_text(body, code=code, took=took))
