"""Reads a model's answer: whether it can be a draft at all, and its entries under the five headings of the contract.

A bullet is `verb | [ids] text (#records) → claim`; everything but the text may be missing. Case and marks around headings and
bullets do not count. Text under no heading is ignored. Any text gives a bounded value, in time that grows with its length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice

from threadkeep.compaction.drafts.draft import DraftRefused
from threadkeep.compaction.ledger import Section
from threadkeep.compaction.state_text import FROM_A_MODEL, HEADINGS, TAG
from threadkeep.llm.base import ModelReply
from threadkeep.tokens import estimate_text

# A passage is long enough that prose and lists hardly ever repeat one, and short enough that a loop of a few words does.
PASSAGE_CHARS = 12
# A refusal is short; a longer text that begins like one has more to say.
REFUSAL_CHARS = 400
STATE_TAG = re.compile(rf"<(/?)\s*{TAG}(?:_v\d{{1,3}})?(?:\s[^<>]{{0,200}})?>", re.IGNORECASE)

_REFUSALS = (
    *("i cannot", "i can't", "i can’t", "i'm sorry", "i’m sorry", "i am sorry", "sorry", "i'm unable", "i am unable", "i won't"),
    *("as an ai", "ich kann nicht", "es tut mir leid", "tut mir leid", "lo siento", "no puedo", "désolé", "je ne peux pas"),
    *("抱歉", "对不起", "我无法", "我不能", "申し訳", "すみません", "извините", "к сожалению, я не могу"),
)
# Line ends become "\n"; invisible and direction-changing characters go; a lone surrogate cannot be stored.
_UNSEEN = {
    **dict.fromkeys((11, 12, 28, 29, 30, 133, 8232, 8233), "\n"),
    **dict.fromkeys((*range(9), *range(14, 28), 31, *range(127, 133), *range(134, 160))),
    **dict.fromkeys((8203, 8288, 65279, *range(8234, 8239), *range(8294, 8298))),
    **dict.fromkeys(range(55296, 57344), "�"),
}
_thought_end = re.compile(r"</(?:think|thinking|analysis|reasoning)>", re.IGNORECASE)
_thought_start = re.compile(r"<(?:think|thinking|analysis|reasoning)>", re.IGNORECASE)
_word = re.compile(r"\w")


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


# Limits for looping replies, large enough for a copy of a long thread's ledger.
BODY_CHARS = 400_000
ENTRIES_READ = 4_000
RAW_CHARS = 4_000
ENTRY_CHARS = 1_000
POINTERS_READ = 16
HEAD_CHARS = 160
# A heading without hashes is as deep as one with two.
UNMARKED_LEVEL = 2

_VERBS: dict[str, Verb | None] = {
    word: verb for verb in Verb for word in (verb.value, f"{verb.value}d", f"{verb.value}ed", f"{verb.value}n")
}
_VERBS |= {"keep": Verb.RETAIN, "add": None, "added": None, "new": None}
_NOTHING = frozenset(
    ",none,none yet,nothing,na,n a,no change,no changes,no entries,all,everything,retain all,retain everything,"
    "keine,nichts,ninguno,nada,aucun,aucune,rien,无,無,なし,нет".split(",")
)
_NAMES = {name.rstrip(":").casefold().replace(" ", blank): each for each, name in HEADINGS.items() for blank in " _"}

_torn_tag = re.compile(rf"<[/\w\s]{{0,{len(TAG) + 4}}}\Z")

_DRESS = r"(?:[^\w\n/\"'\[{]|_)"
_heading = re.compile(
    rf"(?P<dress>{_DRESS}{{0,20}}(?:\d{{1,2}}[.)]{_DRESS}{{1,6}})?)"
    rf"(?P<name>{'|'.join(_NAMES)})(?:[ \t]*\([^()]{{0,60}}\))?"
    r"(?:[ \t]*[*_`]{0,3}[:：][*_`]{0,3}|[ \t]+[-–—]+[ \t]|[*_`>]{0,3}[ \t]*$|>(?=.*</))(?P<rest>.*)",
    re.IGNORECASE,
)
_bulleted = re.compile(r"[ \t>]*(?:[-*+•][ \t]|\d)")
_part = re.compile(r"[ \t>]{0,12}(#{1,6})(?![#\d])")
_closing_element = re.compile(r"[ \t]*</[\w -]{1,40}>[ \t]*$")
_bullet = re.compile(r"([ \t>]*)(?:[-*+‣◦▪–—·](?=[ \t])|[•●○]|-(?=\[)|(?:\d{1,3}|[a-zA-Z])[.)](?=[ \t]))[ \t]*")
_furniture = re.compile(r"(?:`{3,}|~{3,})[\w+-]{0,20}|[-*_=]{3,}|[|:\- \t]{3,}|</[\w -]{1,40}>?")
_closed = re.compile(r"[.!?;…。！？；][\"'”’)\]）」]*$")
_wide = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uff00-\uffef\u3000-\u303f]")

_NUMBERS = r"\d{1,9}(?:\s{0,3}[,;/+&]\s{0,3}\d{1,9}){0,63}"
_BRACKETS = rf"[*_`]{{0,3}}\[\s{{0,3}}(?:ids?\s?[:=]?\s?)?{_NUMBERS}\s{{0,3}}\][*_`]{{0,3}}"
_bracketed = re.compile(rf"{_BRACKETS}(?:(?:\s?[,;/+&]\s?|\s?and\s|\s?){_BRACKETS}){{0,63}}", re.IGNORECASE)
_bare = re.compile(rf"{_NUMBERS}(?=\s{{0,3}}(?:[|:：(→]|->|$))")
_verb = re.compile(
    rf"[*_`(]{{0,3}}({'|'.join(_VERBS)})[)*_`]{{0,3}}\s{{0,3}}"
    r"(?:(?P<bar>[|:：])[*_`]{0,3}|(?=→|->|=>|[*_`]{0,3}\[(?:ids?\W{0,2})?\s?\d)|[—–-](?=\s)|(?=\d)|[.。]?$)",
    re.IGNORECASE,
)
_after_ids = re.compile(r"\A\s*(?:[|:：]|[-–—](?=\s))?\s*")
_checkbox = re.compile(r"\[[ xX✓✔]?\]\s+")
_marked = re.compile(rf"(?:(?:{re.escape(FROM_A_MODEL.strip())}|agent:)\s*)+", re.IGNORECASE)
_left_out = re.compile(r"left out for want of room: .{1,80}; recall finds them")
_pointer = re.compile(r"(?<!&)#(\d{1,15})(?![\w#])")
_more = re.compile(r"\band \d{1,9} more\b")
_closing_group = re.compile(r"\s*[(\[（]([^()\[\]（）]{2,160})[)\]）][.。]?$")
_rendered_claim = re.compile(r"(?:(?<=\))|^)\s*→ #(\d{1,15}):(?: |$)")
_gave_way = re.compile(r"\s*(?:→|⇒|->|=>|\b(?:replaced|superseded) by\b)\s*", re.IGNORECASE)
_emphasis = re.compile(r"(\*\*|__)((?:(?!\1).)+)\1")
_became = re.compile(r"\s*[→⇒]\s*")


def parse_state(text: str) -> ParsedState:
    """Return the entries of a reply: of the last closed block with entries, else of a torn one, else of the other text."""
    answer = strip_thinking(clean_text(text))
    blocks = _find_blocks(answer)
    for body, closed in blocks:
        state = _read_body(body, in_block=True, closed=closed)
        if state.sections:
            return state
    outside = _read_body(STATE_TAG.sub("\n", answer), in_block=False, closed=False)
    return outside if not blocks or outside.complete else ParsedState(sections={})


def _find_blocks(text: str) -> list[tuple[str, bool]]:
    """Return the bodies of state blocks and whether each is closed, the preferred one first."""
    found = list(STATE_TAG.finditer(text))
    # A tag inside a sentence does not count: an opening tag begins its line, a closing one begins or ends it.
    begins = {tag: not _word.search(text[max(0, tag.start() - 40) : tag.start()].rpartition("\n")[2]) for tag in found}
    tags = [tag for tag in found if begins[tag] or (tag[1] and is_line_end(text, tag.end()))]
    blocks: list[tuple[str, bool]] = []
    for tag, after in zip(tags, (*tags[1:], None), strict=True) if tags else ():
        if not tag[1]:
            body = text[tag.end() : after.start() if after else len(text)]
            blocks.append((body, True) if after and after[1] else (_torn_tag.sub("", body), False))
    blocks.reverse()
    return sorted(blocks, key=lambda block: not block[1])


def is_nothing(text: str) -> bool:
    """Whether a bullet only states that there is nothing."""
    words = " ".join(re.findall(r"[^\W_]+", text.casefold()))
    return words in _NOTHING or _left_out.fullmatch(text.strip()) is not None


def names_an_entry(raw: str) -> bool:
    """Whether a line begins like an operation: with an id, or with a verb and a bar."""
    found = _verb.match(raw[:HEAD_CHARS])
    return bool(_bracketed.match(raw[:HEAD_CHARS]) or (found and found["bar"] == "|"))


def read_entry(raw: str) -> ParsedEntry | None:
    """Parse a bullet; return None if it states nothing."""
    whole = " ".join(raw[:RAW_CHARS].split())
    verb, ids, rest = _split_front(_checkbox.sub("", whole, count=1) if whole.startswith("[") else whole)
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
    own = [match if match and ("#" in match["dress"] or not _bulleted.match(match["dress"])) else None for match in found]
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
    held, level, indent, after_gap = "", 0, 0, True
    for line, heading in zip(lines, headings, strict=True):
        text, part, bullet = line.strip(" \t>"), _part.match(line), _bullet.match(line)
        begins = heading or part or _furniture.fullmatch(text)
        if bullet and not begins:
            text = line[bullet.end() :].strip()
        lead = bullet[1] if bullet else line[: len(line) - len(line.lstrip(" \t>"))]
        columns = 0 if begins else len(lead[:200].replace(">", "").expandtabs(4))
        ended = bullet or after_gap or _closed.search(held[-8:])
        if not text:
            after_gap = True
        elif held and not begins and (columns > indent + bool(bullet) or not ended) and not names_an_entry(text):
            held, after_gap = _join_lines(held, text, is_bullet=bool(bullet)), False
        else:
            if held and section:
                yield section, held
            if heading:
                section, level = _NAMES[heading["name"].casefold()], heading["dress"].count("#") or UNMARKED_LEVEL
                text = _closing_element.sub("", heading["rest"]).strip(" \t*_`")
            elif part and section and len(part[1]) <= level:
                # A heading of the model's own counts as handoff, which does not bind.
                section = Section.HANDOFF
            held, indent = text[:RAW_CHARS] if heading or not begins else "", columns
            after_gap = not held
    if held and section:
        yield section, held


def _join_lines(held: str, text: str, *, is_bullet: bool) -> str:
    joint = ";" if is_bullet and not _closed.search(held[-8:]) and held[-1:] not in ":：" else ""
    space = "" if not joint and _wide.match(text) and _wide.match(held[-1:]) else " "
    return held if len(held) >= RAW_CHARS else f"{held}{joint}{space}{text}"[:RAW_CHARS]


def _split_front(text: str) -> tuple[Verb | None, tuple[str, ...], str]:
    """Return verb, ids and the rest of a bullet; verb and ids may come in either order."""
    word, ids = "", tuple[str, ...]()
    for _ in range(2):
        if not word and (found := _verb.match(text)) and (found["bar"] or _VERBS[found[1].casefold()]):
            word, text = found[1].casefold(), text[found.end() :].strip()
        elif not ids and (named := _bracketed.match(text) or (_bare.match(text) if word else None)):
            ids = tuple(dict.fromkeys(str(int(number)) for number in re.findall(r"\d{1,9}", named[0])[:64]))
            text = _after_ids.sub("", text[named.end() :], count=1)
    return _VERBS.get(word), ids, text


def _split_claim(entry: ParsedEntry) -> ParsedEntry:
    """Move the pointers and the claim, if its verb has one, out of the text of an entry."""
    text = entry.text
    if entry.verb is None or entry.verb is Verb.RETAIN:
        body, pointers = _split_closing_pointers(text)
        return replace(entry, text=body, pointers=pointers)
    if rendered := _rendered_claim.search(text):
        body, pointers = _split_closing_pointers(text[: rendered.start()])
        return replace(entry, text=body, pointers=(*pointers, int(rendered[1])), claim=text[rendered.end() :])
    arrow = (_became if entry.verb is Verb.UPDATE else _gave_way).search(text)
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


def check_reply(reply: ModelReply, *, most_tokens: int, is_draft: Callable[[str], bool]) -> str:
    """Return the text of a reply without thinking and invisible characters.

    Args:
        most_tokens: A longer text is no draft.
        is_draft: Whether a text is certainly a draft; it then counts even with a tool call or the opening of a refusal.

    Raises:
        DraftRefused: It is blank, too long, repetitive or a refusal, or only introduces a tool call.
    """
    if reply.ending == "refused":
        raise DraftRefused("refused")
    text = strip_thinking(clean_text(reply.text)).strip()
    if not text:
        raise DraftRefused("called_tools" if reply.called_tools else "empty")
    if estimate_text(text) > most_tokens:
        raise DraftRefused("oversized")
    if _is_looping(text):
        raise DraftRefused("looping")
    if (reply.called_tools or is_refusal(text)) and not is_draft(text):
        raise DraftRefused("called_tools" if reply.called_tools else "refused")
    return text


def _is_looping(text: str) -> bool:
    """Whether most of a text repeats the same few lines or passages."""
    lines = [line for each in text.splitlines() if (line := each.strip())]
    flat = " ".join(text.split())
    return (
        _has_repeats([line for line in lines if len(line) > 8], at_least=40, times=4)
        # Short lines recur in code and tables that a draft may quote.
        or _has_repeats(lines, at_least=40, times=10)
        or _has_repeats([flat[at : at + PASSAGE_CHARS] for at in range(len(flat) - PASSAGE_CHARS)], at_least=200, times=20)
    )


def _has_repeats(pieces: Sequence[str], *, at_least: int, times: int) -> bool:
    return len(pieces) >= at_least and len(set(pieces)) * times < len(pieces)


def clean_text(text: str) -> str:
    """Return text with plain line ends and without control characters."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_UNSEEN)


def strip_thinking(text: str) -> str:
    """Return the answer after a model's thinking; empty if the thinking never ends.

    If a server removed the opening tag, the closing tag must end its line or stand before a state block. Other tags are only
    mentions.
    """
    end = _thought_end.search(text)
    begun = _thought_start.match(text.lstrip())
    first = STATE_TAG.search(text)
    if end is None:
        return "" if begun and first is None else text
    if first is None:
        closes = is_line_end(text, end.end()) and _thought_start.search(text, 0, end.start()) is None
    else:
        closes = end.end() <= first.start() and _word.search(text[end.end() : first.start()].rpartition("\n")[2]) is None
    return text[end.end() :] if begun or closes else text


def is_refusal(text: str) -> bool:
    """Whether a text is short and begins like a refusal."""
    stripped = text.strip()
    return len(stripped) <= REFUSAL_CHARS and stripped.casefold().startswith(_REFUSALS)


def is_line_end(text: str, position: int) -> bool:
    """Whether no word follows `position` on its line."""
    return _word.search(text[position : position + 40].partition("\n")[0]) is None
