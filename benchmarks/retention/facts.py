"""What is planted in a session beside the story's demands: facts that only tools said, one-offs, late constraints."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from benchmarks.story import words
from benchmarks.story.demand_lines import Shape, joined, numbered
from benchmarks.story.session import DemandKind


class FactKind(StrEnum):
    """In which way a fact is hard to keep."""

    PROHIBITION = "prohibition"
    RULE = "rule"
    BINDING = "exact binding"
    SCOPE = "scope limit"
    AFTERTHOUGHT = "afterthought"
    LATE = "late constraint"
    CORRECTION = "correction"
    WITHDRAWAL = "withdrawn instruction"
    PREFERENCE = "preference"
    NAME = "exact name"
    FOREIGN = "other language"
    LOOK_ALIKE = "among look-alikes"
    ONE_OFF = "one-off said early"
    BURIED = "inside a long paste"
    TOOL_REUSED = "tool-only, reused"
    TOOL_UNUSED = "tool-only, never reused"
    WORKING = "working state"
    SET_ASIDE = "work set aside"


OF_DEMAND = {
    DemandKind.PROHIBITION: FactKind.PROHIBITION,
    DemandKind.RULE: FactKind.RULE,
    DemandKind.BINDING: FactKind.BINDING,
    DemandKind.SCOPE: FactKind.SCOPE,
    DemandKind.LATE: FactKind.AFTERTHOUGHT,
    DemandKind.CORRECTION: FactKind.CORRECTION,
    DemandKind.WITHDRAWAL: FactKind.WITHDRAWAL,
    DemandKind.PREFERENCE: FactKind.PREFERENCE,
    DemandKind.NAME: FactKind.NAME,
    DemandKind.FOREIGN: FactKind.FOREIGN,
    DemandKind.LOOK_ALIKE: FactKind.LOOK_ALIKE,
}
TOOL_KINDS = frozenset({FactKind.TOOL_REUSED, FactKind.TOOL_UNUSED})
WORK_KINDS = frozenset({FactKind.WORKING, FactKind.SET_ASIDE})
USER_KINDS = frozenset(FactKind) - TOOL_KINDS - WORK_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that was said once and is asked for later.

    Attributes:
        key: Its name within the session.
        value: The exact text that answers the question; it stands in no other fact's sentence.
        text: The sentence, output line or note that says it, word for word.
        due: Index of the turn after which it can be asked for.
        last: Index of the last turn after which it is asked for; None for as long as the session lasts.
        stale: The value it took the place of.
        likes: Three values of its shape that the session never says.
    """

    key: str
    kind: FactKind
    value: str
    text: str
    question: str
    due: int
    likes: tuple[str, str, str]
    last: int | None = None
    stale: str | None = None


@dataclass(frozen=True, slots=True)
class Spoken:
    """A sentence of the user to be planted; `{v}` is its value."""

    kind: FactKind
    said: str
    shape: Shape
    question: str


@dataclass(frozen=True, slots=True)
class Printed:
    """A value that a tool prints: the command, the line of its output, and, if it is reused, the command that takes it."""

    command: str
    line: str
    shape: Shape
    question: str
    reused_by: str | None = None


def coded(before: str, after: str) -> Shape:
    """Return the shape of a code of five figures between two texts."""
    return numbered(before, 10_000, 99_999, after)


def _hexadecimal(rng: Random) -> str:
    return f"{rng.randrange(1, 10)}{rng.getrandbits(44):011x}"


SPOKEN: tuple[Spoken, ...] = (
    Spoken(
        FactKind.ONE_OFF,
        "By the way, the spare dongle for the label editor lies in drawer {v}.",
        coded("R", "-k"),
        "In which drawer is the spare dongle for the label editor?",
    ),
    Spoken(
        FactKind.ONE_OFF,
        "If the vault asks, the recovery phrase begins with {v}.",
        joined(("brackish ", "tarred ", "windward "), ("lantern", "kedge", "thole")),
        "With which words does the recovery phrase of the vault begin?",
    ),
    Spoken(
        FactKind.ONE_OFF,
        "Our account number at the chart publisher is {v}, they ask for it once a year.",
        coded("CP/", "/77"),
        "What is our account number at the chart publisher?",
    ),
    Spoken(
        FactKind.ONE_OFF,
        "I am away from {v} on, Fergus signs for me then.",
        joined(("the 21st of ", "the 23rd of ", "the 27th of "), ("Thermidor", "Brumaire", "Germinal")),
        "From which day on is the user away?",
    ),
    Spoken(
        FactKind.LATE,
        "New since this morning: requests to the tariff office carry the header {v}.",
        joined(("X-Tariff-", "X-Duty-"), ("Mandate", "Bearer-Of", "Consent", "Warrant")),
        "Which header do requests to the tariff office carry?",
    ),
    Spoken(
        FactKind.LATE,
        "From here on no job may run longer than {v}, operations insist.",
        numbered("", 311, 699, " seconds of wall time"),
        "How long may a job run at most?",
    ),
    Spoken(
        FactKind.LATE,
        "The freeze starts with tag {v}; nothing that changes the schema after it.",
        coded("tide-", ".0"),
        "With which tag does the freeze start?",
    ),
    Spoken(
        FactKind.LATE,
        "Whatever you print for the harbour office now needs the stamp text {v}.",
        joined(("ENTERED ", "CLEARED ", "LANDED "), ("IN BALLAST", "UNDER BOND", "AT ANCHOR")),
        "Which stamp text does the harbour office need on what we print?",
    ),
)

