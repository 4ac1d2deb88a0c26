"""What the gateway counts about itself, in Prometheus' text form.

Numbers and fixed words only: nothing a client sent is ever a label, so that no text leaks and no label grows without bound.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from threadkeep.gateway.http.exchange import Call
from threadkeep.tokens import estimate_bytes

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
# Seconds. The targets are 5 ms and 25 ms, so most bounds lie around them.
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)

_Labels = tuple[tuple[str, str], ...]


class Histogram:
    """How often a duration fell below each bound."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str) -> Iterator[str]:
        """Yield the samples, cumulated as the format asks."""
        total = 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {total}"


class Metrics:
    """The counts of one gateway. `failures` is what went wrong beside the relay, by code."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        self._requests: Counter[_Labels] = Counter()
        self._tokens: Counter[str] = Counter()
        self._compactions: Counter[str] = Counter()
        self._compacted_tokens: Counter[str] = Counter()
        self._overflows = 0
        self._open = 0
        self._added = Histogram()

    def count_failure(self, what: str) -> None:
        """Count something that went wrong beside the relay."""
        self.failures[what] += 1

    def count_overflow(self) -> None:
        """Count a request the provider refused for its size."""
        self._overflows += 1

    def count_request(self, *, route: str, status: int) -> None:
        """Count a request; a status of 0 means that its client left before there was one."""
        self._requests[("route", route), ("status", str(status))] += 1

    def observe_added(self, seconds: float) -> None:
        """Record how long a request took here between its last byte and its way to the provider."""
        self._added.observe(seconds)

    def count_tokens(self, *, client_bytes: int, provider_bytes: int) -> None:
        """Count what a client sent, and what went to the provider in its place."""
        self._tokens["client"] += estimate_bytes(client_bytes)
        self._tokens["provider"] += estimate_bytes(provider_bytes)

    def count_compaction(self, *, tokens_before: int, tokens_after: int, trigger: str = "manual") -> None:
        """Count a compaction that was committed; `trigger` is one of a few fixed words."""
        self._compactions[trigger] += 1
        self._compacted_tokens["before"] += tokens_before
        self._compacted_tokens["after"] += tokens_after

    @contextmanager
    def track_stream(self) -> Iterator[None]:
        """Count an exchange as open inside the block."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    def render(self) -> bytes:
        """Return everything, as Prometheus reads it."""
        return "".join(f"{line}\n" for line in self._lines()).encode()

    def _lines(self) -> Iterator[str]:
        yield from _family("threadkeep_requests_total", "counter", "Requests answered.", self._requests)
        yield from _family("threadkeep_streams_open", "gauge", "Exchanges under way.", {(): self._open})
        yield from _head("threadkeep_added_seconds", "histogram", "Time a conversation request stood here before it went on.")
        yield from self._added.lines("threadkeep_added_seconds")
        yield from _family(
            "threadkeep_request_tokens_total",
            "counter",
            "Estimated tokens of requests, as clients sent them and as providers got them.",
            _by("side", self._tokens),
        )
        yield from _family(
            "threadkeep_compactions_total", "counter", "Compactions committed.", _by("trigger", self._compactions) or {(): 0}
        )
        yield from _family(
            "threadkeep_compacted_tokens_total",
            "counter",
            "Tokens of the windows compactions began and ended with.",
            _by("when", self._compacted_tokens),
        )
        yield from _family(
            "threadkeep_overflows_total", "counter", "Requests a provider refused as too large.", {(): self._overflows}
        )
        yield from _family("threadkeep_failures_total", "counter", "Failures beside the relay.", _by("what", self.failures))


def _by(label: str, counts: Mapping[str, int]) -> dict[_Labels, int]:
    return {((label, value),): count for value, count in counts.items()}


def _family(name: str, kind: str, text: str, samples: Mapping[_Labels, int]) -> Iterator[str]:
    yield from _head(name, kind, text)
    for labels, value in sorted(samples.items()):
        written = ",".join(f'{label}="{word}"' for label, word in labels)
        yield f"{name}{{{written}}} {value}" if written else f"{name} {value}"


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


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

    def count_request(self, *, client_bytes: int, provider_bytes: int) -> None:
        """Count a request as the client made it, and as its provider got it."""
        self.requests += 1
        self.client_tokens += estimate_bytes(client_bytes)
        self.provider_tokens += estimate_bytes(provider_bytes)

    def add_thread(self, thread_id: str) -> None:
        """Record the thread of a request."""
        if thread_id not in self.threads and len(self.threads) < MOST_THREADS:
            self.threads.append(thread_id)


class Runs:
    """The newest runs of a gateway, by their ids."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()

    def get_run(self, run_id: str) -> Run:
        """Return a run's figures to count in; a new run starts at zero."""
        run = self._runs.setdefault(run_id, Run())
        self._runs.move_to_end(run_id)
        if len(self._runs) > MOST_RUNS:
            self._runs.popitem(last=False)
        return run

    def find(self, run_id: str) -> Run:
        """Return a run's figures; zeros for an unknown run."""
        return self._runs.get(run_id, Run())

    def count_compaction(self, thread_id: str) -> None:
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
