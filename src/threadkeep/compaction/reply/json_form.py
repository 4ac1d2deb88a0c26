"""A reply written as JSON: sections with entries, or a list of operations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from threadkeep.compaction.ledger import Section
from threadkeep.compaction.reply.entry import ParsedEntry, read_entry
from threadkeep.compaction.reply.words import FULL_HEADINGS, SHORT_HEADINGS, VERBS, Verb, folded

Placed = tuple[Section, ParsedEntry]

STARTS_TRIED = 8
DEEPEST = 6

_start = re.compile(r"^[ \t>]{0,8}([\[{])", re.MULTILINE)
_number = re.compile(r"#?(\d{1,15})")
_ID_NAMES = ("id", "ids", "entry_id", "entry", "target", "entry_ids")
_TEXT_NAMES = ("text", "content", "entry_text", "old_text", "old", "description", "value", "summary", "note", "message")
_CLAIM_NAMES = ("claim", "new_text", "new", "replacement", "replaced_by", "superseded_by")
_POINTER_NAMES = ("by", "source", "sources", "pointer", "pointers", "ref", "refs", "evidence", "record")
_VERB_NAMES = ("op", "operation", "verb", "action", "type", "status", "change", "kind")
_SECTION_NAMES = ("section", "category", "heading")


def json_entries(text: str) -> list[Placed]:
    """Return the entries of the first JSON value in `text` that holds any; nothing where there is none.

    What stands before and after the value is ignored. A value that is cut off holds nothing: its end might have been a denial.
    """
    decoder = json.JSONDecoder()
    for tried, found in enumerate(_start.finditer(text)):
        if tried == STARTS_TRIED:
            break
        try:
            value, _ = decoder.raw_decode(text, found.start(1))
        except (ValueError, RecursionError):
            continue
        if placed := list(_placed(value, depth=0)):
            return placed
    return []


def section_named(name: str) -> Section | None:
    key = folded(name)
    return FULL_HEADINGS.get(key) or SHORT_HEADINGS.get(key)


def _placed(value: object, *, depth: int) -> Iterator[Placed]:
    """Yield what a whole reply holds: keys that name sections, a wrapper around them, or operations."""
    if depth > DEEPEST:
        return
    if isinstance(value, list):
        for operation in value:
            if isinstance(operation, dict) and _is_operation(operation):
                yield from _operation(operation)
        return
    if not isinstance(value, dict):
        return
    if _is_operation(value):
        yield from _operation(value)
        return
    for key, inner in value.items():
        section = section_named(str(key))
        if section is not None:
            yield from ((section, entry) for entry in _section(inner, verb=None, depth=depth + 1))
        elif isinstance(inner, dict | list):
            yield from _placed(inner, depth=depth + 1)


def _is_operation(value: Mapping[str, object]) -> bool:
    return _verb_of(value) is not None or (_strings(value, _SECTION_NAMES) != "" and _strings(value, _TEXT_NAMES) != "")


def _operation(value: Mapping[str, object]) -> Iterator[Placed]:
    entry = _object_entry(value, verb=None)
    if entry is None:
        return
    gone = entry.verb in (Verb.SUPERSEDE, Verb.WITHDRAW)
    named = section_named(_strings(value, _SECTION_NAMES))
    yield named or (Section.INACTIVE if gone else Section.ACTIVE), entry


def _section(value: object, *, verb: Verb | None, depth: int) -> Iterator[ParsedEntry]:
    """Yield the entries of one section: text, objects, lists of either, or lists under verbs or ids."""
    if depth > DEEPEST:
        return
    match value:
        case str():
            for line in value.split("\n"):
                if entry := read_entry(line.strip().removeprefix("- "), verb=verb):
                    yield entry
        case int() if verb is not None and value >= 0:
            yield ParsedEntry(verb=verb, ids=(str(int(value)),))
        case list():
            for inner in value:
                yield from _section(inner, verb=verb, depth=depth + 1)
        case dict() if _strings(value, _TEXT_NAMES) or _strings(value, _CLAIM_NAMES) or _numbers(value, _ID_NAMES):
            if entry := _object_entry(value, verb=verb):
                yield entry
        case dict():
            for key, inner in value.items():
                if (under := VERBS.get(folded(str(key)))) is not None:
                    yield from _section(inner, verb=under, depth=depth + 1)
                elif isinstance(inner, str):
                    named = f"[{key}] {inner}" if str(key).isdecimal() else f"{key}: {inner}"
                    yield from _section(named, verb=verb, depth=depth + 1)
                else:
                    yield from _section(inner, verb=verb, depth=depth + 1)
        case _:
            return


def _object_entry(value: Mapping[str, object], *, verb: Verb | None) -> ParsedEntry | None:
    text = _strings(value, _TEXT_NAMES)
    ids = tuple(dict.fromkeys(str(number) for number in _numbers(value, _ID_NAMES)))
    entry = read_entry(text, verb=_verb_of(value) or verb) or (ParsedEntry(verb=_verb_of(value) or verb) if ids else None)
    claim = read_entry(_strings(value, _CLAIM_NAMES))
    if entry is None and claim is not None:
        entry = ParsedEntry(verb=_verb_of(value) or verb)
    if entry is None:
        return None
    pointers = (*entry.pointers, *_numbers(value, _POINTER_NAMES), *(claim.pointers if claim else ()))
    return replace(
        entry,
        ids=tuple(dict.fromkeys((*ids, *entry.ids))),
        pointers=tuple(dict.fromkeys(pointers)),
        claim=claim.text if claim else entry.claim,
    )


def _verb_of(value: Mapping[str, object]) -> Verb | None:
    return VERBS.get(folded(_strings(value, _VERB_NAMES)))


def _strings(value: Mapping[str, object], names: tuple[str, ...]) -> str:
    return next((found for name in names if isinstance(found := value.get(name), str)), "")


def _numbers(value: Mapping[str, object], names: tuple[str, ...]) -> list[int]:
    """Return the numbers under the first of `names` that holds any: `12`, `"12"`, `"#12"`, or a list of them."""
    for name in names:
        held = value.get(name)
        written = held if isinstance(held, list) else [held]
        numbers = [_number.search(str(one)) for one in written[:64] if isinstance(one, int | str)]
        if found := [int(number[1]) for number in numbers if number]:
            return found
    return []
