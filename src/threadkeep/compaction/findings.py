"""Finds the sentences of the agent's answers that state a result, a decision or a measurement, word for word.

No model is asked, and next to nothing here knows a language. A finding is a sentence that stands alone, judged by its shape: it
has enough words beside names and code, ends like a sentence or is as long as one, and asks or announces nothing. Headings, table
rows, quotations, code and short list items are no findings. Sentences that name something exact, and those of a turn's last
answer, come first where there is no room for all. Findings are the agent's words and never a rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from threadkeep.compaction.speech import find_values, split_fences

FINDING_CHARS = 320
GIST_CHARS = 280
# So many findings come from the answer that ends a turn, and from a remark on the way to it.
PER_ANSWER = 3
PER_REMARK = 1
KEPT = 400
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
