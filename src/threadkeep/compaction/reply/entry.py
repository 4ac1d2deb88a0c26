"""One entry of a reply: the verb, the ids, the pointers and the text that a model wrote on one bullet."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from threadkeep.compaction.operations import FROM_A_MODEL
from threadkeep.compaction.reply.words import ADDING, NOTHING, VERBS, Verb, folded

# What one bullet may say; a reply that loops within a line ends here.
ENTRY_CHARS = 1_000
RAW_CHARS = 4_000
POINTERS_READ = 16

_IDS = r"\d{1,9}(?:\s{0,3}[,;/+&]\s{0,3}\d{1,9}){0,63}"
_bracketed_ids = re.compile(rf"[*_`]{{0,3}}\[\s{{0,3}}(?:ids?\s?[:=]?\s?)?({_IDS})\s{{0,3}}\][*_`]{{0,3}}", re.IGNORECASE)
_named_ids = re.compile(rf"(?:ids?|entry|entries|eintrag)\s?[:=]?\s?({_IDS})(?=\s{{0,3}}(?:[|:：(→]|->|$))", re.IGNORECASE)
_bare_ids = re.compile(rf"({_IDS})(?=\s{{0,3}}(?:[|:：(→]|->|$))")
_between_ids = re.compile(r"(?:\s?[,;/+&]\s?|\s?and\s|)(?=[*_`]{0,3}\[)", re.IGNORECASE)
_verb = re.compile(
    r"[*_`(]{0,3}([^\W\d_]{1,24}(?: [^\W\d_]{1,24}){0,2})[)*_`]{0,3}\s{0,3}"
    r"(?:(?P<bar>[|:：])[*_`]{0,3}|(?P<arrow>(?=→|⇒|->|=>|[*_`]{0,3}\[(?:ids?\W{0,2})?\s?\d))|(?P<dash>[—–-])(?=\s)|(?P<number>(?=\d))|(?P<end>[.。]?$))"
)
_after_ids = re.compile(r"\s*(?:[|:：]|[-–—](?=\s))?\s*")

_pointer = re.compile(r"(?<!&)#(\d{1,15})(?![\w#])")
_more = re.compile(r"\band \d{1,9} more\b")
_closing_group = re.compile(r"\s*[(\[（]([^()\[\]（）]{2,160})[)\]）][.。]?$")
_rendered_claim = re.compile(r"(?:(?<=\))|^)\s*→ #(\d{1,15}):(?: |$)")
_gave_way = re.compile(r"\s*(?:→|⇒|->|=>|\b(?:replaced|superseded) by\b|\bersetzt durch\b)\s*", re.IGNORECASE)
_became = re.compile(r"\s*[→⇒]\s*")
_marked = re.compile(rf"(?:(?:{re.escape(FROM_A_MODEL.strip())}|agent:)\s*)+", re.IGNORECASE)
_archived = re.compile(r"left out for want of room: .{1,80}; recall finds them")
_checkbox = re.compile(r"\[[ xX✓✔]?\]\s+")

# Line ends of every kind become one; what no one can see, or what turns a line round, goes. A lone surrogate cannot be stored.
_UNSEEN = {
    **dict.fromkeys((11, 12, 28, 29, 30, 133, 8232, 8233), "\n"),
    **dict.fromkeys((*range(9), *range(14, 28), 31, *range(127, 133), *range(134, 160))),
    **dict.fromkeys((8203, 8288, 65279, *range(8234, 8239), *range(8294, 8298))),
    **dict.fromkeys(range(55296, 57344), "�"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedEntry:
    """What one bullet of a reply says.

    Attributes:
        verb: What became of the entry, if the reply says so.
        ids: The ledger's entries it names, as written; nothing says that they exist.
        text: Its words without verb, ids and closing pointers; empty where it only names ids.
        pointers: Ordinals it names. Of an entry that has a verb, all in its text; otherwise those that close it.
        claim: For what gave way or was revised, the words on the other side of the arrow.
    """

    verb: Verb | None = None
    ids: tuple[str, ...] = ()
    text: str = ""
    pointers: tuple[int, ...] = ()
    claim: str = ""


def cleaned(text: str) -> str:
    """Return text with plain line ends and without control characters."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_UNSEEN)


def bounded(text: str) -> str:
    """Return text on one line, cut at what one entry may say."""
    flat = " ".join(text.split())
    return flat if len(flat) <= ENTRY_CHARS else f"{flat[: ENTRY_CHARS - 1]}…"


def is_nothing(text: str) -> bool:
    """Whether a bullet only says that there is nothing to say."""
    name = folded(text)
    return not name or name in NOTHING or _archived.fullmatch(text.strip()) is not None


