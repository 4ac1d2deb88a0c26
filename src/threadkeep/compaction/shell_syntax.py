"""Parses a shell command line into its simple commands; a line that is not plain is not parsed.

Plain means: words, quotes, redirections, here-documents, and the operators between commands. Substitutions, subshells, loops and
conditions are not.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

PATH_CHARS: Final = 200

# A longer line is not read; people and agents do not write such a line by hand, and reading it costs time.
LINE_CHARS: Final = 400_000

COMMANDS: Final = 500

_KEYWORDS: Final = frozenset("if then elif else fi for while until do done case esac select function { } [[ (( coproc".split())

_token = re.compile(
    r"""(?P<blank>(?:[ \t\r]|\\\r?\n)+)
      | (?P<heredoc><<(?P<dash>-?)(?!<)[ \t]*(?:'(?P<single>[^'\n]+)'|"(?P<double>[^"\n]+)"|\\?(?P<bare>[\w.!+-]+)))
      | (?P<redirect>(?:\d+(?=[<>])|&(?=>))?(?:<<<|>\||>>|>&|<&|<>|>|<))
      | (?P<operator>&&|\|\||\|&|;;|[;&|\n()])
      | '(?P<literal>[^']*)'
      | "(?P<quoted>(?:[^"\\]|\\.)*)"
      | \\(?P<escaped>.)
      | (?P<bare_text>[^\s'"\\;&|()<>]+)
    """,
    re.VERBOSE | re.DOTALL,
)

_expansion = re.compile(r"[$`*?\[\]]|\{[^}]*(?:,|\.\.)[^}]*\}")

_escape = re.compile(r"\\([\"\\$`\n])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word; `plain` where the shell leaves it as it stands."""

    text: str
    plain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Simple:
    """One command of a line. `behind` is the operator in front of it; `reads` are its here-documents."""

    words: tuple[Word, ...]
    behind: str = ""
    writes: tuple[Word, ...] = ()
    reads: Sequence[str] = ()

    @property
    def program(self) -> str:
        return posixpath.basename(self.words[0].text) if self.words else ""


def without_heredocs(text: str) -> str:
    """Return a command line without the bodies of its here-documents, for people to read."""
    lines: list[str] = []
    waiting: list[tuple[str, bool]] = []
    for line in text[:LINE_CHARS].split("\n"):
        if waiting:
            delimiter, tabs = waiting[0]
            if (line.lstrip("\t") if tabs else line).rstrip("\r") == delimiter:
                waiting.pop(0)
            continue
        lines.append(line)
        if "<<" in line:
            found = (match for match in _token.finditer(line) if match.lastgroup and match["heredoc"])
            waiting = [(match["single"] or match["double"] or match["bare"], bool(match["dash"])) for match in found]
    return "\n".join(lines)


def parse(text: str) -> tuple[Simple, ...] | None:
    """Return the simple commands of a line, or None where it holds anything this module does not read."""
    reader = _Reader()
    position = 0
    while position < len(text):
        match = _token.match(text, position)
        if match is None:
            return None
        position = match.end()
        if match["blank"] is not None:
            fine = reader.end_word(blank=True)
        elif match["heredoc"] is not None:
            fine = reader.end_word()
            reader.await_body(match["single"] or match["double"] or match["bare"], tabs=bool(match["dash"]))
        elif match["redirect"] is not None:
            fine = reader.redirect(match["redirect"])
        elif match["operator"] is not None:
            fine = reader.end_command(match["operator"])
            position = reader.read_bodies(text, position) if match["operator"] == "\n" else position
        elif match["bare_text"] is not None and match["bare_text"].startswith("#") and reader.part is None:
            line_end = text.find("\n", position)
            position = len(text) if line_end < 0 else line_end
            fine = True
        else:
            fine = reader.add(match)
        if not fine or len(reader.done) > COMMANDS:
            return None
    return tuple(reader.done) if reader.end_command("") and not any(map(_is_compound, reader.done)) else None


class _Reader:
    """The commands read so far, and the one being read."""

    def __init__(self) -> None:
        self.done: list[Simple] = []
        self.part: str | None = None
        self._plain = True
        self._target = ""
        self._behind = ""
        self._words: list[Word] = []
        self._writes: list[Word] = []
        self._reads: list[str] = []
        self._waiting: list[tuple[str, bool, list[str]]] = []

    def add(self, match: re.Match[str]) -> bool:
        """Add a piece to the word being read; false where the piece runs a command of its own."""
        kind = match.lastgroup or ""
        content = match[kind]
        if kind in ("quoted", "bare_text"):
            if "$(" in content or "`" in content:
                return False
            self._plain = self._plain and len(content) <= PATH_CHARS and not _expansion.search(content)
        if kind == "quoted":
            content = _escape.sub(r"\1", content)
        self.part = content if self.part is None else self.part + content
        return True

    def end_word(self, *, blank: bool = False) -> bool:
        """End the word being read; false where a redirection has no target."""
        if self.part is None:
            return blank or not self._target
        word = Word(text=self.part, plain=self._plain)
        if self._target == "":
            self._words.append(word)
        elif self._target == ">":
            self._writes.append(word)
        self.part, self._plain, self._target = None, True, ""
        return True

    def redirect(self, operator: str) -> bool:
        fine = self.end_word()
        self._target = ">" if operator in (">", ">>", ">|", "1>", "1>>") else "other"
        return fine

    def await_body(self, delimiter: str, *, tabs: bool) -> None:
        self._waiting.append((delimiter, tabs, self._reads))

    def end_command(self, operator: str) -> bool:
        if operator in ("(", ")") or not self.end_word():
            return False
        if self._words or self._writes:
            command = Simple(words=tuple(self._words), behind=self._behind, writes=tuple(self._writes), reads=self._reads)
            self.done.append(command)
            self._behind = operator
        elif operator != "\n":
            self._behind = operator
        self._words, self._writes, self._reads = [], [], []
        return True

    def read_bodies(self, text: str, position: int) -> int:
        """Read the here-documents that begin at `position` and return where they end."""
        for delimiter, tabs, body in self._waiting:
            start = position
            while position < len(text):
                line_end = text.find("\n", position)
                line_end = len(text) if line_end < 0 else line_end
                line = text[position:line_end].rstrip("\r")
                if (line.lstrip("\t") if tabs else line) == delimiter:
                    break
                position = line_end + 1
            body.append(text[start:position])
            line_end = text.find("\n", position)
            position = len(text) if line_end < 0 else line_end + 1
        self._waiting = []
        return position


def _is_compound(simple: Simple) -> bool:
    return bool(simple.words) and simple.words[0].text in _KEYWORDS
