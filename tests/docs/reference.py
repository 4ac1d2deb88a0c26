"""Generates docs/reference from the code: `python -m tests.docs.reference`."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path

import threadkeep
from threadkeep import Config, errors
from threadkeep.cli.commands import COMMANDS
from threadkeep.cli.parser import build_parser
from threadkeep.config import NUMBERS, TABLES, USERS_ALONE, list_choices
from threadkeep.errors import ThreadkeepError

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
GENERATED = "`make docs` generates this page from the code."


def list_pages() -> dict[str, str]:
    """Return every page of the reference by its file name."""
    return {
        "commands.md": render_commands(),
        "settings.md": render_settings(),
        "errors.md": render_errors(),
        "library.md": render_library(),
    }


def render_commands() -> str:
    """Return the `--help` of every command."""
    parts = ["# Commands", GENERATED, "Every command and its options. `--store` and `--json` can be before or after the command."]
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "110"
    try:
        below = next(action for action in build_parser()._actions if action.dest == "command")
        assert isinstance(below.choices, dict)
        for name, command in COMMANDS.items():
            parts += [
                f"## threadkeep {name}",
                f"{_capitalise(command.does)}",
                f"```text\n{below.choices[name].format_help().strip()}\n```",
            ]
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    return _join(parts)


def render_settings() -> str:
    """Return every setting with its default, its values and its meaning."""
    rows = ["| setting | default | values | meaning |", "|---|---|---|---|"]
    meanings = read_descriptions(Config)
    defaults = Config()
    for field in dataclasses.fields(Config):
        value = getattr(defaults, field.name)
        default = "" if value is None or value == {} else f"`{value}`"
        meaning = meanings[field.name] + (" *User setting.*" if field.name in USERS_ALONE else "")
        rows.append(f"| `{field.name}` | {default} | {_describe_values(field.name)} | {meaning} |")
    return _join(
        [
            "# Settings",
            GENERATED,
            "All settings and where to make them. A flag wins over the environment variable `THREADKEEP_NAME`. That wins over\n"
            "`threadkeep.toml` in the working folder, and that over `~/.config/threadkeep/threadkeep.toml`. Tables can be in a\n"
            "file only. `threadkeep doctor` prints every value and where it came from.",
            "A *user setting* decides where your threads and credentials go, what is executed, or who is let in. The working\n"
            "folder may contain files of strangers, so a `threadkeep.toml` there is refused if it has a user setting, also in a\n"
            "profile. Use your own file, the environment or a flag.",
            "\n".join(rows),
        ]
    )


def render_errors() -> str:
    """Return the tree of errors, each with its code."""
    rows = ["| code | class | is a |", "|---|---|---|"]
    rows += [f"| `{kind.code}` | `{kind.__name__}` | `{kind.__mro__[1].__name__}` |" for kind in _list_errors(ThreadkeepError)]
    tree = inspect.cleandoc(errors.__doc__ or "").split("\n\n")[1]
    return _join(
        [
            "# Errors",
            GENERATED,
            "Every error that threadkeep raises on purpose is a `ThreadkeepError` from `threadkeep.errors`. Programs can rely\n"
            "on its `code`. Its message is one sentence for people: what went wrong, where, and what to do next.",
            f"```text\n{inspect.cleandoc(tree)}\n```",
            "\n".join(rows),
        ]
    )


def render_library() -> str:
    """Return the public names with their signatures and docstrings."""
    parts = ["# Library", GENERATED, inspect.cleandoc(threadkeep.__doc__ or "")]
    for name in sorted(threadkeep.__all__, key=str.lower):
        value = getattr(threadkeep, name)
        if inspect.isclass(value):
            parts += [f"## {name}", "See [settings](settings.md)." if value is Config else _render_docstring(value)]
            for method, function in _list_methods(value):
                parts += [f"### {name}.{method}", _render_signature(method, function), _render_docstring(function)]
        elif inspect.isfunction(value):
            parts += [f"## {name}", _render_signature(name, value), _render_docstring(value)]
    return _join(parts)


def read_descriptions(kind: type) -> dict[str, str]:
    """Return the descriptions of attributes from a class's docstring."""
    _, _, listed = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.+(?:\n {8,}.+)*)", listed, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def _describe_values(name: str) -> str:
    if choices := list_choices(name):
        return " ".join(f"`{choice}`" for choice in choices)
    if name in NUMBERS:
        low, high = NUMBERS[name]
        return f"{low:,} to {high:,}"
    return "a table" if name in TABLES else "text"


def _list_errors(kind: type[ThreadkeepError]) -> Iterator[type[ThreadkeepError]]:
    for below in kind.__subclasses__():
        if below.__module__.startswith("threadkeep."):
            yield below
            yield from _list_errors(below)


def _list_methods(kind: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties of a class: its own first, then those of its bases."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("threadkeep.")]
    for name in dict.fromkeys(name for base in ours for name in vars(base)):
        value = inspect.getattr_static(kind, name)
        member = value if isinstance(value, property) else getattr(value, "__func__", value)
        if not name.startswith("_") and member.__doc__ and (isinstance(member, property) or inspect.isfunction(member)):
            yield name, member


def _render_signature(name: str, member: object) -> str:
    """Return how a method is called, or the type of a property, on lines of at most 110 columns."""
    if isinstance(member, property):
        assert member.fget is not None
        return f"```text\n{name}: {inspect.signature(member.fget).return_annotation}\n```"
    assert inspect.isfunction(member)
    signature = inspect.signature(member)
    kept = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    start = ("async " if inspect.iscoroutinefunction(member) else "") + name
    text = start + _render_types(str(signature.replace(parameters=kept)))
    if len(text) > 110:
        end = text.rpartition(")")[2]
        parameters = [_render_types(f"({each})")[1:-1] for each in _list_parameters(signature.replace(parameters=kept))]
        text = f"{start}(\n" + "".join(f"    {each},\n" for each in parameters) + f"){end}"
    return f"```text\n{text}\n```"


def _list_parameters(signature: inspect.Signature) -> Iterator[str]:
    """Yield the parameters as they are written in a call's definition, with the star before keywords."""
    kinds = [each.kind for each in signature.parameters.values()]
    for position, each in enumerate(signature.parameters.values()):
        is_first_keyword = each.kind is each.KEYWORD_ONLY and each.kind not in kinds[:position]
        if is_first_keyword and each.VAR_POSITIONAL not in kinds:
            yield "*"
        yield str(each)


def _render_types(text: str) -> str:
    """Return a signature without the quotes of its annotations and the addresses of its defaults."""
    text = re.sub(r"((?:: |-> ))'([^']*)'", r"\1\2", text)
    return re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", text)


def _render_docstring(value: object) -> str:
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    return re.sub(r"^(Args|Raises|Attributes|Returns|Yields):$", r"*\1*", _render_lists(text), flags=re.MULTILINE)


def _render_lists(text: str) -> str:
    """Return a docstring with its lists of arguments and errors as Markdown lists."""
    return re.sub(r"^ {4}(\w+): ", r"- `\1`: ", text, flags=re.MULTILINE)


def _capitalise(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _join(parts: list[str]) -> str:
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, text in list_pages().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
