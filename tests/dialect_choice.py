"""Which dialect a test runs in where one is enough."""

from __future__ import annotations

from collections import defaultdict
from zlib import crc32

import pytest

DIALECTS = ("chat", "gemini", "messages", "responses")
# Tests of behaviour that does not depend on the wire. `make test` runs each in one dialect, `make test-slow` in the others.
# The dialects themselves, the models, the rules of providers and `tests/client/every_dialect` always run in every dialect.
ONE_IS_ENOUGH = tuple(
    f"tests/{folder}/"
    for folder in (
        *("client", "drafting", "gateway", "hooks", "memory", "parity", "recall", "retention", "session", "threads"),
        *("transfer", "viewer"),
    )
)
ONE_IS_ENOUGH += ("tests/compaction/test_strategies.py",)
EVERY_DIALECT = ("tests/client/every_dialect/", "tests/gateway/test_provider_rules.py", "tests/gateway/test_proxy_")


def mark_other_dialects_slow(items: list[pytest.Item]) -> None:
    """Mark a test of behaviour as slow in all dialects but one."""
    alike = [item for item in items if item.nodeid.startswith(ONE_IS_ENOUGH) and not item.nodeid.startswith(EVERY_DIALECT)]
    kept = set(one_dialect_each(alike))
    for item in alike:
        if item not in kept:
            item.add_marker(pytest.mark.slow)


def one_dialect_each(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return each test in one dialect, chosen by the test's name, so that all dialects have their share."""
    alike: defaultdict[tuple[str, ...], dict[str, pytest.Item]] = defaultdict(dict)
    for item in items:
        name, _, parameters = item.nodeid.partition("[")
        told = parameters.rstrip("]").split("-")
        dialect = next((dialect for dialect in DIALECTS if dialect in told), "")
        alike[name, *(each for each in told if each != dialect)][dialect] = item
    chosen = []
    for key, by_dialect in alike.items():
        dialects = sorted(by_dialect)
        chosen.append(by_dialect[dialects[crc32(key[0].encode()) % len(dialects)]])
    return chosen
