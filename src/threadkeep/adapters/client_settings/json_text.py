"""Edits JSON as text, comments and trailing commas included: everything else keeps its place, order and spaces."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from threadkeep.adapters.client_settings.draft import Draft
from threadkeep.errors import BadInput

Path = Sequence[str]

DEEPEST = 200
_blank = re.compile(r"[ \t\r\n]*")
_blank_or_comment = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_decoder = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value and where it stands. `items` are the members of an object or the elements of a list; None for anything else."""

    start: int
    stop: int
    value: object
    items: tuple[Item, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A member or an element. `key` is empty for an element; `comma` is where the comma behind it stands."""

    key: str
    start: int
    node: Node
    comma: int | None


def parse(text: str, *, comments: bool) -> Node:
    """Return the object that is the whole text.

    Raises:
        BadInput: The text is not JSON, or not an object; the message says in which line.
    """
    reader = _Reader(text, blank=_blank_or_comment if comments else _blank, trailing_commas=comments)
    root = reader.value(reader.skip(0), depth=0)
    end = reader.skip(root.stop)
    if end != len(text):
        raise reader.error("there is more text after the JSON value", end)
    if not isinstance(root.value, dict):
        raise BadInput("line 1: this is not a JSON object")
    return root


def find(root: Node, path: Path) -> Node | None:
    """Return the value at `path`; of several members with one name the last, which is the one that counts."""
    node: Node | None = root
    for key in path:
        if node is None or not isinstance(node.value, dict):
            return None
        node = next((item.node for item in reversed(node.items or ()) if item.key == key), None)
    return node


def existing_depth(root: Node, path: Path) -> int:
    """Return how many steps of `path` are there."""
    return next(depth for depth in range(len(path), -1, -1) if find(root, path[:depth]) is not None)


def put_value(draft: Draft, path: Path, value: object, *, comments: bool) -> None:
    """Set the value at `path`, and make the objects on the way to it.

    Raises:
        BadInput: The text is not JSON, or something on the way is not an object.
    """
    root = parse(draft.text, comments=comments)
    present = find(root, path)
    if present is not None:
        if present.value != value or type(present.value) is not type(value):
            draft.replace(present.start, present.stop, json.dumps(value, ensure_ascii=False))
        return
    depth = existing_depth(root, path)
    holder = find(root, path[:depth])
    assert holder is not None
    if not isinstance(holder.value, dict):
        raise BadInput(f"{'.'.join(path[:depth])} is not an object")
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    _append(draft, holder, f"{json.dumps(path[depth])}: ", value, unit=_indent_unit(draft.text, root))


def add_element(draft: Draft, path: Path, value: object, *, comments: bool) -> None:
    """Append an element to the list at `path`, which is made if it is not there.

    Raises:
        BadInput: The text is not JSON, or something else stands where the list belongs.
    """
    root = parse(draft.text, comments=comments)
    holder = find(root, path)
    if holder is None:
        put_value(draft, path, [value], comments=comments)
        return
    if not isinstance(holder.value, list):
        raise BadInput(f"{'.'.join(path)} is not a list")
    _append(draft, holder, "", value, unit=_indent_unit(draft.text, root))


def remove_value(draft: Draft, path: Path, *, keep: int, comments: bool) -> None:
    """Remove the member at `path`, and the objects around it that are then empty, down to the first `keep` steps."""
    for depth in range(len(path), keep, -1):
        root = parse(draft.text, comments=comments)
        holder, node = find(root, path[: depth - 1]), find(root, path[:depth])
        if holder is None or node is None or (depth < len(path) and node.value):
            return
        items = holder.items or ()
        _remove(draft, holder, max(at for at, item in enumerate(items) if item.node == node))


def remove_element(draft: Draft, path: Path, index: int, *, keep: int, comments: bool) -> None:
    """Remove an element of the list at `path`, and the list and objects around it that are then empty."""
    holder = find(parse(draft.text, comments=comments), path)
    if holder is None:
        return
    _remove(draft, holder, index)
    if len(holder.items or ()) == 1:
        remove_value(draft, path, keep=keep, comments=comments)


class _Reader:
    """Reads JSON and remembers where everything stands."""

    def __init__(self, text: str, *, blank: re.Pattern[str], trailing_commas: bool) -> None:
        self.text = text
        self.blank = blank
        self.trailing_commas = trailing_commas

    def skip(self, at: int) -> int:
        found = self.blank.match(self.text, at)
        return found.end() if found else at

    def error(self, what: str, at: int) -> BadInput:
        return BadInput(f"line {self.text.count(chr(10), 0, at) + 1}: {what}")

    def value(self, at: int, *, depth: int) -> Node:
        if depth > DEEPEST:
            raise self.error("this is nested too deeply", at)
        opening = self.text[at : at + 1]
        if opening in ("{", "["):
            return self._holder(at, named=opening == "{", depth=depth)
        try:
            value, stop = _decoder.raw_decode(self.text, at)
        except ValueError as error:
            raise self.error("this is not valid JSON", at) from error
        return Node(start=at, stop=stop, value=value)

    def _holder(self, start: int, *, named: bool, depth: int) -> Node:
        closing = "}" if named else "]"
        items: list[Item] = []
        at = self.skip(start + 1)
        while self.text[at : at + 1] != closing:
            if items and (items[-1].comma is None):
                raise self.error(f"a comma or {closing} is missing", at)
            item, at = self._item(at, named=named, depth=depth)
            items.append(item)
        if items and items[-1].comma is not None and not self.trailing_commas:
            raise self.error("there is a comma behind the last value", items[-1].comma)
        value = {item.key: item.node.value for item in items} if named else [item.node.value for item in items]
        return Node(start=start, stop=at + 1, value=value, items=tuple(items))

    def _item(self, start: int, *, named: bool, depth: int) -> tuple[Item, int]:
        key, at = "", start
        if named:
            name = self.value(at, depth=depth + 1)
            at = self.skip(name.stop)
            if not isinstance(name.value, str) or self.text[at : at + 1] != ":":
                raise self.error("a name and a colon are missing", start)
            key, at = name.value, self.skip(at + 1)
        node = self.value(at, depth=depth + 1)
        at = self.skip(node.stop)
        comma = at if self.text[at : at + 1] == "," else None
        return Item(key=key, start=start, node=node, comma=comma), self.skip(at + 1) if comma is not None else at


def _append(draft: Draft, holder: Node, name: str, value: object, *, unit: str) -> None:
    """Write a value as the last of an object or a list, in the way the others are written."""
    text, items, close = draft.text, holder.items or (), holder.stop - 1
    if items and "\n" not in text[holder.start : items[0].start]:
        at = items[-1].node.stop
        draft.replace(at, at, f", {name}{json.dumps(value, ensure_ascii=False)}")
        return
    outer = _line_indent(text, holder.start)
    indent = _line_indent(text, items[0].start) if items else outer + unit
    written = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", "\n" + indent)
    end = len(text[:close].rstrip())
    if not items:
        draft.replace(end, close, f"\n{indent}{name}{written}\n{outer}")
        return
    trailing = items[-1].comma is not None
    draft.replace(end, end, f"\n{indent}{name}{written}{',' if trailing else ''}")
    if not trailing:
        draft.replace(items[-1].node.stop, items[-1].node.stop, ",")


def _remove(draft: Draft, holder: Node, index: int) -> None:
    """Remove an item, its comma and the space around it; comments stay."""
    text, items = draft.text, holder.items or ()
    item = items[index]
    before = max(len(text[: item.start].rstrip()), holder.start + 1)
    if item.comma is not None:
        after = item.comma + 1
        spaces = len(text[after:]) - len(text[after:].lstrip(" \t"))
        # A line of its own goes with the line end before it; in a line with others the space behind it goes.
        alone = _ends_line(text, after) and "\n" in text[before : item.start]
        draft.replace(item.node.stop, after if alone else after + spaces, text[item.node.stop : item.comma])
        draft.replace(before if alone else item.start, item.node.stop, "")
        return
    # A comment that runs to the end of its line must not swallow the closing bracket.
    between = text[items[index - 1].node.stop if index else holder.start : before]
    kept_line_end = "//" in between and not _ends_line(text, item.node.stop)
    start = item.start if kept_line_end else before
    draft.replace(start, item.node.stop, "")
    close = holder.stop - 1 - (item.node.stop - start)
    if index:
        comma = items[index - 1].comma
        assert comma is not None
        draft.replace(comma, comma + 1, "")
    elif not draft.text[holder.start + 1 : close].strip():
        draft.replace(holder.start + 1, close, "")


def _ends_line(text: str, at: int) -> bool:
    """Whether nothing but space and a comment follows in this line."""
    rest = text[at:].split("\n", 1)[0].strip()
    return not rest or rest.startswith("//")


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indent_unit(text: str, root: Node) -> str:
    """Return what the first member of the settings is indented with."""
    items = root.items or ()
    return (items and "\n" in text[: items[0].start] and _line_indent(text, items[0].start)) or "  "
