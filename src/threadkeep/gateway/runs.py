"""What one launch of a client sent: a base URL that begins with `/run/ID` is counted apart from everything else.

`threadkeep run` gives each client such a URL, so the figures it prints are that client's alone, on a shared gateway too.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final

from threadkeep.gateway.call import Call
from threadkeep.tokens import estimate_bytes

# Runs end without saying so. The oldest are forgotten, so that no client can fill the memory with names.
MOST_RUNS: Final = 64
MOST_THREADS: Final = 1000

_run_path = re.compile(rb"/run/([0-9a-z]{8,32})(?=/|\Z)")


@dataclass(slots=True, kw_only=True)
class Run:
    """The figures of one run. Tokens are estimated from bytes, alike on both sides."""

    requests: int = 0
    client_tokens: int = 0
    provider_tokens: int = 0
    compactions: int = 0
    threads: list[str] = field(default_factory=list)

    def sent(self, *, client_bytes: int, provider_bytes: int) -> None:
        """Count a request as the client made it, and as its provider got it."""
        self.requests += 1
        self.client_tokens += estimate_bytes(client_bytes)
        self.provider_tokens += estimate_bytes(provider_bytes)

    def placed(self, thread_id: str) -> None:
        """Note which thread a request belongs to."""
        if thread_id not in self.threads and len(self.threads) < MOST_THREADS:
            self.threads.append(thread_id)


class Runs:
    """The newest runs of a gateway, by their ids."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()

    def named(self, run_id: str) -> Run:
        """Return a run's figures; a run that nobody has seen has none yet."""
        run = self._runs.setdefault(run_id, Run())
        self._runs.move_to_end(run_id)
        if len(self._runs) > MOST_RUNS:
            self._runs.popitem(last=False)
        return run

    def find(self, run_id: str) -> Run:
        """Return a run's figures without remembering that they were asked for."""
        return self._runs.get(run_id, Run())

    def compacted(self, thread_id: str) -> None:
        """Count a compaction for every run that works on the thread."""
        for run in self._runs.values():
            if thread_id in run.threads:
                run.compactions += 1


def split_run(call: Call) -> tuple[Call, str | None]:
    """Return a request without the run in its URL, and the run's id where it names one."""
    found = _run_path.match(call.path)
    if found is None:
        return call, None
    return replace(call, path=call.path[found.end() :] or b"/"), found[1].decode("ascii")
