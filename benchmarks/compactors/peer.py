"""Everyone who takes part beside threadkeep: who was named, who is there, and an arm for each."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from random import Random
from types import TracebackType
from typing import Self

from benchmarks.compactors.arm import PeerArm
from benchmarks.compactors.driver import COMPACTORS
from benchmarks.compactors.process import Named, PeerMissing, PeerProcess
from benchmarks.retention.summarisers import SUMMARISERS, Summariser
from threadkeep.errors import BadInput

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
    def told(self) -> list[str]:
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
