"""Reads the certain effects of a shell line: the files it changes, and the runs that resolve an earlier error.

A line is split into simple commands with their words, redirections and here-documents. Uncertain parts (substitutions, loops,
unknown programs) change nothing: an unknown line yields no fact.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Literal

import msgspec

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


def strip_heredocs(text: str) -> str:
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


KEY_CHARS: Final = 200

KEYS: Final = 8

EDITS: Final = 32

Effect = Literal["changed", "deleted", "gone", "reverted"]

# Programs that only look at things. They change nothing, and their exit code says "not found" more often than "broken".
LOOKS: Final = frozenset(
    "ls cat head tail less more grep egrep fgrep rg ag ack find fd tree wc pwd which whereis type file stat du df echo printf"
    " sort uniq cut awk gawk jq yq nl date printenv true false test [ cd pushd popd ps diff cmp basename dirname realpath"
    " readlink xxd hexdump od column tr sed sleep whoami uname hostname id command bat man clear export set unset source . :"
    " strings md5sum sha256sum lsof tac rev paste comm fold env read wait open".split()
)

GIT_LOOKS: Final = frozenset(
    "status diff log show blame ls-files ls-tree grep rev-parse rev-list remote describe cat-file reflog branch config fetch"
    " merge-base shortlog name-rev whatchanged for-each-ref symbolic-ref version help".split()
)

# Programs that only change files: the file is the outcome, the command itself is not worth a line.
HOUSEKEEPING: Final = frozenset("apply_patch applypatch mv cp rm touch tee mkdir rmdir chmod chown ln".split())

# A run of one of these without a target checks everything.
WHOLE: Final = frozenset(
    (
        "pytest",
        "jest",
        "vitest",
        "mocha",
        "tox",
        "nox",
        "mypy",
        "pyright",
        "tsc",
        "cargo test",
        "go test",
        "npm test",
        "pnpm test",
    )
)

_WRAPPERS: Final = (
    *(("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("hatch", "run"), ("bundle", "exec"), ("pnpm", "exec")),
    *(("python", "-m"), ("python3", "-m"), ("npx",), ("bunx",), ("sudo",), ("time",), ("nohup",), ("command",), ("env",)),
)

_assignment = re.compile(r"[A-Za-z_]\w*\+?=")

_patch_file = re.compile(r"^\*\*\* (Add|Update|Delete) File:([^\n]+)$|^\*\*\* Move to:([^\n]+)$", re.MULTILINE)

_cd_prefix = re.compile(r"^\s*cd\s+[^\s;&|]+\s*(?:&&|;)\s*")

_absolute_cd = re.compile(r"\A\s*cd\s+(?:/[^\s;&|]*|'/[^'\n]*'|\"/[^\"\n]*\")\s*&&\s*(?=\S)")

_odd_path = re.compile(r"[\x00-\x1f\x7f]|://")

_in_place = re.compile(r"-[A-Za-z]*i(?:\.\w+)?$|-i\S*$|--in-place(?:=.*)?$|-pi\S*$")

_backup = re.compile(r"(?:\.\w+)?")

# Files that lie directly in the folder for temporary files hold what a command printed, not the work.
_scratch = re.compile(r"(?:/private)?(?:/var)?/tmp/[^/]+|/dev/.*")

# A second try at a commit has another message nearly every time.
_COMMIT: Final = "git commit"

_NOWHERE: Final = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-"))


class Edit(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a call does to one file; `by` names the program, where a shell runs it."""

    path: str
    effect: Effect = "changed"
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLine:
    """The effects of a command line, as far as it can be read.

    Attributes:
        edits: Files it changes if it succeeds.
        keys: One key for each program it runs, flags and wrappers left out; two runs of one key are runs of one thing.
        looks: Whether it does nothing but look.
        edits_only: Whether it does nothing but look and change the files in `edits`.
        certain: Whether exit code 0 means that every part succeeded.
    """

    edits: tuple[Edit, ...] = ()
    keys: tuple[str, ...] = ()
    looks: bool = False
    edits_only: bool = False
    certain: bool = False


def read_line(text: str, *, folder: str = "") -> ShellLine:
    """Return the effects of the command line `text` in `folder`; an empty folder is unknown."""
    simples = parse(text) if len(text) <= LINE_CHARS else None
    if simples is None:
        return _read_unparsed(text)
    working = [simple for simple in simples if not _is_look(simple)]
    runs = [simple for simple in working if not _is_edit(simple)]
    return ShellLine(
        edits=tuple(_find_edits(simples, folder))[:EDITS],
        keys=tuple(dict.fromkeys(key for simple in runs or working if (key := _make_key(simple))))[:KEYS],
        looks=not working,
        edits_only=bool(working) and not runs,
        certain=all(simple.behind in ("", "&&") for simple in simples),
    )


