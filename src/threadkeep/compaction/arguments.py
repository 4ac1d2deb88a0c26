"""What a call was given: the leaves of its arguments, and the words of its command lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

# Longer than this, or over several lines, an argument is text that is written somewhere, and names nothing by itself.
SHORT_LEAF_CHARS = 400
PHRASE_BYTES = 6
PHRASE_CHARS = 120
LEAVES_READ = 64

_COMMANDS = frozenset({"cmd", "command", "script", "commands", "code", "shell", "args", "argv"})
# More words than this, and it is a sentence to someone: its words name nothing one by one.
NAMING_WORDS = 3
# How much of something to show, or where to begin: figures of the looking, not of what was seen.
_SIZES = re.compile(r"offset|limit|line|lines|start|end|range|timeout|page|tokens|chars|bytes|ms|n|num|width|height")
_word = re.compile(r"\"([^\"]*)\"|'([^']*)'|([^\s\"'|;&<>()`]+)|([|;&]+)")
_assignment = re.compile(r"(?:--?)?[\w.-]+=(.+)", re.DOTALL)
_SPACED = re.compile(r"\s|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_code = re.compile(r"[(){};<>=\\$^]")
_EDGES = ".,:;!?\"'`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One text or figure of a call's arguments, under the name it was given; a name is empty where there is none.

    `place` is its place in the list it stands in: of a command given word by word, the first is the command.
    """

    name: str
    text: str
    figure: bool = False
    place: int = 0


def leaves(arguments: str) -> list[Leaf]:
    """Return the leaves of a call's arguments, in order; the whole text where it is no JSON.

    Some dialects put what the agent said before its calls, and several calls, into one item: each line that is JSON is one call.
    """
    whole = _decoded(arguments)
    if whole is not None:
        return list(_found(whole))
    values = [value for line in arguments.split("\n") if line[:1] in "{[" and (value := _decoded(line)) is not None]
    if values:
        return [leaf for value in values for leaf in _found(value)]
    spoken = len(arguments) <= SHORT_LEAF_CHARS and "\n" not in arguments
    return [Leaf(name="command" if spoken else "", text=arguments)]


def words_of(leaf: Leaf) -> Iterator[tuple[str, str]]:
    """Yield what a leaf may name, each with what it is given as: the name of the argument, or the option before the word.

    That is the whole of it, and the words of a command line but for commands and options.
    """
    if leaf.figure:
        if not _SIZES.fullmatch(leaf.name.casefold().split("_")[-1]):
            yield leaf.text, leaf.name
        return
    if len(leaf.text) > SHORT_LEAF_CHARS or "\n" in leaf.text:
        return
    if (not is_command(leaf) or _is_word_of_a_command(leaf)) and not _SPACED.search(leaf.text):
        yield leaf.text.strip(_EDGES), leaf.name
    if is_command(leaf) or len(leaf.text.split()) <= NAMING_WORDS:
        yield from _command_words(leaf.text)


def is_command(leaf: Leaf) -> bool:
    """Whether a leaf is a command line, or part of one."""
    return leaf.name.casefold() in _COMMANDS


def _is_word_of_a_command(leaf: Leaf) -> bool:
    return leaf.place > 0 and not leaf.text.startswith("-")


def is_text(leaf: Leaf) -> bool:
    """Whether a leaf is text to be written somewhere: what it holds is not what the call is about."""
    return not is_command(leaf) and (len(leaf.text) > SHORT_LEAF_CHARS or "\n" in leaf.text)


def phrases_of(leaf: Leaf) -> Iterator[str]:
    """Yield what a leaf names in several words: the whole of it, or what it quotes; nothing that reads like code."""
    if leaf.figure or len(leaf.text) > SHORT_LEAF_CHARS or "\n" in leaf.text:
        return
    quoted = [found[1] or found[2] or "" for found in _word.finditer(leaf.text) if found[1] or found[2]]
    whole = [] if is_command(leaf) else [leaf.text]
    for phrase in (*whole, *quoted):
        bare = phrase.strip()
        fits = len(bare.encode("utf-8", "replace")) >= PHRASE_BYTES and len(bare) <= PHRASE_CHARS
        if fits and _SPACED.search(bare) and not _code.search(bare):
            yield bare


def _command_words(text: str) -> Iterator[tuple[str, str]]:
    begins, before = True, ""
    for found in _word.finditer(text):
        if found[4]:
            begins = True
            continue
        word = found[1] or found[2] or found[3] or ""
        if assigned := _assignment.fullmatch(word):
            yield assigned[1].strip(_EDGES), word.partition("=")[0]
            continue
        if not begins and not word.startswith("-"):
            yield word.strip(_EDGES), before
        begins, before = False, word


def _decoded(text: str) -> object | None:
    try:
        value: object = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return value


def _found(value: object) -> Iterator[Leaf]:
    """Walk without recursion: how deep arguments go is a model's choice."""
    waiting: list[tuple[str, object, int]] = [("", value, 0)]
    read = 0
    while waiting and read < LEAVES_READ:
        name, node, place = waiting.pop()
        if isinstance(node, dict):
            waiting.extend((str(key), inner, 0) for key, inner in reversed(node.items()))
        elif isinstance(node, list):
            waiting.extend((name, inner, at) for at, inner in reversed(list(enumerate(node))))
        elif isinstance(node, str):
            read += 1
            yield Leaf(name=name, text=node, place=place)
        elif isinstance(node, int | float) and not isinstance(node, bool):
            read += 1
            yield Leaf(name=name, text=str(node), figure=True, place=place)
