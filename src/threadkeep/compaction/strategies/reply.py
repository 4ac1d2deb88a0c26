"""Reads a model's answer: whether it can be a draft at all, and its entries under the five headings of the contract.

A bullet is `verb | [ids] text (#records) → claim`; everything but the text may be missing. Case and marks around headings do not
count. Text under no heading is ignored. Any text gives a bounded value, in time that grows with its length.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice

from threadkeep.compaction.ledger import Section
from threadkeep.compaction.state_text import FROM_A_MODEL, HEADINGS, TAG
from threadkeep.compaction.strategies.strategy import DraftRefused
from threadkeep.llm.base import ModelReply
from threadkeep.tokens import estimate_text

# Prose and code shrink to a third when they are compressed, lists to a tenth.
LOOPING_RATIO = 14
LOOPING_BYTES = 200
# A refusal is short; a longer text that begins like one has more to say.
REFUSAL_CHARS = 400
# Limits for looping replies, large enough for a copy of a long thread's ledger.
BODY_CHARS = 400_000
ENTRIES_READ = 4_000
RAW_CHARS = 4_000
ENTRY_CHARS = 1_000
POINTERS_READ = 16

_REFUSALS = (
    *("i cannot", "i can't", "i can’t", "i'm sorry", "i’m sorry", "i am sorry", "sorry", "i'm unable", "i am unable", "i won't"),
    *("as an ai", "ich kann nicht", "es tut mir leid", "tut mir leid", "lo siento", "no puedo", "désolé", "je ne peux pas"),
    *("抱歉", "对不起", "我无法", "我不能", "申し訳", "すみません", "извините", "к сожалению, я не могу"),
)
_NOTHING = frozenset(
    ",none,none yet,nothing,na,n a,no change,no changes,no entries,all,everything,retain all,retain everything,"
    "keine,nichts,ninguno,nada,aucun,aucune,rien,无,無,なし,нет".split(",")
)
# Line ends become "\n"; invisible and direction-changing characters go; a lone surrogate cannot be stored.
_UNSEEN = {
    **dict.fromkeys((11, 12, 28, 29, 30, 133, 8232, 8233), "\n"),
    **dict.fromkeys((*range(9), *range(14, 28), 31, *range(127, 133), *range(134, 160))),
    **dict.fromkeys((8203, 8288, 65279, *range(8234, 8239), *range(8294, 8298))),
    **dict.fromkeys(range(55296, 57344), "�"),
}
_NAMES = {name.rstrip(":").casefold(): section for section, name in HEADINGS.items()}

# Thinking that a server left in the answer; some servers remove the opening tag.
_thoughts = re.compile(
    r"\s*<(think|thinking|reasoning)>.*?(?:</\1>|\Z)|.*?</(?:think|thinking|reasoning)>[ \t]*(?=\n|\Z)", re.DOTALL | re.IGNORECASE
)
# A tag begins its line, or ends it: one inside a sentence does not count.
_CLOSING = rf"</{TAG}(?:_v\d{{1,3}})? ?>"
_tag = re.compile(
    rf"^[^\w\n]{{0,40}}(?:<{TAG}(?:_v\d{{1,3}})?[^<>\n]{{0,200}}>|(?P<end>{_CLOSING}))|(?P<last>{_CLOSING})(?=\W*$)",
    re.IGNORECASE | re.MULTILINE,
)
_torn_tag = re.compile(rf"<[/\w\s]{{0,{len(TAG) + 4}}}\Z")
_heading = re.compile(
    r"[^\w\n/\"'\[{]{0,12}(?:\d{1,2}[.)][^\w\n/\"'\[{]{1,6})?_{0,2}"
    rf"(?P<name>{'|'.join(_NAMES)})(?:[ \t]*\([^()]{{0,60}}\))?"
    r"(?:[ \t]*[*_`]{0,3}[:：][*_`]{0,3}|[ \t]+[-–—]+[ \t]|[*_` \t]*$)(?P<rest>.*)",
    re.IGNORECASE,
)
_other_heading = re.compile(r"[ \t>]{0,12}#{1,6}(?![#\d])")
_bullet = re.compile(r"([ \t>]*)(?:[-*+‣◦▪–—·](?=[ \t])|[•●○]|-(?=\[)|\d{1,3}[.)](?=[ \t]))[ \t]*")
_furniture = re.compile(r"(?:`{3,}|~{3,})[\w+-]{0,20}|\W*")
_verb = re.compile(
    r"[*_`]{0,3}(retain|keep|update|supersede|withdraw|add)(?:e?d|n)?[*_`]{0,3}\s{0,3}"
    r"(?:[|:：][*_`]{0,3}|(?=→|->|[*_`]{0,3}\[(?:ids? ?)?\d)|\.?$)\s*",
    re.IGNORECASE,
)
_ids = re.compile(r"[*_`]{0,3}\[(?:ids? ?)?(\d{1,9}(?:[,; ]{1,3}\d{1,9}){0,63})\][*_`]{0,3}\s{0,3}[|:]?,?\s*", re.IGNORECASE)
_marked = re.compile(rf"(?:(?:{re.escape(FROM_A_MODEL.strip())}|agent:)\s*)+", re.IGNORECASE)
_left_out = re.compile(r"left out for want of room: .{1,80}; recall finds them")
_pointer = re.compile(r"(?<!&)#(\d{1,15})(?![\w#])")
_more = re.compile(r"\band \d{1,9} more\b")
_closing_group = re.compile(r"\s*[(\[（]([^()\[\]（）]{2,160})[)\]）][.。]?$")
_rendered_claim = re.compile(r"(?:(?<=\))|^)\s*→ #(\d{1,15}):(?: |$)")
_arrow = re.compile(r"\s*(?:→|⇒|->|\b(?:replaced|superseded) by\b)\s*", re.IGNORECASE)
_emphasis = re.compile(r"(\*\*|__)((?:(?!\1).)+)\1")


class Verb(StrEnum):
    """The operation of a reply on an entry."""

    RETAIN = "retain"
    UPDATE = "update"
    SUPERSEDE = "supersede"
    WITHDRAW = "withdraw"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedEntry:
    """One bullet: verb, ids, text, the ordinals it names, and the text after an arrow.

    With a verb, `pointers` are all in the text; otherwise only those at its end. The ids may not exist.
    """

    verb: Verb | None = None
    ids: tuple[str, ...] = ()
    text: str = ""
    pointers: tuple[int, ...] = ()
    claim: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedState:
    """The distinct entries of each section, and whether they came from a state block.

    `complete` means that the end is there: a closed block, or a section after Current Handoff. A torn reply replaces nothing.
    """

    sections: Mapping[Section, tuple[ParsedEntry, ...]]
    found_block: bool = False
    complete: bool = False


def check_reply(reply: ModelReply, *, most_tokens: int, is_draft: Callable[[str], bool]) -> str:
    """Return the text of a reply without thinking and invisible characters.

    Args:
        most_tokens: A longer text is no draft.
        is_draft: Whether a text is certainly a draft; it then counts even with a tool call or the opening of a refusal.

    Raises:
        DraftRefused: It is blank, too long, repetitive or a refusal, or only introduces a tool call.
    """
    text = strip_thinking(clean_text(reply.text)).strip()
    if reply.ending == "refused":
        raise DraftRefused("refused")
    if not text:
        raise DraftRefused("called_tools" if reply.called_tools else "empty")
    if estimate_text(text) > most_tokens:
        raise DraftRefused("oversized")
    if len(raw := text.encode()) > LOOPING_BYTES and len(zlib.compress(raw)) * LOOPING_RATIO < len(raw):
        raise DraftRefused("looping")
    is_refusal = len(text) <= REFUSAL_CHARS and text.casefold().startswith(_REFUSALS)
    if (reply.called_tools or is_refusal) and not is_draft(text):
        raise DraftRefused("called_tools" if reply.called_tools else "refused")
    return text


def clean_text(text: str) -> str:
    """Return text with plain line ends and without control characters."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_UNSEEN)