def is_rerun(done: str, failed: str) -> bool:
    """Whether a run with key `done` runs what the run with key `failed` ran."""
    return done == failed or (done in WHOLE and failed.startswith(f"{done} "))


def read_patch_edits(patch: str, *, folder: str = "") -> tuple[Edit, ...]:
    """Return the files that a patch in Codex' format changes."""
    edits: list[Edit] = []
    updated = ""
    for match in _patch_file.finditer(patch):
        if match[3] is not None:
            edits.extend((Edit(path=updated, effect="gone"),) if updated else ())
            edits.append(Edit(path=match[3].strip()))
            continue
        path = match[2].strip()
        updated = path if match[1] == "Update" else ""
        edits.append(Edit(path=path, effect="deleted" if match[1] == "Delete" else "changed"))
    placed = ((edit, resolve_path(edit.path, folder)) for edit in edits)
    return tuple(msgspec.structs.replace(edit, path=path) for edit, path in placed if path)[:EDITS]


def resolve_path(path: str, folder: str = "") -> str:
    """Return a path in its shortest spelling, below `folder` if it is relative; empty where it is no usable path."""
    if not path.strip() or len(path) > PATH_CHARS or _odd_path.search(path):
        return ""
    joined = posixpath.join(folder, path) if folder and not path.startswith("~") else path
    clean = posixpath.normpath(joined)
    return "" if clean in (".", "..", "/") or len(clean) > PATH_CHARS else clean


def strip_folder(text: str) -> str:
    """Return a command line without a leading `cd` to an absolute path."""
    return _absolute_cd.sub("", text, count=1)


def _read_unparsed(text: str) -> ShellLine:
    """Return the first program of a line that cannot be read, and one key for the whole line."""
    bare = " ".join(_cd_prefix.sub("", text[: KEY_CHARS * 4]).split())
    program = posixpath.basename(bare.split(" ")[0]) if bare else ""
    if f"{_COMMIT} " in bare:
        return ShellLine(keys=(_COMMIT,))
    looks = program in LOOKS and program not in ("cd", "export", "source", "set")
    return ShellLine(keys=(bare[:KEY_CHARS],) if bare and not looks else (), looks=looks)


def _strip_wrappers(simple: Simple) -> list[str]:
    """Return the words of a command without assignments, wrappers and the folder of its program."""
    words = [word.text for word in simple.words]
    while words:
        words = [posixpath.basename(words[0].rstrip("/")) or words[0], *words[1:]]
        if _assignment.match(words[0]):
            words = words[1:]
            continue
        if words[0] == "timeout":
            words = [word for word in words[1:] if not word.startswith("-")][1:]
            continue
        wrapper = next((wrapper for wrapper in _WRAPPERS if tuple(words[: len(wrapper)]) == wrapper), None)
        if wrapper is None or len(words) == len(wrapper):
            break
        words = words[len(wrapper) :]
    return words


def _is_look(simple: Simple) -> bool:
    words = _strip_wrappers(simple)
    if any(word.text not in _NOWHERE for word in simple.writes):
        return False
    if not words:
        return True
    program, arguments = words[0], words[1:]
    if program == "git":
        return next((word for word in arguments if not word.startswith("-")), "") in GIT_LOOKS
    if program == "sed":
        return not any(_in_place.match(word) for word in arguments)
    if program == "find":
        return not {"-delete", "-exec", "-execdir", "-ok"} & set(arguments)
    return program in LOOKS


def _is_edit(simple: Simple) -> bool:
    words = _strip_wrappers(simple)
    if not words:
        return True
    if words[0] in HOUSEKEEPING or words[0] in LOOKS:
        return True
    return words[0] == "git" and words[1:2] in (["mv"], ["rm"], ["restore"])


def _make_key(simple: Simple) -> str:
    words = [" ".join(word.split()) for word in _strip_wrappers(simple) if not word.startswith("-")]
    if words[:2] == ["git", "commit"]:
        return _COMMIT
    # Two scripts that a program reads from its input are two things.
    scripts = [blake2b(body.encode("utf-8", "replace"), digest_size=4).hexdigest() for body in simple.reads]
    return " ".join(word for word in (*words, *scripts) if word)[:KEY_CHARS]


def _find_edits(simples: tuple[Simple, ...], folder: str) -> Iterator[Edit]:
    """Yield the edits of a line's commands. A command behind `||` may not have run and yields none."""
    known, uncertain = True, False
    for simple in simples:
        uncertain = simple.behind == "||" or (uncertain and simple.behind in ("&&", "|", "|&"))
        words = _strip_wrappers(simple)
        if words and words[0] in ("cd", "pushd", "popd"):
            target = simple.words[1] if len(simple.words) == 2 and words[0] == "cd" else None
            known = known and target is not None and target.plain and not target.text.startswith("-")
            folder = posixpath.join(folder, target.text) if known and target is not None else folder
            continue
        if uncertain:
            continue
        for edit in (*_find_redirections(simple), *_find_program_edits(simple, words)):
            if not known and not edit.path.startswith(("/", "~")):
                continue
            path = edit.path if edit.path == "." else resolve_path(edit.path, folder)
            if path and not _scratch.fullmatch(path):
                yield Edit(path=path, effect=edit.effect, by=edit.by)


