"""Collects turns with their outcome, findings and facts from a thread's records, in order.

Every checkpoint holds the journal, so a compaction reads only the records since the last one.

A finding is a sentence of the agent's answers that states a result, a decision or a measurement, word for word. No model is
asked, and next to nothing here knows a language: the sentence stands alone, judged by its shape. It has enough words beside names
and code, ends like a sentence or is as long as one, and asks or announces nothing. Headings, table rows, quotations, code and
short list items are no findings. Sentences that name something exact, and those of a turn's last answer, come first where there
is no room for all. Findings are the agent's words and never a rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from threadkeep.compaction.facts.facts import Facts, ObservedItem, fold, tell_work
from threadkeep.compaction.message_judgement import find_values, is_acknowledgement
from threadkeep.compaction.message_shortener import split_fences
from threadkeep.items import ItemKind, Role

TURNS_KEPT = 12
WORK_KEPT = 6
# A short beginning: the message itself stands in the state or behind it.
ASKED_CHARS = 72
FINDING_CHARS = 320
GIST_CHARS = 280
# So many findings come from the answer that ends a turn, and from a remark on the way to it.
PER_ANSWER = 3
PER_REMARK = 1
FINDINGS_KEPT = 400
# The fewest words beside code and asides: of a sentence that names something exact, of one that does not, and of a line without
# a full stop. Remarks are mostly about the next step, so more is asked of them.
LEAST_WORDS = 4
LEAST_PLAIN_WORDS = 7
LEAST_LINE_WORDS = 10
LEAST_REMARK_WORDS = (7, 12)

_abbreviated = r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bcf\.)"
_sentence_end = re.compile(
    rf"(?<=[.!?…]){_abbreviated}[\"'”’)\]*_`]*\s+(?=[\"'“‘(\[*_`A-ZÀ-ÖØ-Þ0-9\u0400-\u042f])|(?<=[。！？；])"
)
_bullet = re.compile(r"^\s*(?:(?:[-*•‣·]|\d{1,3}[.)])\s+)+(?:\[[ xX]\]\s+)?")
_code = re.compile(r"`[^`]*`")
_aside = re.compile(r"\([^()]*\)")
_word = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
# Scripts that set no blanks between words.
_unspaced = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_enumeration = re.compile(r"(?<!\w)\w\)")
_closing_marks = "\"'”’)]*_` "
# The agent announcing its next step, or offering one, found nothing yet.
_announces = re.compile(
    r"(?:let me|let['’]s|(?:i|we)(?:['’]ll| will| need to| can(?!['’])|['’](?:m|re) going to)|please|if you|next|first|then)\b"
    r"|.*\b(?:let me know|feel free|please)\b",
    re.IGNORECASE,
)


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One sentence of the agent's, where it stands, and how much it is worth beside others."""

    text: str
    source: str
    worth: int = 0


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of a person and its outcome: the agent's last answer, files changed, commands run.

    `earlier` is the agent's answer before the person asked it to go on.
    """

    asked: str
    source: str
    earlier: str = ""
    answer: str = ""
    answered: str | None = None
    work: tuple[str, ...] = ()


class Journal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything folded in so far; records below `upto` are in it.

    `first` is the record of the first request, `began` that of the first one the agent used a tool for.
    """

    upto: int = 0
    first: str = ""
    began: str = ""
    facts: Facts = msgspec.field(default_factory=Facts)
    turns: tuple[Turn, ...] = ()
    findings: tuple[Finding, ...] = ()

    def drop_open_calls(self) -> Journal:
        """Return the journal of a history that was rewritten: what its open calls led to may have gone with it."""
        return msgspec.structs.replace(self, facts=msgspec.structs.replace(self.facts, open_calls=()))


def advance(journal: Journal, items: Sequence[ObservedItem]) -> Journal:
    """Return the journal with these items, oldest first, folded in; those it holds already are passed over."""
    fresh = [seen for seen in items if seen.source.ordinal >= journal.upto]
    if not fresh:
        return journal
    turns = list(journal.turns)
    findings = list(journal.findings)
    first, began, facts = journal.first, journal.began, journal.facts
    for run in _split_runs(fresh):
        request = run[0]
        if _is_request(request):
            turns.append(Turn(asked=_shorten_line(request.view.said, ASKED_CHARS), source=str(request.source)))
            first = first or str(request.source)
        elif turns and _is_message(request):
            turns[-1] = _resume_turn(turns[-1])
        if turns and not began and any(seen.view.kind is ItemKind.CALL for seen in run):
            began = turns[-1].source
        spoken = [seen for seen in run if _is_answer(seen) or seen.view.kind is ItemKind.CALL]
        for seen in spoken:
            findings.extend(
                find_findings(_read_words(seen), source=str(seen.source), concludes=_is_answer(seen) and seen is spoken[-1])
            )
        before, facts = facts, fold(facts, run)
        if turns:
            turns[-1] = _record_outcome(turns[-1], tell_work(before, facts), spoken[-1] if spoken else None)
    return Journal(
        upto=fresh[-1].source.ordinal + 1,
        first=first,
        began=began,
        facts=facts,
        turns=tuple(turns[-TURNS_KEPT:]),
        findings=tuple(_select_best(findings)),
    )


def _resume_turn(turn: Turn) -> Turn:
    """Return a turn that a person asked to continue: it has no answer yet, and keeps its earlier one."""
    return msgspec.structs.replace(turn, earlier=turn.answer or turn.earlier, answer="", answered=None)


