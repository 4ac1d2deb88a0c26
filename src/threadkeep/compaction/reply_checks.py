"""Checks whether a model's answer can be a draft at all, for every strategy that reads answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from threadkeep.compaction.draft import DraftRefused
from threadkeep.compaction.state_text import TAG
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
