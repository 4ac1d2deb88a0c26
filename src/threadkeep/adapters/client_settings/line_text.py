"""Edits TOML and YAML line by line: one key at the top level, or a whole table, and nothing else."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Literal

from threadkeep.adapters.client_settings.draft import Draft
from threadkeep.errors import BadInput

LineForm = Literal["toml", "yaml"]

_header = re.compile(r"^\s*\[")


def read_toml(text: str) -> dict[str, object]:
    """Return what the text says.

    Raises:
        BadInput: It is not TOML; the message says in which line.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"line (\d+)", str(error))
        raise BadInput(f"line {where[1] if where else '?'}: this is not valid TOML ({error})") from error


def read_yaml_keys(text: str) -> dict[str, object]:
    """Return the top-level keys of a plain YAML file, with values that are one line each; a list of such lines is a list.

    Raises:
        BadInput: The text is not a plain list of keys, so that a line more could mean something else.
    """
    found: dict[str, object] = {}
    key = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = re.match(r"([A-Za-z][\w-]*)\s*:(?:\s+(.*))?$", line)
        if match:
            key = match[1]
            found[key] = _yaml_value(match[2] or "")
        elif (line[0] in " \t-") and key:
            item = line.strip().removeprefix("-").strip()
            earlier = found[key]
            found[key] = [*earlier, _yaml_value(item)] if isinstance(earlier, list) else [_yaml_value(item)]
        else:
            raise BadInput(f"line {number}: setup understands plain `key: value` lines only")
    return found


def put_toml(draft: Draft, path: Sequence[str], value: object) -> tuple[str, str | None]:
    """Set a top-level key, or add a table; return our lines, and the line they replace.

    Raises:
        BadInput: The text is not TOML, has such a table already, or cannot be changed by a line.
    """
    known = read_toml(draft.text)
    if isinstance(value, Mapping):
        name = ".".join(path)
        lines = [f"[{name}]", *(f"{key} = {_toml_value(each)}" for key, each in value.items())]
        if _value_at(known, path) is not None:
            raise BadInput(f"[{name}] is there already with other values; remove it, or write {lines[1:]} there yourself")
        ours, old = _append_lines(draft, lines), None
    else:
        ours, old = _set_line(draft, path[0], f"{path[0]} = {_toml_value(value)}", separator="=")
    expected: dict[str, object] = {**known}
    _set_at(expected, path, dict(value) if isinstance(value, Mapping) else value)
    try:
        changed = tomllib.loads(draft.text)
    except tomllib.TOMLDecodeError:
        changed = {}
    if changed != expected:
        raise BadInput(f"{'.'.join(path)} cannot be set here by changing one line; write it yourself: {ours.strip()}")
    return ours, old


def put_yaml(draft: Draft, path: Sequence[str], value: object) -> tuple[str, str | None]:
    """Set a top-level key to a text, or add a list; return our lines, and the line they replace.

    Raises:
        BadInput: The text is not plain, or has such a list already.
    """
    key = path[0]
    known = read_yaml_keys(draft.text)
    if not isinstance(value, list):
        return _set_line(draft, key, f"{key}: {value}", separator=":")
    if key in known:
        raise BadInput(f"{key} is there already; add {', '.join(map(str, value))} to it yourself")
    return _append_lines(draft, [f"{key}:", *(f"  - {each}" for each in value)]), None


def revert_lines(draft: Draft, ours: str, old: str | None) -> bool:
    """Put `old` back in place of our lines; return whether they were there as we wrote them."""
    text = draft.text.replace("\r\n", "\n")
    for lines in (ours, ours.lstrip("\n")):
        at = -1 if f"\n{lines}" not in f"\n{text}" else f"\n{text}".index(f"\n{lines}")
        if at >= 0:
            changed = text[:at] + (f"{old}\n" if old is not None else "") + text[at + len(lines) :]
            draft.text = changed.replace("\n", "\r\n") if "\r\n" in draft.text else changed
            return True
    return False


def _set_line(draft: Draft, key: str, line: str, *, separator: str) -> tuple[str, str | None]:
    """Replace the line of a top-level key, or add one in front of everything but a leading `#:` comment."""
    at = 0
    first = 0
    for each in draft.text.splitlines(keepends=True):
        if separator == "=" and _header.match(each):
            break
        if re.match(rf"{re.escape(key)}\s*{separator}", each):
            old = each.rstrip("\r\n")
            comment = re.search(r"""["'\w]\s*(\s#.*)$""", old)
            line += comment[1] if comment else ""
            draft.replace(at, at + len(old), line)
            return f"{line}\n", old
        at += len(each)
        if at == len(each) and each.startswith("#:"):
            first = at
    draft.replace(first, first, f"{line}\n")
    return f"{line}\n", None


def _append_lines(draft: Draft, lines: Sequence[str]) -> str:
    """Add lines at the end, after an empty one; return them with it."""
    end = len(draft.text)
    if draft.text and not draft.text.endswith("\n"):
        draft.replace(end, end, "\n")
        end = len(draft.text)
    block = "".join(f"{line}\n" for line in lines)
    written = f"\n{block}" if draft.text.strip() else block
    draft.replace(end, end, written)
    return written


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # A basic string of TOML has the escapes of JSON.
    return json.dumps(value, ensure_ascii=False)


def _yaml_value(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text.partition(" #")[0].strip()


def _value_at(values: Mapping[str, object], path: Sequence[str]) -> object:
    found: object = values
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _set_at(values: dict[str, object], path: Sequence[str], value: object) -> None:
    for key in path[:-1]:
        below = values.get(key)
        values[key] = {**below} if isinstance(below, Mapping) else {}
        values = values[key]  # type: ignore[assignment]  # made a dict in the line above
    values[path[-1]] = value
