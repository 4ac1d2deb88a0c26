"""The reference, made from the code: `python -m tests.docs.reference` writes docs/reference."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path

import threadkeep
from threadkeep import Config, errors
from threadkeep.cli.parser import COMMANDS, build_parser
from threadkeep.config import CHOICES, NUMBERS, TABLES, USERS_ALONE
from threadkeep.errors import ThreadkeepError

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
WRITTEN = "Made from the code by `make docs`; change it there."


def pages() -> dict[str, str]:
    """Return every page of the reference by its file's name."""
    return {"commands.md": commands(), "settings.md": settings(), "errors.md": failures(), "library.md": library()}


def commands() -> str:
    """Return what each command takes, as its `--help` says it."""
    parts = ["# Commands", WRITTEN, "`--store` and `--json` may stand before or after the command."]
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "110"
    try:
        below = next(action for action in build_parser()._actions if action.dest == "command")
        assert isinstance(below.choices, dict)
        for name, command in COMMANDS.items():
            parts += [
                f"## threadkeep {name}",
                f"{_sentence(command.does)}",
                f"```text\n{below.choices[name].format_help().strip()}\n```",
            ]
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    return _page(parts)


def settings() -> str:
    """Return every setting with its default and what it means."""
    rows = ["| setting | default | may be | what it is |", "|---|---|---|---|"]
    meanings = described(Config)
    defaults = Config()
    for field in dataclasses.fields(Config):
        value = getattr(defaults, field.name)
        default = "" if value is None or value == {} else f"`{value}`"
        meaning = meanings[field.name] + (" *Yours alone.*" if field.name in USERS_ALONE else "")
        rows.append(f"| `{field.name}` | {default} | {_kinds(field.name)} | {meaning} |")
    return _page(
        [
            "# Settings",
            WRITTEN,
            "A flag wins over `THREADKEEP_NAME` in the environment, that over `threadkeep.toml` in the working folder, and that\n"
            "over `~/.config/threadkeep/threadkeep.toml`. `threadkeep doctor` prints each with where it came from.\n"
            "Tables can only stand in a file.",
            "What is *yours alone* decides where your threads and credentials go, what is run, and who is let in. A folder may\n"
            "come from elsewhere, so its `threadkeep.toml` is refused if it says any of that, in a profile too; say it in your\n"
            "own file, in the environment or by a flag.",
            "\n".join(rows),
        ]
    )


def failures() -> str:
    """Return the tree of failures, each with its code."""
    rows = ["| code | class | is a |", "|---|---|---|"]
    rows += [f"| `{kind.code}` | `{kind.__name__}` | `{kind.__mro__[1].__name__}` |" for kind in _kinds_of(ThreadkeepError)]
    tree = inspect.cleandoc(errors.__doc__ or "").split("\n\n")[1]
    return _page(
        [
            "# Errors",
            WRITTEN,
            "Everything threadkeep raises on purpose is a `ThreadkeepError` from `threadkeep.errors`. `code` is stable and for\n"
            "machines; the message is one sentence for people: what, which, what next.",
            f"```text\n{inspect.cleandoc(tree)}\n```",
            "\n".join(rows),
        ]
    )


def library() -> str:
    """Return the public names with their signatures and what they promise."""
    parts = ["# Library", WRITTEN, inspect.cleandoc(threadkeep.__doc__ or "")]
    for name in sorted(threadkeep.__all__, key=str.lower):
        value = getattr(threadkeep, name)
        if inspect.isclass(value):
            parts += [f"## {name}", "See [settings](settings.md)." if value is Config else _promise(value)]
            for method, function in _public(value):
                parts += [f"### {name}.{method}", _signature(method, function), _promise(function)]
        elif inspect.isfunction(value):
            parts += [f"## {name}", _signature(name, value), _promise(value)]
    return _page(parts)


def described(kind: type) -> dict[str, str]:
    """Return what a class's docstring says of its attributes."""
    _, _, listed = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.+(?:\n {8,}.+)*)", listed, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def _kinds(name: str) -> str:
    if name in CHOICES:
        return " ".join(f"`{choice}`" for choice in CHOICES[name])
    if name in NUMBERS:
        low, high = NUMBERS[name]
        return f"{low:,} to {high:,}"
    return "a table" if name in TABLES else "text"


def _kinds_of(kind: type[ThreadkeepError]) -> Iterator[type[ThreadkeepError]]:
    for below in kind.__subclasses__():
        if below.__module__.startswith("threadkeep."):
            yield below
            yield from _kinds_of(below)


def _public(kind: type) -> Iterator[tuple[str, object]]:
    """Yield what a class promises: its own first, then what it has from bases of ours."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("threadkeep.")]
    for name in dict.fromkeys(name for base in ours for name in vars(base)):
        value = inspect.getattr_static(kind, name)
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not name.startswith("_") and inspect.isfunction(function) and function.__doc__:
            yield name, function


def _signature(name: str, function: object) -> str:
    assert callable(function)
    signature = inspect.signature(function)
    told = str(signature.replace(parameters=[each for each in signature.parameters.values() if each.name not in ("self", "cls")]))
    told = re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", told)
    kind = "async " if inspect.iscoroutinefunction(function) else ""
    return f"```text\n{kind}{name}{told}\n```"


def _promise(value: object) -> str:
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    return re.sub(r"^(Args|Raises|Attributes|Returns|Yields):$", r"*\1*", _listed(text), flags=re.MULTILINE)


def _listed(text: str) -> str:
    """Return a docstring whose lists of arguments and failures are Markdown's."""
    return re.sub(r"^ {4}(\w+): ", r"- `\1`: ", text, flags=re.MULTILINE)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _page(parts: list[str]) -> str:
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