def _find_redirections(simple: Simple) -> Iterator[Edit]:
    if simple.words and simple.words[0].text in ("[", "test", "expr"):
        return
    for word in simple.writes:
        if word.plain and word.text not in _NOWHERE and not word.text.startswith(("/dev/", "&")):
            yield Edit(path=word.text, by=simple.program)


def _find_program_edits(simple: Simple, words: list[str]) -> Iterator[Edit]:
    """Yield the edits of a program that is known to change files."""
    if not words:
        return
    program = words[0]
    if program in ("apply_patch", "applypatch"):
        for patch in (*simple.reads, *words[1:]):
            yield from (Edit(path=edit.path, effect=edit.effect, by=program) for edit in read_patch_edits(patch))
        return
    # The words of a wrapped or prefixed command are those at the end of the line's own.
    arguments = list(simple.words[len(simple.words) - len(words) + 1 :])
    if program == "git":
        if not arguments or not arguments[0].plain:
            return
        program, arguments = f"git {arguments[0].text}", arguments[1:]
    flags = [word.text for word in arguments if word.text.startswith("-") and word.text != "--"]
    names = [word for word in arguments if not word.text.startswith("-")]
    if not all(word.plain for word in names) and program not in ("sed", "perl"):
        return
    paths = [word.text for word in names]
    match program:
        case "tee" | "touch":
            yield from (Edit(path=path, by=program) for path in paths)
        case "sed" | "perl":
            yield from (Edit(path=path, by=program) for path in _find_in_place_files(program, arguments))
        case "rm" | "git rm":
            deep = any("r" in flag.lower() for flag in flags if not flag.startswith("--")) or "--recursive" in flags
            yield from (Edit(path=path, effect="gone" if deep else "deleted", by="rm") for path in paths)
        case "mv" | "git mv" | "cp":
            yield from _find_moves(program.split()[-1], paths, flags)
        case "git restore" | "git checkout":
            whole = "." in paths
            if program == "git restore" or "--" in [word.text for word in arguments] or whole:
                behind = paths if program == "git restore" else _list_restored(arguments) or (["."] if whole else [])
                yield from (Edit(path=path, effect="reverted", by="git") for path in behind)
        case "git stash":
            if not paths or paths[0] in ("push", "save"):
                yield Edit(path=".", effect="reverted", by="git")
        case "git reset":
            if "--hard" in flags:
                yield Edit(path=".", effect="reverted", by="git")
        case _:
            return


def _list_restored(arguments: list[Word]) -> list[str]:
    texts = [word.text for word in arguments]
    return texts[texts.index("--") + 1 :] if "--" in texts else []


def _find_in_place_files(program: str, arguments: list[Word]) -> Iterator[str]:
    """Yield the files that `sed -i` or `perl -i` rewrites."""
    in_place = scripted = False
    names: list[Word] = []
    skip = False
    for index, word in enumerate(arguments):
        if skip:
            skip = False
        elif word.text.startswith("-") and word.text != "-":
            in_place = in_place or _in_place.match(word.text) is not None
            takes = word.text in ("-e", "-f", "--expression", "--file") or (program == "perl" and word.text.endswith("e"))
            scripted = scripted or takes or word.text.startswith(("--expression=", "--file="))
            # The BSD form gives the suffix of the backup as a word of its own, nearly always an empty one.
            backup = word.text == "-i" and index + 1 < len(arguments) and _backup.fullmatch(arguments[index + 1].text)
            skip = takes or bool(backup)
        else:
            names.append(word)
    files = names if scripted else names[1:]
    if in_place and (scripted or program == "sed"):
        yield from (word.text for word in files if word.plain)


def _find_moves(program: str, paths: list[str], flags: list[str]) -> Iterator[Edit]:
    """Yield what `mv` and `cp` leave behind. A name without an ending could be a folder: it is not reported."""
    if len(paths) < 2 or any(flag.startswith(("-t", "--target")) for flag in flags):
        return
    *sources, target = paths
    if program == "mv":
        yield from (Edit(path=path, effect="gone", by=program) for path in sources)
    deep = program == "cp" and any("r" in flag.lower() or flag == "-a" for flag in flags)
    named = len(sources) == 1 and posixpath.splitext(target)[1] and not target.endswith("/")
    if named and not deep:
        yield Edit(path=target, by=program)
    elif (target.endswith("/") or len(sources) > 1 or target in (".", "..")) and not deep:
        files = (posixpath.basename(path) for path in sources if posixpath.splitext(path)[1])
        yield from (Edit(path=posixpath.join(target, name), by=program) for name in files)
