"""Loads the manifest: sessions as recipes, and cases with the place in a session they come from.

A file a session, in TOML. Unknown keys, missing ones and values of another kind are refused, with the file and the key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec

from threadkeep.errors import BadInput

Form = Literal["single_choice", "short_answer", "abstention", "working_state"]
Speaker = Literal["user", "tool", "call"]
Priority = Literal["critical", "medium"]

CATEGORIES = (
    "prohibition",
    "late constraint",
    "correction",
    "withdrawn",
    "exact binding",
    "scope limit",
    "working state",
    "rare one-off",
    "tool-only",
    "other language",
    "look-alike",
    "never said",
)
WORKING_STATE = "working state"
# Also the version of what `run` and `run-chain` write: a result names it.
VERSION = 1


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a manifest's file; what it does not know it refuses."""


class StepRecipe(Part, frozen=True, kw_only=True):
    """A tool call and its output; `noise_lines` lines of the session's noise stand below the output."""

    tool: str
    arguments: dict[str, Any]
    output: str
    noise_lines: int = 0


class TurnRecipe(Part, frozen=True, kw_only=True):
    """What a user asks and the agent does, and in which hop."""

    hop: int
    user: str
    steps: list[StepRecipe]
    answer: str


class Bundle(Part, frozen=True, kw_only=True):
    """The work under way when a hop ends."""

    hop: int
    file: str
    next_step: str
    blocker: str
    command: str

    def parts(self) -> dict[str, str]:
        return {"file": self.file, "next_step": self.next_step, "blocker": self.blocker, "command": self.command}


class Case(Part, frozen=True, kw_only=True):
    """One question, with what answers it and where that was said.

    Attributes:
        turn: The turn that says it, counted from one; 0 for what nobody says.
        speaker: Who says it there: the user, a tool's output, or a call that uses it.
        evidence: The exact words.
        right, wrong: Of a single choice.
        stale: The wrong option that held before.
        also_said: Other wrong options that the session says.
        hard_fail: Wrong options that would do harm.
        accepted: Of a short answer.
    """

    id: str
    category: str
    priority: Priority
    form: Form
    question: str
    turn: int = 0
    speaker: Speaker = "user"
    evidence: str = ""
    right: str = ""
    wrong: list[str] = []
    stale: str | None = None
    also_said: list[str] = []
    hard_fail: list[str] = []
    accepted: list[str] = []
    abstain_score: float = 0.0
    hard_fail_on_wrong: bool = False


class SessionRecipe(Part, frozen=True, kw_only=True):
    """A session: its turns, the work under way after each hop, what fills its tools' output, and the cases planted in it."""

    id: str
    about: str
    seed: int
    noise: list[str]
    turns: list[TurnRecipe]
    work: list[Bundle]
    cases: list[Case]

    @property
    def hops(self) -> int:
        return max((turn.hop for turn in self.turns), default=0)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Every session, in the order of their files' names."""

    sessions: list[SessionRecipe]

    @property
    def cases(self) -> list[tuple[SessionRecipe, Case]]:
        return [(session, case) for session in self.sessions for case in session.cases]

    def only(self, sessions: Sequence[str]) -> Manifest:
        """Return the manifest of these sessions; of all, if none is named.

        Raises:
            BadInput: There is no such session.
        """
        known = {session.id: session for session in self.sessions}
        for name in sessions:
            if name not in known:
                raise BadInput(f"the manifest has no session {name!r}; it has {', '.join(known)}")
        return Manifest(sessions=[known[name] for name in sessions]) if sessions else self


def load_manifest(folder: Path | None = None) -> Manifest:
    """Return the manifest in `folder`, or the one that comes with threadkeep.

    Raises:
        BadInput: The folder has none, a file is no TOML, or a key is unknown, missing or of another kind; the message names it.
    """
    if folder is None:
        shipped = files("benchmarks.cases").joinpath("manifest")
        texts = {file.name: file.read_text(encoding="utf-8") for file in shipped.iterdir() if file.name.endswith(".toml")}
    elif not folder.is_dir():
        raise BadInput(f"there is no folder {str(folder)!r} with a manifest")
    else:
        texts = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.toml")}
    if not texts:
        raise BadInput(f"the folder {str(folder)!r} holds no .toml file; a manifest has one a session")
    return Manifest(sessions=[_session(name, texts[name]) for name in sorted(texts)])


def _session(name: str, text: str) -> SessionRecipe:
    try:
        return msgspec.convert(tomllib.loads(text), SessionRecipe)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise BadInput(f"{name} is no session of a manifest: {error}") from error
