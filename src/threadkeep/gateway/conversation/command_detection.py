"""Recognises the commands that a person types in a chat, such as `tk status`, and signs their answers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import blake2b
from hmac import compare_digest
from typing import Literal, cast, get_args

from threadkeep.dialects import Dialect
from threadkeep.items import Item, ItemKind, Role, View

Verb = Literal["compact", "status", "undo", "recall", "pin", "unpin", "note", "help"]
VERBS: tuple[str, ...] = get_args(Verb)
# These stand alone: "Tk status bar flickers" is a sentence about something else.
ALONE = frozenset({"status", "undo", "help"})
# How much a mistyped verb must look like a real one.
ALIKE = 0.8

# Ends whatever the gateway says by itself, with a proof behind it: a client that drops the command may keep the answer to it, and
# a model that was shown such an answer may end its own like it.
SIGNATURE = "(Said by threadkeep; the model never sees it. "
PROOF_BYTES = 5
_signature = re.compile(re.escape(SIGNATURE) + rf"([0-9a-f]{{{2 * PROOF_BYTES}}})\)\s*$")

# A host that knows the command as one of its own templates names it in an element, and its arguments in another: the first thing
# in its message, before what the template says. Further down the same signs are quoted: a log, a file, somebody else's words.
_template = re.compile(
    r"(?:<command-message>[^<]*</command-message>\s*)?<command-name>(?P<name>\S+?)</command-name>\s*"
    r"(?:<command-message>[^<]*</command-message>\s*)?(?:<command-args>(?P<arguments>.*?)</command-args>)?",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandNames:
    """The first words that address the gateway: those that compact at once, and those that a verb follows."""

    compact: tuple[str, ...] = ("/compact", "/codex-compact")
    control: tuple[str, ...] = ("tk",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What the gateway is asked to do; `argument` is the focus, the question, the note, or the verb that does not exist."""

    verb: Verb
    argument: str | None = None


def find_command(view: View, names: CommandNames) -> Command | None:
    """Return the command in a message, if it is one.

    Its whole first word is a command's name. Behind `tk` a verb follows as the second word; `status`, `undo` and `help` end the
    message. `tk` alone, and `tk` with one word that looks like a verb, ask for help. All else is for the model.

    Text that a host puts around what was typed is not looked at. Some clients hand over a line in quotes.
    """
    if view.kind is not ItemKind.MESSAGE or view.role is not Role.USER:
        return None
    return _find_template(view.text, names) or (_find_typed(view.said, names) if view.by_person else None)


def _find_typed(said: str, names: CommandNames) -> Command | None:
    text = said.strip()
    if len(text) > 1 and text[0] == text[-1] == '"' and text.count('"') == 2:
        text = text[1:-1].strip()
    first, rest = _split_word(text)
    if first in names.compact:
        return Command(verb="compact", argument=rest or None)
    return _find_control(rest) if _is_named(first, names.control) else None


def _find_template(text: str, names: CommandNames) -> Command | None:
    """Return the command a host's own template is called by. `/compact` is left out: that one is the host's.

    A template's name begins with a slash, and whoever calls it means the gateway: a verb that does not exist asks for help.
    """
    found = _template.match(text)
    if found is None or found["name"] == "/compact":
        return None
    name, rest = found["name"], (found["arguments"] or "").strip()
    if name in names.compact:
        return Command(verb="compact", argument=rest or None)
    if not _is_named(name, names.control) and not _is_named(name.removeprefix("/"), names.control):
        return None
    return _find_control(rest) or Command(verb="help", argument=_split_word(rest)[0])


def _find_control(rest: str) -> Command | None:
    """Return the command behind `tk`; None where it is an ordinary sentence."""
    word, argument = _split_word(rest)
    verb = word.lower()
    if not verb:
        return Command(verb="help")
    if verb in VERBS and not (argument and verb in ALONE):
        return Command(verb=cast(Verb, verb), argument=argument or None)
    return Command(verb="help", argument=word) if not argument and guess_verb(verb) else None


def guess_verb(word: str) -> str | None:
    """Return the verb that a mistyped word looks like, if any."""
    return next(iter(get_close_matches(word.lower(), VERBS, n=1, cutoff=ALIKE)), None)


def _split_word(text: str) -> tuple[str, str]:
    """Return the first word of a text, and the rest."""
    first, *rest = text.split(None, 1) or [""]
    return first, rest[0].strip() if rest else ""


def _is_named(word: str, names: tuple[str, ...]) -> bool:
    """Whether a word is one of the names; `Tk` at the start of a sentence is `tk`."""
    return word in names or (word.isascii() and word.lower() in map(str.lower, names))


def keep_host_parts(item: Item, *, dialect: Dialect) -> Item | None:
    """Return a typed command without the parts that hold a person's words: what its host tells the model in the same message.

    None where nothing is left, and for a host's own template, which is a command as a whole.
    """
    return None if _template.match(dialect.view(item).text) else dialect.keep_host_parts(item)


def sign(text: str, *, key: bytes) -> str:
    """Return an answer of the gateway with its signature, which only the tenant's key can make."""
    return f"{text}\n\n{SIGNATURE}{_proof(text, key)})"


def is_signed(view: View, *, key: bytes) -> bool:
    """Whether an assistant message is an answer of the gateway, signed with the tenant's key."""
    if view.kind is not ItemKind.MESSAGE or view.role is not Role.ASSISTANT:
        return False
    found = _signature.search(view.text)
    return found is not None and compare_digest(found[1], _proof(view.text[: found.start()], key))


def _proof(text: str, key: bytes) -> str:
    # Clients keep the words, not always the space between them.
    words = " ".join(text.split())
    return blake2b(words.encode("utf-8", "replace"), key=key, digest_size=PROOF_BYTES, person=b"gateway-said").hexdigest()


def mark_asides(
    commands: Iterable[bool], answers: Iterable[bool], signatures: Iterable[bool], hosts: Iterable[bool]
) -> list[bool]:
    """Return, for each item, whether it was said between a person and the gateway: a command, or the answer to it.

    Decided by content alone, so that a history a client resends to a gateway that never saw it comes out the same.

    Args:
        commands: For each item, whether it is a command.
        answers: For each item, whether it is a message of the assistant's.
        signatures: For each item, whether the gateway signed it.
        hosts: For each item, whether a host wrote it. Between a command and its answer such items may stand; they are no asides.
    """
    found: list[bool] = []
    asked = answered = False
    for command, answer, own, host in zip(commands, answers, signatures, hosts, strict=True):
        answered = answer and (asked or answered)
        asked = command or (asked and host)
        found.append(command or answered or own)
    return found
