"""The compactors that take part beside threadkeep, and an arm of the retention benchmark for each."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Any, Self

from benchmarks.compactors.driver import COMPACTORS
from benchmarks.compactors.process import Asked, Named, PeerMissing, PeerProcess
from benchmarks.retention.arms import Moment
from benchmarks.retention.summarisers import INDEX_HEAD, SUMMARISERS, Note, Shown, Summariser
from benchmarks.retention.windows import Piece, Place, make_piece, make_summary_piece
from threadkeep.compaction.state_text import TAG
from threadkeep.dialects.values import STATE_OPENING
from threadkeep.errors import BadInput

# So much of a summary tells whether an item holds it.
TELLING_CHARS = 40


@dataclass(slots=True, kw_only=True)
class PeerArm:
    """A peer as an arm: at each hop it is given what is new, a budget, and a scripted summariser to ask.

    Without a summariser it has no model; one that asks all the same is given no answer worth anything. `trouble` is why it failed
    last.
    """

    process: PeerProcess
    summarise: Summariser | None
    rng: Random
    failures: int = 0
    trouble: str | None = None
    asked: int = 0
    _summary: str = ""
    _key: list[Note] = field(default_factory=list)
    _window: list[Piece] = field(default_factory=list)

    def window(self, moment: Moment) -> list[Piece]:
        """Return the peer's window; where it fails, the one before with what is new behind it."""
        new = moment.history[moment.begin :]
        before = self._summary
        # A peer may keep a message now and have it summarised later: what mattered in it is still known then.
        self._key += moment.key

        def answered(asked: Asked) -> str:
            self.asked += 1
            if self.summarise is None:
                return ""
            if asked.instruction is not None:
                return self.summarise(self._shown_ledger(asked.prompt, asked.instruction), self.rng)
            key = self._unnoted(asked.prompt, before=before)
            shown = Shown(before=before, messages="", span=asked.prompt, whole=True, key=key)
            self._summary = self.summarise(shown, self.rng)
            return self._summary

        messages = [json.loads(piece.item.raw) for piece in new]
        found = self.process.compact(messages, budget_tokens=moment.budget_tokens, summarise=answered)
        if found is None:
            self.failures += 1
            self.trouble = self.process.trouble
            self._window = [*self._window, *new]
        else:
            self._window = [piece for message in found for piece in self._pieces(message, moment)]
        return self._window

    def _shown_ledger(self, prompt: str, instruction: str) -> Shown:
        """Return what threadkeep shows a model that is to say what changes."""
        ledger = instruction.partition(f"<{TAG}>\n")[2].partition(f"\n</{TAG}>")[0]
        return Shown(
            before=ledger,
            messages=instruction.partition(INDEX_HEAD)[2].partition("\n\n")[0],
            span=prompt,
            whole=False,
            key=self._unnoted(prompt, before=ledger),
        )

    def _unnoted(self, prompt: str, *, before: str) -> list[Note]:
        """Return what a perfect reader would still note down: nothing that stands there, nothing that was taken back."""
        gone = {note.stale for note in self._key if note.value in prompt or note.text in before}
        return [note for note in self._key if note.text not in before and note.value not in gone]

    def _pieces(self, message: dict[str, Any], moment: Moment) -> list[Piece]:
        """Return how a reader takes a message; a state that was joined to a person's words is two pieces."""
        dialect = moment.dialect
        piece = make_piece(dialect.parse(message), dialect=dialect)
        content = message.get("content")
        told = self._summary.strip()[:TELLING_CHARS]
        if piece.place is Place.OUTPUT or not isinstance(content, str):
            return [piece]
        if told and told in content:
            return [make_summary_piece(content, dialect=dialect)]
        before, opened, rest = content.partition(f"{STATE_OPENING}")
        block, closed, after = rest.partition(f"\n</{TAG}>")
        if not opened or not closed or piece.place is Place.STATE:
            return [piece]
        spoken = [{"role": "user", "content": text.strip()} for text in (before, after) if text.strip()]
        state = make_piece(dialect.make_user_message(f"{opened}{block}{closed}"), dialect=dialect)
        return [state, *(make_piece(dialect.parse(each), dialect=dialect) for each in spoken)]


NO_MODEL = "no model"
BUDGET_RULE = (
    "at each hop every peer, threadkeep through a host too, is asked for the same size: what extractive had after that hop; "
    "what each takes stands in the table"
)


def parse_peer(text: str) -> Named:
    """Return the peer that `text` names.

    Raises:
        BadInput: There is none of that name.
    """
    name, _, python = text.partition("=")
    if name not in COMPACTORS:
        raise BadInput(f"there is no peer {name!r}; there are {', '.join(COMPACTORS)}")
    return Named(name=name, python=python or sys.executable)


class Peers:
    """Everyone who takes part, a process for each peer and summariser; use it as a context manager.

    Attributes:
        missing: Who was named and cannot be run, and why.
    """

    def __init__(self, peers: Sequence[Named], *, summarisers: Sequence[str] = ("faithful", "lossy")) -> None:
        self.missing: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self.arms_made: list[tuple[str, PeerArm]] = []
        self._named = peers
        self._summarisers = summarisers
        self._processes: dict[str, tuple[PeerProcess, Summariser | None]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for peer in self._named:
            for name in self._rows(peer):
                try:
                    process = self._stack.enter_context(PeerProcess(peer))
                except PeerMissing as reason:
                    self.missing[peer.name] = str(reason)
                    break
                self.versions[peer.name] = process.version
                self._processes[f"{peer.name}, {name}"] = (process, SUMMARISERS.get(name))
        return self

    def _rows(self, peer: Named) -> list[str]:
        """Return the summarisers a peer is run with, and `NO_MODEL` where it can do without."""
        asks = COMPACTORS[peer.name].asks
        return [*([] if asks == "always" else [NO_MODEL]), *([] if asks == "never" else self._summarisers)]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def arms(self, seed: int) -> list[tuple[str, PeerArm]]:
        """Return an arm for each, with a new session before it."""
        made: list[tuple[str, PeerArm]] = []
        for name, (process, summarise) in self._processes.items():
            process.begin(has_model=summarise is not None)
            made.append((name, PeerArm(process=process, summarise=summarise, rng=Random(f"{seed}:{name}"))))
        self.arms_made += made
        return made

    @property
    def messages(self) -> list[str]:
        """Who took part, with its version, and who did not, with the reason; a line each."""
        failed = Counter(name for name, arm in self.arms_made for _ in range(arm.failures))
        why = {name: arm.trouble for name, arm in self.arms_made if arm.trouble}
        return [
            *([BUDGET_RULE] if self.versions else []),
            *(f"{name} {there}, asked in its own interpreter" for name, there in self.versions.items()),
            *(f"{name} takes no part: {why}" for name, why in self.missing.items()),
            *(
                f"{name} failed {count} times and went on with what it had{f' ({why[name]})' if name in why else ''}"
                for name, count in failed.items()
            ),
        ]
