"""What a model wrote back, read as five sections of entries.

Accepts what real models write: the block as `state_text` renders it, headings in any dress and a few languages, nested and
wrapped bullets, fences, JSON, several blocks, one that is cut off, none at all. Hostile input: any text gives a value, in time
that grows with its length, and a bounded one. Nothing here decides what a reply may change: `reply_operations` and `merge` do.

Nested bullets: a child joins its parent, unless it names an entry itself. Under a parent that is only a label ("Ports:") each
child is an entry with the label in front.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from threadkeep.compaction.ledger import Section
from threadkeep.compaction.reply.entry import ParsedEntry, cleaned, read_entry
from threadkeep.compaction.reply.json_form import Placed, json_entries
from threadkeep.compaction.reply.lines import ENTRIES_READ, read_lines
from threadkeep.compaction.reply.words import REFUSALS, Verb
from threadkeep.compaction.state_text import TAG

BODY_CHARS = 400_000
# Of a reply without any structure only so much is taken, as something to hand over.
PROSE_ENTRIES = 12
# A refusal is short; a longer text that begins like one has more to say.
REFUSAL_CHARS = 400

_tag = re.compile(rf"<(/?)\s*{TAG}(?:_v\d{{1,3}})?(?:\s[^<>]{{0,200}})?>", re.IGNORECASE)
_thought_end = re.compile(r"</(?:think|thinking|analysis|reasoning)>", re.IGNORECASE)
_thought_start = re.compile(r"<(?:think|thinking|analysis|reasoning)>", re.IGNORECASE)
_word = re.compile(r"\w")
# Lines of a machine's making: markup, tool calls, JSON. No prose begins with one of these.
_machine = tuple("<{[}]\"'|$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedState:
    """A reply, read.

    Attributes:
        sections: The entries of each section that has any, in the order they were written, none twice.
        found_block: Whether they stood in a state block.
        complete: Whether the end of what should be there is there: a closed block, a whole JSON value, or a section after
            Current Handoff. What may be cut off replaces nothing.
    """

    sections: Mapping[Section, tuple[ParsedEntry, ...]]
    found_block: bool = False
    complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    body: str
    closed: bool


def parse_state(text: str) -> ParsedState:
    """Return what a reply says. Never raises; a reply that says nothing gives no sections."""
    answer = after_thinking(cleaned(text))
    blocks = _blocks(answer)
    for block in blocks:
        state = _read(block.body, block=block)
        if state.sections:
            return state
    if blocks:
        outside = _read(_tag.sub("\n", answer), block=None)
        return outside if outside.complete else ParsedState(sections={})
    state = _read(answer, block=None)
    return state if state.sections else _prose(answer)


def after_thinking(text: str) -> str:
    """Return what follows the model's thoughts, where it wrote them down; nothing, where it never came to an end of them.

    Where a server swallowed the tag that opens them, the one that closes them ends its line, or a state block comes after it.
    Any other is only mentioned.
    """
    end = _thought_end.search(text)
    begun = _thought_start.match(text.lstrip())
    first = _tag.search(text)
    if end is None:
        return "" if begun and first is None else text
    if first is None:
        closes = _ends_line(text, end.end()) and _thought_start.search(text, 0, end.start()) is None
    else:
        closes = end.end() <= first.start() and _word.search(text[end.end() : first.start()].rpartition("\n")[2]) is None
    return text[end.end() :] if begun or closes else text


def is_refusal(text: str) -> bool:
    """Whether a text is short and begins as refusals do."""
    told = text.strip()
    return len(told) <= REFUSAL_CHARS and told.casefold().startswith(REFUSALS)


def _blocks(text: str) -> list[_Block]:
    """Return the state blocks of a text, the one to believe first: complete ones, then unclosed ones, each from the last."""
    found = list(_tag.finditer(text))
    opening, closing = [tag for tag in found if not tag[1]], [tag for tag in found if tag[1]]
    # A tag that a sentence or an entry mentions is none, as long as there are others.
    opening = [tag for tag in opening if _begins_line(text, tag.start())] or opening
    closing = [tag for tag in closing if _begins_line(text, tag.start()) or _ends_line(text, tag.end())] or closing
    tags = sorted((*opening, *closing), key=lambda tag: tag.start())
    complete: list[_Block] = []
    unclosed: list[_Block] = []
    for index, tag in enumerate(tags):
        if tag[1]:
            continue
        after = tags[index + 1] if index + 1 < len(tags) else None
        closed = after is not None and bool(after[1])
        body = text[tag.end() : after.start() if after else len(text)]
        (complete if closed else unclosed).append(_Block(body=body if closed else _without_torn_tag(body), closed=closed))
    return [*reversed(complete), *reversed(unclosed)]


def _begins_line(text: str, position: int) -> bool:
    before = text[max(0, position - 40) : position]
    line = before.rpartition("\n")
    return (bool(line[1]) or position <= 40) and _word.search(line[2]) is None


def _ends_line(text: str, position: int) -> bool:
    return _word.search(text[position : position + 40].partition("\n")[0]) is None


def _without_torn_tag(body: str) -> str:
    """Return a body without the beginning of a closing tag at its very end."""
    start = body.rfind("<", max(0, len(body) - len(TAG) - 8))
    torn = start >= 0 and f"/{TAG}".startswith("".join(body[start + 1 :].casefold().split()))
    return body[:start] if torn else body


def _read(body: str, *, block: _Block | None) -> ParsedState:
    """Return the sections of a body: by its headings, else as JSON, else, in a block only, all of it as handoff."""
    body = body[:BODY_CHARS]
    sheet = read_lines(body, before_headings=Section.HANDOFF if block else None)
    if not sheet.headings and (placed := json_entries(body)):
        return ParsedState(sections=_sections(placed), found_block=block is not None, complete=True)
    if not sheet.headings and block is None:
        return ParsedState(sections={})
    entries = ((raw.section, read_entry(raw.text, verb=raw.verb)) for raw in sheet.entries)
    sections = _sections((section, entry) for section, entry in entries if entry is not None)
    finished = len(sheet.headings) > 1 and sheet.headings[-1] is not Section.HANDOFF
    closed = block is not None and block.closed
    return ParsedState(sections=sections, found_block=block is not None and bool(sections), complete=closed or finished)


def _sections(placed: Iterable[Placed]) -> Mapping[Section, tuple[ParsedEntry, ...]]:
    """Return entries by section, each once."""
    found: dict[Section, dict[object, ParsedEntry]] = {section: {} for section in Section}
    for count, (section, entry) in enumerate(placed):
        if count == ENTRIES_READ:
            break
        key = (entry.verb, entry.ids, entry.text.casefold(), entry.claim.casefold())
        found[section].setdefault(key, entry)
    return {section: tuple(entries.values()) for section, entries in found.items() if entries}


def _prose(answer: str) -> ParsedState:
    """Return the beginning of a text without structure as something to hand over; nothing of a refusal or a tool call."""
    told = answer.strip()
    if told.startswith(_machine) or is_refusal(told):
        return ParsedState(sections={})
    sheet = read_lines(answer[:BODY_CHARS], before_headings=Section.HANDOFF)
    spoken = (read_entry(raw.text) for raw in sheet.entries if not raw.text.startswith(_machine))
    sections = _sections((Section.HANDOFF, entry) for entry in spoken if entry is not None)
    return ParsedState(sections={section: entries[:PROSE_ENTRIES] for section, entries in sections.items()})


__all__ = ["ParsedEntry", "ParsedState", "Verb", "parse_state"]
