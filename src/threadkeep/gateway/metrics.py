"""What the gateway counts about itself, in Prometheus' text form.

Numbers and fixed words only: nothing a client sent is ever a label, so that no text leaks and no label grows without bound.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

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

    def failed(self, what: str) -> None:
        """Count something that went wrong beside the relay."""
        self.failures[what] += 1

    def overflowed(self) -> None:
        """Count a request the provider refused for its size."""
        self._overflows += 1

    def answered(self, *, route: str, status: int) -> None:
        """Count a request; a status of 0 means that its client left before there was one."""
        self._requests[("route", route), ("status", str(status))] += 1

    def added(self, seconds: float) -> None:
        """Note how long a request stood here between its last byte and its way to the provider."""
        self._added.observe(seconds)

    def sent(self, *, client_bytes: int, provider_bytes: int) -> None:
        """Count what a client sent, and what went to the provider in its place."""
        self._tokens["client"] += estimate_bytes(client_bytes)
        self._tokens["provider"] += estimate_bytes(provider_bytes)

    def compacted(self, *, tokens_before: int, tokens_after: int, trigger: str = "manual") -> None:
        """Count a compaction that was committed; `trigger` is one of a few fixed words."""
        self._compactions[trigger] += 1
        self._compacted_tokens["before"] += tokens_before
        self._compacted_tokens["after"] += tokens_after

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count an exchange as open inside the block."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    def text(self) -> bytes:
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