def strip_thinking(text: str) -> str:
    """Return the answer after a model's thinking; empty if the thinking never ends."""
    return _thoughts.sub("", text, count=1) if _thoughts.match(text) else text


def parse_state(text: str) -> ParsedState:
    """Return the entries of a reply: of the last closed block with entries, else of a torn one, else of the other text."""
    answer = strip_thinking(clean_text(text))
    blocks = _find_blocks(answer)
    for body, closed in blocks:
        state = _read_body(body, in_block=True, closed=closed)
        if state.sections:
            return state
    outside = _read_body(_tag.sub("\n", answer), in_block=False, closed=False)
    return outside if not blocks or outside.complete else ParsedState(sections={})


def _find_blocks(text: str) -> list[tuple[str, bool]]:
    """Return the bodies of state blocks and whether each is closed, the preferred one first."""
    tags = list(_tag.finditer(text))
    blocks: list[tuple[str, bool]] = []
    for tag, after in zip(tags, (*tags[1:], None), strict=True) if tags else ():
        if not _is_end(tag):
            body = text[tag.end() : after.start() if after else len(text)]
            blocks.append((body, True) if after and _is_end(after) else (_torn_tag.sub("", body), False))
    blocks.reverse()
    return sorted(blocks, key=lambda block: not block[1])


def _is_end(tag: re.Match[str]) -> bool:
    return bool(tag["end"] or tag["last"])


def is_nothing(text: str) -> bool:
    """Whether a bullet only states that there is nothing."""
    words = " ".join(re.findall(r"[^\W_]+", text.casefold()))
    return words in _NOTHING or _left_out.fullmatch(text.strip()) is not None


def names_an_entry(raw: str) -> bool:
    """Whether a line begins like an operation: with an id, or with a verb and a bar."""
    return bool(_ids.match(raw) or ((found := _verb.match(raw)) and "|" in found[0]))


