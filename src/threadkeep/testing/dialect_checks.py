"""What every dialect must do, as checks that need no test framework.

A dialect proves itself with `check_dialect(samples)`, or runs each of `CHECKS` as a test of its own. A check raises
`AssertionError` with the fact that does not hold. What is drawn is drawn from fixed seeds: a check that failed fails again.
"""

from __future__ import annotations

from collections.abc import Callable

from threadkeep.testing.dialect_item_checks import ITEM_CHECKS
from threadkeep.testing.dialect_samples import DialectSamples, Streamed
from threadkeep.testing.dialect_wire_checks import WIRE_CHECKS

Check = Callable[[DialectSamples], None]

CHECKS: tuple[Check, ...] = (*ITEM_CHECKS, *WIRE_CHECKS)


def check_dialect(samples: DialectSamples) -> None:
    """Run every check; the first fact that does not hold is raised."""
    for check in CHECKS:
        check(samples)


__all__ = ["CHECKS", "Check", "DialectSamples", "Streamed", "check_dialect"]