def _record_outcome(turn: Turn, done: Sequence[str], last: ObservedItem | None) -> Turn:
    """Return a turn with the work that was done; `last` is the agent's last message or call, and only a message answers."""
    work = tuple(dict.fromkeys((*turn.work, *done)))[-WORK_KEPT:]
    if last is None:
        return msgspec.structs.replace(turn, work=work)
    if not _is_answer(last):
        return msgspec.structs.replace(turn, answer="", answered=None, work=work)
    return msgspec.structs.replace(turn, answer=shorten_answer(last.view.text), answered=str(last.source), work=work)


def _split_runs(items: Sequence[ObservedItem]) -> Iterable[list[ObservedItem]]:
    """Yield items from one message of a person to the next; the first run may go on with a turn begun before."""
    run: list[ObservedItem] = []
    for seen in items:
        if run and _is_message(seen):
            yield run
            run = []
        run.append(seen)
    if run:
        yield run


def _is_message(seen: ObservedItem) -> bool:
    return seen.view.kind is ItemKind.MESSAGE and seen.view.by_person


def _is_request(seen: ObservedItem) -> bool:
    return _is_message(seen) and not is_acknowledgement(seen.view.said)


def _is_answer(seen: ObservedItem) -> bool:
    return seen.view.kind is ItemKind.MESSAGE and seen.view.role is Role.ASSISTANT and bool(seen.view.text.strip())


def _read_words(seen: ObservedItem) -> str:
    return seen.view.text if seen.view.kind is ItemKind.MESSAGE else seen.view.words


def _select_best(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings worth keeping, in order: each text once at its newest place, the most telling if there are too many."""
    newest: dict[str, Finding] = {}
    for finding in findings:
        newest.pop(finding.text, None)
        newest[finding.text] = finding
    latest = list(newest.values())
    if len(latest) <= FINDINGS_KEPT:
        return latest
    ranked = sorted(range(len(latest)), key=lambda index: (latest[index].worth, index), reverse=True)[:FINDINGS_KEPT]
    return [latest[index] for index in sorted(ranked)]


def _shorten_line(text: str, chars: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= chars else f"{flat[: chars - 1].rstrip()}…"


def find_findings(text: str, *, source: str, concludes: bool) -> list[Finding]:
    """Return the findings of one message of the agent's, in order; `concludes` says that it ended a turn."""
    found = [
        Finding(text=sentence, source=source, worth=worth + 2 * concludes)
        for sentence in dict.fromkeys(_split_sentences(text))
        if (worth := _rate_sentence(sentence, concludes=concludes)) is not None
    ]
    best = sorted(found, key=lambda each: -each.worth)[: PER_ANSWER if concludes else PER_REMARK]
    return [each for each in found if each in best]


def shorten_answer(text: str) -> str:
    """Return the beginning of an answer on one line; nothing where the whole of it is a word or two.

    Nothing in it is passed over but headings and code: "Not yet." or "I cannot do that." may decide what the rest means.
    """
    flat = " ".join(line if line[-1] in ".:!?;。：！？；" else f"{line};" for line in _read_prose(text)).rstrip(";")
    least = LEAST_LINE_WORDS if flat.endswith(("?", "？")) else LEAST_WORDS
    if _count_words(flat) < least and not any(char.isdigit() for char in flat):
        return ""
    return flat if len(flat) <= GIST_CHARS else f"{flat[: GIST_CHARS - 1].rstrip()}…"


def _rate_sentence(sentence: str, *, concludes: bool) -> int | None:
    """Return the rank of a sentence; None where it does not stand alone, asks or announces."""
    bare = sentence.rstrip(_closing_marks)
    if not bare or bare[-1] in "?:？：" or _announces.match(sentence) or not _is_whole(sentence):
        return None
    if not concludes and sentence.startswith("Now "):
        return None
    # A word with a hyphen in it is a word.
    values = sum("-" not in value or not value.replace("-", "").isalpha() for value in find_values(sentence))
    words = _count_words(sentence)
    is_ended = bare[-1] in ".…!;。！；"
    least = (LEAST_WORDS, LEAST_PLAIN_WORDS) if concludes else LEAST_REMARK_WORDS
    if words < least[not values] or (not is_ended and words < LEAST_LINE_WORDS):
        return None
    return None if bare[-1] in "!！" and not values else min(values, 3)


def _count_words(sentence: str) -> int:
    """Return how many words stand beside code and asides; two characters of a script without blanks count as one."""
    plain = _aside.sub(" ", _code.sub(" ", sentence))
    return len(_word.findall(_unspaced.sub(" ", plain))) + len(_unspaced.findall(plain)) // 2


def _is_whole(sentence: str) -> bool:
    """Whether a sentence was not cut in its middle: no bracket or code span reaches beyond it, and it begins with no aside."""
    plain = _enumeration.sub("", _code.sub("", sentence))
    return "`" not in plain and plain.count("(") == plain.count(")") and not plain.startswith("(")


def _split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, each on one line and of a readable length."""
    for line in _read_prose(text):
        yield from (sentence for sentence in _sentence_end.split(line) if 0 < len(sentence) <= FINDING_CHARS)


def _read_prose(text: str) -> Iterator[str]:
    """Yield the lines of a text without bullets; code, headings, table rows, quotations, elements and thoughts left out."""
    for is_fenced, block in split_fences(_strip_thought(text)):
        for line in block if not is_fenced else ():
            bare = line.strip()
            if told := "" if bare.startswith(("|", ">", "<", "#")) else " ".join(_bullet.sub("", bare).split()):
                yield told


def _strip_thought(text: str) -> str:
    """Return a text without the thoughts it begins with, where a model writes them into its answer."""
    for name in ("think", "thinking"):
        thought, closing, rest = text.partition(f"</{name}>")
        if closing and thought.lstrip().startswith(f"<{name}>"):
            return rest
    return text
