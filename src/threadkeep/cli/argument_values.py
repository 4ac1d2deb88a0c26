"""What may stand after an option: each takes a text and returns its value, or says what is wrong with it."""

from __future__ import annotations

import re
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import Any

# The clients of `threadkeep.launch`, whose own modules are too heavy to import here.
CLIENT_NAMES = ("claude", "codex", "opencode", "pi", "qwen", "cline", "aider")
MODES = ("off", "background", "on")

_ordinal = re.compile(r"#?(\d{1,15})")
_target = re.compile(r"\d{1,15}|(?:\d{1,2}|100)%")


def at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def record(text: str) -> int:
    match = _ordinal.fullmatch(text)
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not a record's ordinal; write 123")
    return int(match[1])


def bound(text: str) -> str:
    if _target.fullmatch(text) is None:
        raise ArgumentTypeError(f"{text!r} is not a target; write a number of tokens, or a percentage such as 10%")
    return text


def client_name(text: str) -> str:
    if text not in CLIENT_NAMES:
        known = ", ".join(CLIENT_NAMES)
        # A line each, so that a narrow terminal breaks none of them.
        raise ArgumentTypeError(f"no client is named {text!r}\nclients: {known}\nfor any other program: threadkeep run -- {text}")
    return text


def client_mode(text: str) -> tuple[str, str]:
    name, _, mode = text.rpartition("=")
    if not name or mode not in MODES:
        raise ArgumentTypeError(f"{text!r} is not NAME=MODE with a mode of {', '.join(MODES)}")
    return name, mode


class GatheredModes(Action):
    """Gathers every NAME=MODE into one table."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: str | Sequence[Any] | None, option: str | None = None
    ) -> None:
        assert isinstance(values, tuple)
        name, mode = values
        setattr(namespace, self.dest, {**(getattr(namespace, self.dest) or {}), name: mode})