def read_entry(raw: str) -> ParsedEntry | None:
    """Parse a bullet; return None if it states nothing."""
    verb, ids, rest = _split_front(" ".join(raw[:RAW_CHARS].split()))
    rest = rest[marked.end() :] if (marked := _marked.match(rest)) else rest
    if not ids and is_nothing(rest):
        return None
    entry = _split_claim(ParsedEntry(verb=verb, ids=ids, text=rest))
    return replace(entry, text=_shorten_entry(entry.text), claim=_shorten_entry(entry.claim))


def _read_body(body: str, *, in_block: bool, closed: bool) -> ParsedState:
    """Parse the entries below the headings of a body."""
    lines = body[:BODY_CHARS].split("\n")
    found = [_heading.match(line) for line in lines]
    # If some headings are lines of their own, a bullet that begins like a heading is a bullet.
    own = [None if _bullet.match(line) else heading for line, heading in zip(lines, found, strict=True)]
    headings = own if any(own) else found
    order = [_NAMES[match["name"].casefold()] for match in headings if match]
    sections: dict[Section, dict[object, ParsedEntry]] = {section: {} for section in Section}
    for section, text in islice(_iterate_entries(lines, headings), ENTRIES_READ):
        if (entry := read_entry(text)) is not None:
            sections[section].setdefault((entry.verb, entry.ids, entry.text.casefold(), entry.claim.casefold()), entry)
    told = {section: tuple(entries.values()) for section, entries in sections.items() if entries}
    finished = len(order) > 1 and order[-1] is not Section.HANDOFF
    return ParsedState(sections=told, found_block=in_block and bool(told), complete=bool(told) and (closed or finished))


def _iterate_entries(lines: Sequence[str], headings: Sequence[re.Match[str] | None]) -> Iterator[tuple[Section, str]]:
    """Yield entries with their section. A wrapped line and a nested bullet belong to the entry before them."""
    section: Section | None = None
    held, indent = "", 0
    for line, heading in zip(lines, headings, strict=True):
        bullet = None if heading else _bullet.match(line)
        text = (line[bullet.end() :] if bullet else line).strip(" \t>")
        columns = len(bullet[1].replace(">", "").expandtabs(4)) if bullet else indent
        is_break = heading or _other_heading.match(line) or _furniture.fullmatch(text)
        if held and not is_break and not names_an_entry(text) and (not bullet or columns > indent):
            joint = "; " if bullet and not held.endswith((":", "：", ".", ";")) else " "
            held = f"{held}{joint}{text}"[:RAW_CHARS]
            continue
        if held and section:
            yield section, held
        if heading:
            section, text = _NAMES[heading["name"].casefold()], heading["rest"].strip(" \t*_`")
        elif _other_heading.match(line):
            # What stands under a heading of the model's own is of no section.
            section = None
        held, indent = (text if heading or not is_break else "")[:RAW_CHARS], columns if bullet else 0
    if held and section:
        yield section, held


def _split_front(text: str) -> tuple[Verb | None, tuple[str, ...], str]:
    """Return verb, ids and the rest of a bullet; verb and ids may come in either order."""
    word, ids = "", tuple[str, ...]()
    for _ in range(2):
        if not word and (found := _verb.match(text)):
            word, text = found[1].casefold(), text[found.end() :]
        while (named := _ids.match(text)) and len(ids) < 64:
            ids = tuple(dict.fromkeys((*ids, *(str(int(number)) for number in re.findall(r"\d+", named[1])))))
            text = text[named.end() :]
    return None if word in ("", "add") else Verb(word.replace("keep", "retain")), ids, text


def _split_claim(entry: ParsedEntry) -> ParsedEntry:
    """Move the pointers and the claim, if its verb has one, out of the text of an entry."""
    text = entry.text
    if entry.verb is None or entry.verb is Verb.RETAIN:
        body, pointers = _split_closing_pointers(text)
        return replace(entry, text=body, pointers=pointers)
    if rendered := _rendered_claim.search(text):
        body, pointers = _split_closing_pointers(text[: rendered.start()])
        return replace(entry, text=body, pointers=(*pointers, int(rendered[1])), claim=text[rendered.end() :])
    arrow = _arrow.search(text)
    before, after = (text[: arrow.start()], text[arrow.end() :]) if arrow else (text, "")
    return replace(
        entry, text=_split_closing_pointers(before)[0], claim=_split_closing_pointers(after)[0], pointers=_find_ordinals(text)
    )


def _split_closing_pointers(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the text without the pointers that close it in brackets, and those pointers."""
    found = _closing_group.search(text, max(0, len(text) - 200))
    inner = found[1] if found else ""
    besides = sum(map(str.isalnum, _more.sub("", _pointer.sub("", inner))))
    return (text[: found.start()], _find_ordinals(inner)) if found and _pointer.search(inner) and besides <= 12 else (text, ())


def _find_ordinals(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(number) for number in _pointer.findall(text)[:POINTERS_READ]))


def _shorten_entry(text: str) -> str:
    """Return text on one line, without emphasis around all of it, cut at `ENTRY_CHARS`."""
    flat = " ".join(text.split())
    flat = bare[2].strip() if (bare := _emphasis.fullmatch(flat)) else flat
    return flat if len(flat) <= ENTRY_CHARS else f"{flat[: ENTRY_CHARS - 1]}…"
