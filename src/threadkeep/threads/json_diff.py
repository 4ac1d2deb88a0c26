"""Differences between two JSON values: fields, list elements, lines of long texts."""

from __future__ import annotations

import copy
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias

import msgspec


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """Replaces `gone` lines of the old text, from line `first` (counted from 0), with `lines`."""

    first: int
    gone: int
    lines: list[str]


def diff_lines(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    """Return the hunks from `old` to `new`, in order, none adjacent."""
    found: list[Hunk] = []
    old_at = new_at = 0
    for old_stop, new_stop in (*_find_anchors(old, new), (len(old), len(new))):
        found.extend(_diff_gap(old, new, range(old_at, old_stop), range(new_at, new_stop)))
        old_at, new_at = old_stop + 1, new_stop + 1
    return found


def apply_hunks(old: Sequence[str], hunks: Sequence[Hunk]) -> list[str]:
    """Apply `hunks`, whose line numbers are those of the old text."""
    lines = list(old)
    for hunk in reversed(hunks):
        lines[hunk.first : hunk.first + hunk.gone] = hunk.lines
    return lines


def _find_anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the positions of lines that occur once in each text, as many as have the same order in both."""
    in_old, in_new = Counter(old), Counter(new)
    place = {line: at for at, line in enumerate(new) if in_new[line] == 1}
    pairs = [(at, place[line]) for at, line in enumerate(old) if in_old[line] == 1 and line in place]
    # The longest increasing subsequence: `tails[n]` ends the best run of n + 1 pairs so far.
    tails: list[int] = []
    last_of: list[int] = []
    before: list[int] = []
    for index, (_, at) in enumerate(pairs):
        length = bisect_left(tails, at)
        before.append(last_of[length - 1] if length else -1)
        tails[length : length + 1] = [at]
        last_of[length : length + 1] = [index]
    chosen: list[tuple[int, int]] = []
    index = last_of[-1] if last_of else -1
    while index >= 0:
        chosen.append(pairs[index])
        index = before[index]
    return chosen[::-1]


def _diff_gap(old: Sequence[str], new: Sequence[str], olds: range, news: range) -> Iterator[Hunk]:
    """Yield the hunks between two anchors: line by line if both sides have as many lines, else one hunk."""
    shorter = min(len(olds), len(news))
    head = next((at for at in range(shorter) if old[olds[at]] != new[news[at]]), shorter)
    tail = next((at for at in range(shorter - head) if old[olds[-1 - at]] != new[news[-1 - at]]), shorter - head)
    olds, news = olds[head : len(olds) - tail], news[head : len(news) - tail]
    if len(olds) != len(news):
        yield Hunk(first=olds.start, gone=len(olds), lines=[new[at] for at in news])
        return
    start = 0
    for at in range(len(olds) + 1):
        if at == len(olds) or old[olds[at]] == new[news[at]]:
            if start < at:
                yield Hunk(first=olds[start], gone=at - start, lines=[new[news[each]] for each in range(start, at)])
            start = at + 1


# Deeper values are replaced whole.
DEEPEST: Final = 32
# A shorter text is replaced whole.
LONG_TEXT_CHARS: Final = 400
# How much text is quoted before a changed piece.
LEAD_CHARS: Final = 40
_PIECE: Final = re.compile(r"\S{1,64}\s*|\s+")

Place: TypeAlias = list[str | int]


class FieldEdit(msgspec.Struct, frozen=True, kw_only=True, tag_field="edit", tag="put"):
    """Sets the field at `at` to the one value in `now`, or removes it if `now` is empty."""

    at: Place
    now: list[Any]


class ListEdit(msgspec.Struct, frozen=True, kw_only=True, tag_field="edit", tag="splice"):
    """Replaces `gone` elements of the list at `at`, from `first` (counted from 0), with `now`."""

    at: Place
    first: int
    gone: int
    now: list[Any]


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Replaces `was`, which begins at `start` right after `lead`, with `now`."""

    start: int
    lead: str
    was: str
    now: str


class TextEdit(msgspec.Struct, frozen=True, kw_only=True, tag_field="edit", tag="respelled"):
    """Replaces pieces of the text at `at`, in order."""

    at: Place
    pieces: list[Piece]


Edit: TypeAlias = FieldEdit | ListEdit | TextEdit


def is_same_json(one: object, other: object) -> bool:
    """Whether two JSON values are equal but for the order of fields; `1`, `1.0` and `true` differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same_json(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same_json, one, other))
    return one == other


def diff_json(old: object, new: object, *, at: Place | None = None) -> list[Edit] | None:
    """Return the edits from `old` to `new`, to be applied last to first; None if the values must be replaced whole."""
    place = at or []
    if len(place) > DEEPEST:
        return None
    if isinstance(old, dict) and isinstance(new, dict):
        return list(_diff_objects(old, new, at=place))
    if isinstance(old, list) and isinstance(new, list):
        return list(_diff_lists(old, new, at=place))
    if isinstance(old, str) and isinstance(new, str) and min(len(old), len(new)) >= LONG_TEXT_CHARS:
        return [TextEdit(at=place, pieces=_diff_texts(old, new))]
    return None


def apply_edits(value: Any, edits: Sequence[Edit]) -> Any:
    """Apply `edits`; parts without edits are shared with `value`."""
    root = [value]
    own: dict[int, object] = {}
    for edit in reversed(edits):
        holder: Any = root
        key: Any = 0
        for step in edit.at:
            holder, key = _copy_once(holder, key, own), step
        match edit:
            case FieldEdit(now=[now]):
                holder[key] = now
            case FieldEdit():
                holder.pop(key, None)
            case ListEdit():
                _copy_once(holder, key, own)[edit.first : edit.first + edit.gone] = edit.now
            case TextEdit():
                holder[key] = _apply_pieces(holder[key], edit.pieces)
    return root[0]


def render_edits(edits: Sequence[Edit]) -> str:
    """Render edits, one per line, with places in the old value."""
    return "\n".join(msgspec.json.encode(line).decode() for edit in edits for line in _list_changes(edit))


def measure_json(value: object) -> int:
    """Return the encoded length of a JSON value."""
    return len(msgspec.json.encode(value))


def _list_changes(edit: Edit) -> Iterator[dict[str, Any]]:
    match edit:
        case FieldEdit(at=at, now=[now]):
            yield {"at": at, "now": now}
        case FieldEdit(at=at):
            yield {"at": at, "gone": True}
        case ListEdit():
            yield {"at": edit.at, "from": edit.first, "in place of": edit.gone, "now": edit.now}
        case TextEdit():
            for piece in edit.pieces:
                yield {"at": edit.at, "after": piece.lead, "in place of": piece.was, "now": piece.now}


def _diff_objects(old: Mapping[str, Any], new: Mapping[str, Any], *, at: Place) -> Iterator[Edit]:
    for name in old:
        if name not in new:
            yield FieldEdit(at=[*at, name], now=[])
    for name, value in new.items():
        if name not in old:
            yield FieldEdit(at=[*at, name], now=[value])
        elif not is_same_json(old[name], value):
            yield from _choose_shorter(diff_json(old[name], value, at=[*at, name]), FieldEdit(at=[*at, name], now=[value]))


def _diff_lists(old: Sequence[Any], new: Sequence[Any], *, at: Place) -> Iterator[Edit]:
    before, after = ([msgspec.json.encode(each, order="deterministic").decode() for each in side] for side in (old, new))
    shift = 0
    for hunk in diff_lines(before, after):
        first = hunk.first + shift
        now = list(new[first : first + len(hunk.lines)])
        shift += len(now) - hunk.gone
        if hunk.gone != len(now):
            yield ListEdit(at=at, first=hunk.first, gone=hunk.gone, now=now)
            continue
        for index, value in enumerate(now, start=hunk.first):
            whole = ListEdit(at=at, first=index, gone=1, now=[value])
            yield from _choose_shorter(diff_json(old[index], value, at=[*at, index]), whole)


def _choose_shorter(edits: list[Edit] | None, whole: Edit) -> list[Edit]:
    return [whole] if edits is None or measure_json(edits) >= measure_json(whole) else edits


def _diff_texts(old: str, new: str) -> list[Piece]:
    before, after = _PIECE.findall(old), _PIECE.findall(new)
    starts = [0, *accumulate(map(len, before))]
    found: list[Piece] = []
    for hunk in diff_lines(before, after):
        start, stop = starts[hunk.first], starts[hunk.first + hunk.gone]
        lead = old[max(0, start - LEAD_CHARS) : start]
        found.append(Piece(start=start, lead=lead, was=old[start:stop], now="".join(hunk.lines)))
    return found


def _apply_pieces(text: str, pieces: Sequence[Piece]) -> str:
    parts: list[str] = []
    at = 0
    for piece in pieces:
        parts += (text[at : piece.start], piece.now)
        at = piece.start + len(piece.was)
    return "".join((*parts, text[at:]))


def _copy_once(holder: Any, key: Any, own: dict[int, object]) -> Any:
    """Return the container at `key`, copied the first time it is changed."""
    found = holder[key]
    if id(found) not in own:
        found = copy.copy(found)
        own[id(found)] = found
        holder[key] = found
    return found