def names_an_entry(raw: str) -> bool:
    """Whether a line begins like an operation: with an id, or with a verb and a bar."""
    head = raw[:120]
    if _bracketed_ids.match(head):
        return True
    found = _verb.match(head)
    return found is not None and found["bar"] == "|" and (folded(found[1]) in VERBS or folded(found[1]) in ADDING)


def read_entry(raw: str, *, verb: Verb | None = None) -> ParsedEntry | None:
    """Return what a bullet says, or None where it says nothing. `verb` is what stands above it, where nothing stands in it."""
    whole = " ".join(raw[:RAW_CHARS].split())
    own, ids, rest = _front(_checkbox.sub("", whole, count=1) if whole.startswith("[") else whole)
    rest = rest[marked.end() :] if (marked := _marked.match(rest)) else rest
    if not ids and is_nothing(rest):
        return None
    entry = _with_claim(ParsedEntry(verb=own or verb, ids=ids, text=rest))
    return replace(entry, text=bounded(_undecorated(entry.text)), claim=bounded(_undecorated(entry.claim)))


def _front(text: str) -> tuple[Verb | None, tuple[str, ...], str]:
    """Return verb, ids and the rest of a bullet; verb and ids may come in either order."""
    verb: Verb | None = None
    ids: tuple[str, ...] = ()
    seen_verb = False
    for _ in range(3):
        if not seen_verb and (found := _verb.match(text)) and _is_verb(found):
            verb, seen_verb = VERBS.get(folded(found[1])), True
            text = text[found.end() :].strip()
        elif not ids and (taken := _take_ids(text, after_verb=seen_verb)):
            ids, text = taken
        else:
            break
    return verb, ids, text


def _is_verb(found: re.Match[str]) -> bool:
    name = folded(found[1])
    if found["number"] is not None:
        return name in VERBS and _bare_ids.match(found.string, found.end()) is not None
    if found["end"] is not None and found.start() == 0 and found.end() == len(found.string):
        return name in VERBS
    return name in VERBS or (found["bar"] == "|" and name in ADDING)


def _take_ids(text: str, *, after_verb: bool) -> tuple[tuple[str, ...], str] | None:
    """Return the ids a text begins with and what follows them."""
    found = _bracketed_ids.match(text) or _named_ids.match(text) or (_bare_ids.match(text) if after_verb else None)
    if found is None:
        return None
    ids: list[str] = []
    end = 0
    while found is not None and len(ids) < 64:
        ids.extend(re.findall(r"\d+", found[1]))
        end = found.end()
        gap = _between_ids.match(text, end)
        found = _bracketed_ids.match(text, gap.end()) if gap else None
    after = _after_ids.match(text, end)
    return tuple(dict.fromkeys(str(int(number)) for number in ids)), text[after.end() if after else end :]


def _with_claim(entry: ParsedEntry) -> ParsedEntry:
    """Return the entry with pointers and claim taken out of its text, as far as its verb says they are there."""
    text = entry.text
    if entry.verb is None or entry.verb is Verb.RETAIN:
        body, pointers = _closing_pointers(text)
        return replace(entry, text=body, pointers=pointers)
    if rendered := _rendered_claim.search(text):
        body, pointers = _closing_pointers(text[: rendered.start()])
        return replace(entry, text=body, pointers=(*pointers, int(rendered[1])), claim=text[rendered.end() :])
    arrow = (_became if entry.verb is Verb.UPDATE else _gave_way).search(text)
    before, after = (text[: arrow.start()], text[arrow.end() :]) if arrow else (text, "")
    return replace(entry, text=_closing_pointers(before)[0], claim=_closing_pointers(after)[0], pointers=_ordinals(text))


def _closing_pointers(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the text without the pointers that close it in brackets, and those pointers."""
    tail = max(0, len(text) - 200)
    found = _closing_group.search(text, tail)
    if found is None or not _pointer.search(found[1]):
        return text, ()
    besides = _more.sub("", _pointer.sub("", found[1]))
    if sum(1 for char in besides if char.isalnum()) > 12:
        return text, ()
    return text[: found.start()], _ordinals(found[1])


def _ordinals(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(number) for number in _pointer.findall(text)[:POINTERS_READ]))


def _undecorated(text: str) -> str:
    """Return text without the emphasis that a model put around the whole of it."""
    bare = text.strip()
    for mark in ("**", "__"):
        inner = bare[len(mark) : -len(mark)]
        if len(bare) > 2 * len(mark) and bare.startswith(mark) and bare.endswith(mark) and mark not in inner:
            return inner.strip()
    return bare
