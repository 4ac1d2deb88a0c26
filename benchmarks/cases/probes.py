"""Builds a probe from a case: the question, its options in an order drawn from the seed, and how to answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from benchmarks.cases.manifest import WORKING_STATE, Bundle, Case, Form, Manifest, SessionRecipe

LETTERS = "ABCD"
PARTS = ("file", "next_step", "blocker", "command")

OPENING = "A question about this session. Answer from what it said and showed, the newest that holds; call no tools."
KNOWN_OR_NOT = (
    'Answer with JSON alone: {"known": true, "answer": "it"} with the answer for it; '
    'if nobody told it, {"known": false, "answer": ""}.'
)
FORMS: dict[Form, str] = {
    "single_choice": 'Answer with JSON alone: {"option": "A"}, or B, C or D.',
    "short_answer": KNOWN_OR_NOT,
    "abstention": KNOWN_OR_NOT,
    "working_state": 'Answer with JSON alone, the keys file, next_step, blocker and command, each with the exact words, or "".',
}
WORKING_QUESTION = (
    "What is being worked on right now? The file with the change that was begun, the plan's step in progress, what stops it, and "
    "the command that shows that."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A case as it is asked.

    Attributes:
        session: The session it is about.
        options: Of a single choice, in the order they are shown.
        case: What it is scored by; not shown.
        bundle: Likewise, of working state.
        due: The hop from which on it can be asked; working state is asked after this one only.
    """

    id: str
    session: str
    category: str
    priority: str
    form: Form
    question: str
    due: int
    options: tuple[str, ...] = ()
    case: Case | None = None
    bundle: Bundle | None = None

    @property
    def text(self) -> str:
        """What the reader is asked, whole."""
        shown = [f"{letter}) {option}" for letter, option in zip(LETTERS, self.options, strict=False)]
        return "\n".join((OPENING, "", self.question, *shown, "", FORMS[self.form]))

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of an answer, for readers that can be held to one."""
        match self.form:
            case "single_choice":
                fields: dict[str, Any] = {"option": {"type": "string", "enum": list(LETTERS)}}
            case "short_answer" | "abstention":
                fields = {"known": {"type": "boolean"}, "answer": {"type": "string"}}
            case "working_state":
                fields = {part: {"type": "string"} for part in PARTS}
        return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}

    def asked_after(self, hop: int) -> bool:
        """Whether it is asked after this hop."""
        return self.due == hop if self.form == "working_state" else self.due <= hop


def make_probes(manifest: Manifest, *, seed: int) -> list[Probe]:
    """Return a probe for each case and for the work of each hop. Every letter is right equally often, up to one."""
    rng = Random(f"{seed}:cases")
    choices = [case.id for _, case in manifest.cases if case.form == "single_choice"]
    letters = [LETTERS[at % len(LETTERS)] for at in range(len(choices))]
    rng.shuffle(letters)
    right_at = dict(zip(choices, letters, strict=True))
    probes: list[Probe] = []
    for session in manifest.sessions:
        probes += [_of_case(case, session, letter=right_at.get(case.id), rng=rng) for case in session.cases]
        probes += [_of_work(bundle, session) for bundle in session.work]
    return probes


def list_probe_ids(manifest: Manifest) -> list[str]:
    """Return the ids of every probe, also where something is wrong with the manifest."""
    return [
        name
        for session in manifest.sessions
        for name in (*(case.id for case in session.cases), *(_work_id(bundle, session) for bundle in session.work))
    ]


def find_probe(probes: Sequence[Probe], name: str) -> Probe | None:
    """Return the probe with this id."""
    return next((probe for probe in probes if probe.id == name), None)


def _of_case(case: Case, session: SessionRecipe, *, letter: str | None, rng: Random) -> Probe:
    options: list[str] = []
    if letter is not None:
        options = list(case.wrong)
        rng.shuffle(options)
        options.insert(LETTERS.index(letter), case.right)
    return Probe(
        id=case.id,
        session=session.id,
        category=case.category,
        priority=case.priority,
        form=case.form,
        question=case.question,
        due=session.turns[case.turn - 1].hop if case.turn else 1,
        options=tuple(options),
        case=case,
    )


def _of_work(bundle: Bundle, session: SessionRecipe) -> Probe:
    return Probe(
        id=_work_id(bundle, session),
        session=session.id,
        category=WORKING_STATE,
        priority="critical",
        form="working_state",
        question=WORKING_QUESTION,
        due=bundle.hop,
        bundle=bundle,
    )


def _work_id(bundle: Bundle, session: SessionRecipe) -> str:
    return f"{session.id}-work-{bundle.hop}"
