"""Edits settings as text, in JSON, JSON with comments, TOML and plain YAML: what an edit does not touch keeps every byte."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from threadkeep.errors import UneditableSettings

Form = Literal["json", "jsonc", "toml", "yaml"]

_blank = re.compile(r"[\s,:]*")
# Strings, so that nothing in them is taken for a comment; comments; commas behind the last value.
_string_or_aside = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])', re.DOTALL)
_decoder = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A value that is to stand at a path of the settings; in TOML, a table if it is a dictionary."""

    path: tuple[str, ...]
    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """An element that is to stand in a list of JSON settings, in place of those of which `replaces` is true."""

    path: tuple[str, ...]
    value: object
    replaces: Callable[[object], bool]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an edit: `new` was written at `start` in place of `old`, so that `value` stands at `path`."""

    path: tuple[str, ...]
    value: object
    is_element: bool = False
    start: int
    old: str
    new: str


def read_settings(text: str, form: Form) -> dict[str, object]:
    """Return settings as values; of several members with one name the last counts.

    Raises:
        UneditableSettings: They cannot be understood; the message says in which line.
    """
    if form == "yaml":
        return _read_yaml(text)
    try:
        if form == "toml":
            return tomllib.loads(text)
        values = json.loads(_hide_comments(text, form), strict=False) if text.strip() else {}
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"line (\d+)", str(error))
        line = f"line {where[1] if where else '?'}"
        raise UneditableSettings(line, f"{line}: this is not valid TOML ({error})") from error
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}"
        raise UneditableSettings(line, f"{line}: this is not valid JSON ({error.msg})") from error
    except RecursionError as error:
        raise UneditableSettings("", "this is nested too deeply") from error
    if not isinstance(values, dict):
        raise UneditableSettings("line 1", "line 1: this is not a JSON object")
    return values


def get_value(values: object, path: Sequence[str]) -> object:
    """Return the value at a path; None if there is none."""
    for key in path:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def is_there(values: object, edit: Put | Add) -> bool:
    """Whether an edit has nothing to change."""
    present = get_value(values, edit.path)
    return present == edit.value if isinstance(edit, Put) else isinstance(present, list) and edit.value in present


def make_edit(text: str, form: Form, edit: Put | Add) -> tuple[str, list[Part]]:
    """Return the text with the edit, and the steps that made it: objects and lists on the way to the value come first.

    Raises:
        UneditableSettings: The text cannot be understood, or cannot be edited in place.
    """
    parts: list[Part] = []
    text = text if text.strip() or form in ("toml", "yaml") else "{}\n"
    while not is_there(values := read_settings(text, form), edit):
        part = _plan_step(text, form, edit, values)
        if "\r\n" in text:
            part = msgspec.structs.replace(part, new=re.sub("\r?\n", "\r\n", part.new))
        edited = _replace(text, part.start, part.old, part.new)
        if not _changes_only(part, values, edited, form) or not is_there(read_settings(edited, form), _read_aim(part)):
            name = ".".join(part.path)
            text = f"{name} cannot be set here by an edit in place; write it yourself: {part.new.strip()}"
            raise UneditableSettings(name, text)
        text = edited
        parts.append(part)
    return text, parts


def undo_part(text: str, form: Form, part: Part) -> str | None:
    """Return the text without one step of an edit; None if what it wrote is no longer there as it was written."""
    values = read_settings(text, form)
    if not is_there(values, _read_aim(part)):
        return None
    found = sorted((match.start() for match in re.finditer(re.escape(part.new), text)), key=lambda at: abs(at - part.start))
    for at in found:
        undone = _replace(text, at, part.new, part.old)
        if _changes_only(part, values, undone, form) and not is_there(read_settings(undone, form), _read_aim(part)):
            return undone
    # A client that writes its settings may have spelled them anew.
    return None if part.old.strip() else drop_value(text, form, part.path, part.value if part.is_element else None)


def drop_value(text: str, form: Form, path: Sequence[str], element: object = None) -> str | None:
    """Return JSON, spelled anew, without a value or without that element of the list there; None if it has comments."""
    if form in ("toml", "yaml") or _hide_comments(text, "jsonc") != text:
        return None
    indent = re.search(r'\n([ \t]+)"', text)
    values = _drop(read_settings(text, form), path, element)
    return json.dumps(values, indent=indent[1] if indent else None, ensure_ascii=False) + text[len(text.rstrip()) :]


def _read_aim(part: Part) -> Put | Add:
    if part.is_element:
        return Add(path=part.path, value=part.value, replaces=lambda _: False)
    return Put(path=part.path, value=part.value)


def _replace(text: str, at: int, old: str, new: str) -> str:
    return text[:at] + new + text[at + len(old) :]


def _changes_only(part: Part, values: object, edited: str, form: Form) -> bool:
    """Whether an edited text has the same values everywhere else."""
    element = part.value if part.is_element else None
    try:
        return _drop(read_settings(edited, form), part.path, element) == _drop(values, part.path, element)
    except UneditableSettings:
        return False


def _drop(values: object, path: Sequence[str], element: object = None) -> object:
    """Return values without that at a path, or without an element of the list there, and without what is then empty around it."""
    if not path:
        return [each for each in values if each != element] if element is not None and isinstance(values, list) else None
    if not isinstance(values, dict):
        return values
    below = _drop(values.get(path[0]), path[1:], element)
    rest = {name: value for name, value in values.items() if name != path[0]}
    # In place: settings keep their order.
    return {name: below if name == path[0] else value for name, value in values.items()} if below else rest


def _plan_step(text: str, form: Form, edit: Put | Add, values: Mapping[str, object]) -> Part:
    if form in ("json", "jsonc"):
        return _plan_json_step(text, form, edit)
    if isinstance(edit.value, Mapping | list):
        return _plan_block(text, form, edit, values)
    return _plan_line(text, form, edit)


def _hide_comments(text: str, form: Form) -> str:
    """Return a text with spaces in place of its comments and of commas behind the last value."""
    if form == "json":
        return text
    return _string_or_aside.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0]), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """A member of an object, or an element of a list, which has no key: where it and its value begin and end."""

    key: str
    start: int
    value_start: int
    stop: int
    value: object


def _list_members(bare: str, start: int) -> Iterator[_Member]:
    """Yield the members of the object or list that begins at `start` of valid JSON without comments."""
    at = _skip(bare, start + 1)
    while bare[at] not in "}]":
        begin, key = at, ""
        if bare[start] == "{":
            key, at = _decoder.raw_decode(bare, at)
            at = _skip(bare, at)
        value, stop = _decoder.raw_decode(bare, at)
        yield _Member(key=key, start=begin, value_start=at, stop=stop, value=value)
        at = _skip(bare, stop)


def _skip(text: str, at: int) -> int:
    found = _blank.match(text, at)
    return found.end() if found else at


def _plan_json_step(text: str, form: Form, edit: Put | Add) -> Part:
    """Return the next step: the first object or list that is missing on the way, else the value."""
    bare = _hide_comments(text, form)
    at = _skip(bare, 0)
    for depth, key in enumerate(edit.path, start=1):
        if bare[at] != "{":
            name = ".".join(edit.path[: depth - 1])
            raise UneditableSettings(name, f"{name} is not an object; make it one, or remove it")
        path, is_last = edit.path[:depth], depth == len(edit.path)
        member = next((each for each in reversed([*_list_members(bare, at)]) if each.key == key), None)
        if member is None:
            value: object = ([] if isinstance(edit, Add) else edit.value) if is_last else {}
            start, old, new = _append(text, bare, at, f"{json.dumps(key)}: ", value)
            return Part(path=path, value=value, start=start, old=old, new=new)
        if is_last and isinstance(edit, Put):
            new = text[member.start : member.value_start] + json.dumps(edit.value, ensure_ascii=False)
            return Part(path=path, value=edit.value, start=member.start, old=text[member.start : member.stop], new=new)
        at = member.value_start
    if bare[at] != "[":
        name = ".".join(edit.path)
        raise UneditableSettings(name, f"{name} is not a list; make it one, or remove it")
    start, old, new = _append(text, bare, at, "", edit.value)
    return Part(path=edit.path, value=edit.value, is_element=True, start=start, old=old, new=new)


def _append(text: str, bare: str, start: int, name: str, value: object) -> tuple[int, str, str]:
    """Return where to write the last value of an object or list, what is there, and what to write: as the others are written."""
    members = [*_list_members(bare, start)]
    close = _skip(bare, members[-1].stop if members else start + 1)
    first = text[start : members[0].start] if members else ""
    outer = _read_indent(text, start)
    # An object within a line stays within it.
    line = text[text.rfind("\n", 0, start) + 1 : start]
    if ("\n" not in first) if members else ("{" in line or "[" in line):
        at = members[-1].stop if members else start + 1
        return at, "", f"{', ' if members else ''}{name}{json.dumps(value, ensure_ascii=False)}"
    unit = _read_indent(text, _skip(bare, _skip(bare, 0) + 1)) or "  "
    indent = _read_indent(text, members[0].start) if members else outer + unit
    written = f"\n{indent}{name}" + json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"\n{indent}")
    end = start + 1 + len(text[start + 1 : close].rstrip())
    if not members:
        return end, text[end:close], f"{written}\n{outer}"
    behind = text[members[-1].stop : end]
    if "," in _string_or_aside.sub(lambda found: found[0] if found[0] == "," else "", text[members[-1].stop : close + 1]):
        return end, "", f"{written},"
    return members[-1].stop, behind, f",{behind}{written}"


def _read_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _read_yaml(text: str) -> dict[str, object]:
    """Return the top-level keys of plain YAML: values of one line each, and lists of such lines."""
    found: dict[str, object] = {}
    key = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = re.match(r"([A-Za-z][\w-]*)\s*:(?:\s+(.*))?$", line)
        if match:
            key = match[1]
            found[key] = _read_yaml_value(match[2] or "")
        elif (line[0] in " \t-") and key:
            item = _read_yaml_value(line.strip().removeprefix("-"))
            earlier = found[key]
            found[key] = [*earlier, item] if isinstance(earlier, list) else [item]
        else:
            raise UneditableSettings(f"line {number}", f"line {number}: setup understands plain `key: value` lines only")
    return found


def _read_yaml_value(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text.partition(" #")[0].strip()


def _plan_line(text: str, form: Form, edit: Put | Add) -> Part:
    """Replace the line of a top-level key, or add one in front of everything but a leading `#:` comment."""
    separator = "=" if form == "toml" else ":"
    key = edit.path[0]
    line = f"{key} = {json.dumps(edit.value)}" if form == "toml" else f"{key}: {edit.value}"
    at = first = 0
    for each in text.splitlines(keepends=True):
        if form == "toml" and each.lstrip().startswith("["):
            break
        if re.match(rf"{re.escape(key)}\s*{separator}", each):
            old = each.rstrip("\r\n")
            comment = re.search(r"""["'\w]\s*(\s#.*)$""", old)
            return Part(path=edit.path, value=edit.value, start=at, old=old, new=line + (comment[1] if comment else ""))
        at += len(each)
        if at == len(each) and each.startswith("#:"):
            first = at
    return Part(path=edit.path, value=edit.value, start=first, old="", new=f"{line}\n")


def _plan_block(text: str, form: Form, edit: Put | Add, values: Mapping[str, object]) -> Part:
    """Add a table or a list at the end, after an empty line."""
    name = ".".join(edit.path)
    if isinstance(edit.value, Mapping):
        # A basic string of TOML has the escapes of JSON.
        lines = [f"{key} = {json.dumps(each, ensure_ascii=False)}" for key, each in edit.value.items()]
        block, advice = [f"[{name}]", *lines], f"[{name}] is there already with other values; remove it, or write {lines} there"
    else:
        added = [str(each) for each in edit.value] if isinstance(edit.value, list) else []
        block, advice = [f"{name}:", *(f"  - {each}" for each in added)], f"{name} is there already; add {', '.join(added)} to it"
    if get_value(values, edit.path) is not None:
        raise UneditableSettings(name, f"{advice} yourself")
    gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    return Part(path=edit.path, value=edit.value, start=len(text), old="", new=gap + "".join(f"{line}\n" for line in block))