PRINTED: tuple[Printed, ...] = (
    Printed(
        "bin/lease open --queue labels",
        "lease granted: {v}, valid for one sweep",
        coded("LS-", "-q"),
        "Which lease was opened for the label queue and renewed later?",
        "bin/lease renew {v}",
    ),
    Printed(
        "bin/upload start --kind export",
        "upload session {v} is open, 0 of 14 parts",
        coded("up_", "x"),
        "Under which session was the export upload finished?",
        "bin/upload finish --session {v} --verify",
    ),
    Printed(
        "git bisect run just replay-hour",
        "{v} is the first bad commit",
        _hexadecimal,
        "Which commit did git bisect find to be the first bad one?",
        "git show --stat {v}",
    ),
    Printed(
        "bin/jobs stuck --older 1h",
        "job {v} holds the advisory lock of the outbox",
        coded("jb", "-s"),
        "Which stuck job held the advisory lock of the outbox and was cancelled?",
        "bin/jobs cancel {v} --reason 'stuck behind the sweep'",
    ),
    Printed(
        "docker compose up -d printer-sim",
        "started printer-sim as {v}",
        _hexadecimal,
        "As which container was printer-sim started?",
        "docker logs --since 2m {v}",
    ),
    Printed(
        "bin/snapshot take --shop vigo",
        "snapshot {v} written, 1 manifest",
        coded("snap-", "-vg"),
        "Which snapshot of the shop was taken and restored later?",
        "bin/snapshot restore {v} --into scratch",
    ),
    Printed(
        "bin/tunnel open --to customs",
        "forwarding through relay {v}, keep this shell open",
        coded("rl:", ":c"),
        "Through which relay does the tunnel to customs forward?",
        "bin/tunnel check {v}",
    ),
    Printed(
        "bin/trace slowest --route /baskets",
        "slowest: trace {v}, four spans",
        _hexadecimal,
        "Which trace was the slowest on the baskets route?",
        "bin/trace show {v} --spans",
    ),
    Printed(
        "bin/disk identify --host backup",
        "serial {v}, 31,004 hours powered on",
        coded("WX", "TZ"),
        "What is the serial of the backup host's disk?",
    ),
    Printed(
        "bin/cert show proxy",
        "fingerprint {v}, issued by harbour CA",
        _hexadecimal,
        "What is the fingerprint of the proxy's certificate?",
    ),
    Printed(
        "bin/scanner firmware --list",
        "scanner at gate two: firmware {v}",
        coded("fw", "r"),
        "Which firmware does the scanner at gate two have?",
    ),
    Printed(
        "bin/queue describe labels",
        "dead letters go to exchange {v}",
        coded("dlx.", ".lbl"),
        "To which exchange do dead letters of the label queue go?",
    ),
    Printed(
        "bin/licence show reporting",
        "reporting seat licence {v}, 3 of 5 in use",
        coded("SEAT-", "-r"),
        "What is the licence of the reporting seats?",
    ),
    Printed(
        "bin/backup last --shop oban",
        "last good archive: {v}, checked",
        coded("oban.", ".tzst"),
        "Which was the last good backup archive of Oban?",
    ),
    Printed(
        "bin/feed status --supplier nordlicht",
        "acknowledged up to cursor {v}",
        _hexadecimal,
        "Up to which cursor did the supplier acknowledge the feed?",
    ),
    Printed(
        "bin/till ping --shop ystad",
        "till 4 answers, hardware id {v}",
        coded("HW", "y"),
        "What is the hardware id of till 4 in Ystad?",
    ),
)

SURROUNDINGS = (
    "checking prerequisites",
    "configuration read from config/quillback.toml",
    "connected",
    "nothing else to report",
    "took longer than usual, the disk is busy",
)


def printed_output(rng: Random, line: str) -> str:
    """Return a tool's output with `line` somewhere among others."""
    lines = [f"{at[11:]} {rng.choice(SURROUNDINGS)}" for at in words.moments(rng, count=rng.randrange(6, 24), mean_gap_ms=900)]
    lines.insert(rng.randrange(1, len(lines)), line)
    return words.exit_text("\n".join(lines), code=0, took=f"{rng.uniform(0.4, 6.0):.1f} s")
