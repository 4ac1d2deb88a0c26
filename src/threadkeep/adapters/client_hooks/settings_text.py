"""Settings in JSON, changed as text: what the user wrote keeps its place, its order and its spaces."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from threadkeep.errors import BadInput

_blank = re.compile(r"[ \t\r\n]*")
_decoder = json.JSONDecoder(strict=False)

IsOurs = Callable[[object], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A member of an object, or an element of a list, and where it stands; `value` is where its value begins."""

    key: str
    start: int
    value: int
    stop: int


def with_groups(text: str | None, groups: Mapping[str, Mapping[str, object]], *, is_ours: IsOurs) -> str:
    """Return settings with one group of hooks under each event, in place of groups of ours that were there.

    Raises:
        BadInput: The text is no JSON object, or something else stands where hooks belong.
    """
    text = without_groups(text, is_ours=is_ours) if text is not None and text.strip() else "{}\n"
    for event, group in groups.items():
        text = _with_group(text, event, group)
    return text


def without_groups(text: str, *, is_ours: IsOurs) -> str:
    """Return settings without our groups; an event, and `hooks` itself, goes too where nothing else stood in it.

    Raises:
        BadInput: As above.
    """
    checked_settings(text)
    while (found := _group_of_ours(text, is_ours)) is not None:
        text = _without(text, found)
    return text


def checked_settings(text: str) -> dict[str, object]:
    """Return the settings as a value.

    Raises:
        BadInput: The text is no JSON object, or something else stands where hooks belong.
    """
    try:
        settings = _decoder.decode(text)
    except ValueError as error:
        raise BadInput(f"these settings are not JSON ({error}); nothing was changed") from error
    if not isinstance(settings, dict):
        raise BadInput("these settings are not a JSON object; nothing was changed")
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise BadInput("these settings have something else where hooks belong; nothing was changed")
    return settings


def _with_group(text: str, event: str, group: Mapping[str, object]) -> str:
    hooks = _member(text, _begin(text), "hooks")
    if hooks is None:
        return _appended(text, _begin(text), {event: [group]}, key="hooks", depth=1)
    groups = _member(text, hooks.value, event)
    if groups is None:
        return _appended(text, hooks.value, [group], key=event, depth=2)
    return _appended(text, groups.value, group, key=None, depth=3)


def _group_of_ours(text: str, is_ours: IsOurs) -> tuple[int, _Part] | None:
    """Return what is to go, and where that which holds it begins: a group, or an event or `hooks` that holds nothing else."""
    hooks = _member(text, _begin(text), "hooks")
    if hooks is None:
        return None
    for event in _parts(text, hooks.value):
        groups = _parts(text, event.value)
        ours = [group for group in groups if is_ours(_value(text, group))]
        if not ours:
            continue
        if len(groups) > 1:
            return event.value, ours[-1]
        return (hooks.value, event) if len(_parts(text, hooks.value)) > 1 else (_begin(text), hooks)
    return None


def _without(text: str, found: tuple[int, _Part]) -> str:
    """Return the text without a part, its comma and the space around it."""
    holder, part = found
    parts = _parts(text, holder)
    index = parts.index(part)
    if index:
        return text[: parts[index - 1].stop] + text[part.stop :]
    if len(parts) > 1:
        return text[: part.start] + text[parts[1].start :]
    return text[: holder + 1] + text[_skip(text, part.stop) :]


def _appended(text: str, holder: int, value: object, *, key: str | None, depth: int) -> str:
    """Return the text with a value as the last of an object or a list, written as the rest of it is."""
    parts = _parts(text, holder)
    name = "" if key is None else f"{json.dumps(key)}: "
    unit = _indent_unit(text)
    if parts and "\n" not in text[holder : parts[0].start]:
        return f"{text[: parts[-1].stop]}, {name}{json.dumps(value, ensure_ascii=False)}{text[parts[-1].stop :]}"
    written = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", "\n" + unit * depth)
    if parts:
        return f"{text[: parts[-1].stop]},\n{unit * depth}{name}{written}{text[parts[-1].stop :]}"
    end = _skip(text, holder + 1)
    return f"{text[: holder + 1]}\n{unit * depth}{name}{written}\n{unit * (depth - 1)}{text[end:]}"


def _indent_unit(text: str) -> str:
    """Return what the first member of the settings is indented with."""
    parts = _parts(text, _begin(text))
    before = text[_begin(text) + 1 : parts[0].start] if parts else ""
    return before.rpartition("\n")[2] or "  " if "\n" in before else "  "


def _begin(text: str) -> int:
    return _skip(text, 0)


def _skip(text: str, at: int) -> int:
    found = _blank.match(text, at)
    return found.end() if found else at


def _value(text: str, part: _Part) -> object:
    return _decoder.raw_decode(text, part.value)[0]


def _member(text: str, holder: int, key: str) -> _Part | None:
    """Return the member called `key`; of several the last, which is the one that counts."""
    return next((part for part in reversed(_parts(text, holder)) if part.key == key), None)


def _parts(text: str, holder: int) -> list[_Part]:
    """Return the members of the object, or the elements of the list, that begins at `holder`; the text is known to be JSON."""
    named = text[holder] == "{"
    parts: list[_Part] = []
    at = _skip(text, holder + 1)
    while text[at] not in "]}":
        start, key = at, ""
        if named:
            key, at = _decoder.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _, stop = _decoder.raw_decode(text, at)
        parts.append(_Part(key=key, start=start, value=at, stop=stop))
        at = _skip(text, stop)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return parts
