"""Loads the lines of the family from its files. Frozen: see the package's docstring."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from benchmarks.retention.facts import FactKind

DOMAINS = ("pipeline", "mobile", "migration", "research")


class SaidLine(msgspec.Struct, frozen=True, kw_only=True):
    """What a user says: `{v}` of shape `v`; where it takes something back, what was said `earlier`, of shape `old` or `v`."""

    say: str
    ask: str
    v: str
    kind: FactKind = FactKind.FOREIGN
    lang: str = "en"
    earlier: str | None = None
    old: str | None = None


class PrintedLine(msgspec.Struct, frozen=True, kw_only=True):
    """What a command prints, and, if it is used later, the command that takes it."""

    run: str
    line: str
    v: str
    ask: str
    again: str | None = None


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of work.

    `{n}` is what a turn is about, `{s}` the same as an identifier, `{k}` a number, `{w}` a person, `{p}` a file.
    """

    said: tuple[SaidLine, ...]
    reused: tuple[PrintedLine, ...]
    unused: tuple[PrintedLine, ...]
    asks: tuple[str, ...]
    answers: tuple[str, ...]
    nouns: tuple[str, ...]
    people: tuple[str, ...]
    files: tuple[str, ...]
    todo: tuple[str, ...]
    blockers: tuple[str, ...]
    commands: tuple[str, ...]
    client: str
    cwd: str
    about: str


class Abroad(msgspec.Struct, frozen=True, kw_only=True):
    """Lines and requests in other languages."""

    said: tuple[SaidLine, ...]
    asks: tuple[str, ...]


class Papers(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of long messages that are pasted whole."""

    openings: tuple[str, ...]
    heads: tuple[str, ...]
    sentences: tuple[str, ...]
    closings: tuple[str, ...]


def _read(name: str) -> bytes:
    return files(__package__).joinpath(f"{name}.toml").read_bytes()


@cache
def load_domain(name: str) -> Domain:
    """Return one of `DOMAINS`."""
    return msgspec.toml.decode(_read(name), type=Domain)


@cache
def load_foreign_lines() -> Abroad:
    """Return what is said in other languages."""
    return msgspec.toml.decode(_read("abroad"), type=Abroad)


@cache
def load_papers() -> Papers:
    """Return what long messages are made of."""
    return msgspec.toml.decode(_read("papers"), type=Papers)
