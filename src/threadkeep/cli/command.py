"""What the command line knows about one command."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command: what it does in a sentence, an example, its arguments, and `module:function` within this package.

    `opens_store` says that it works on a store, and so takes `--store` and `--json`; `prints_json` that it takes the latter all
    the same.
    """

    does: str
    example: str
    entry: str
    arguments: Callable[[ArgumentParser], None]
    opens_store: bool = True
    prints_json: bool = False
