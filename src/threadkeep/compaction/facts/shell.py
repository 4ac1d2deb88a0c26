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
# Stands before a word that the shell changes: no path can be read from it.
CHANGED: Final = "\0"
KEY_CHARS: Final = 200
KEYS: Final = 8
EDITS: Final = 32
# A longer line, here-documents left out, is not read: nobody writes one by hand.
LINE_CHARS: Final = 20_000

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
HOUSEKEEPING: Final = frozenset(
    "apply_patch,applypatch,mv,cp,rm,touch,tee,mkdir,rmdir,chmod,chown,ln,git mv,git rm,git restore".split(",")
)
# A run of one of these without a target checks everything.
WHOLE: Final = frozenset("pytest,jest,vitest,mocha,tox,nox,mypy,pyright,tsc,cargo test,go test,npm test,pnpm test".split(","))
# A second try at a commit has another message nearly every time.
COMMIT: Final = "git commit"

_KEYWORDS: Final = frozenset("if then elif else fi for while until do done case esac select function { } [[ (( coproc".split())
_WRAPPERS: Final = (
    *(("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("hatch", "run"), ("bundle", "exec"), ("pnpm", "exec")),
    *(("python", "-m"), ("python3", "-m"), ("npx",), ("bunx",), ("sudo",), ("time",), ("nohup",), ("command",), ("env",)),
)
# Files that lie directly in the folder for temporary files hold what a command printed, not the work.
_scratch = re.compile(r"(?:/private)?(?:/var)?/tmp/[^/]+|/dev/.*")

_heredoc = re.compile(r"(?<!<)<<(-?)(?!<)[ \t]*\\?(['\"]?)([\w.!+-]+)\2")
_token = re.compile(
    r"""(?P<blank>(?:[ \t\r]|\\\r?\n)+|\#[^\n]*)
      | (?P<heredoc><<-?(?!<)[ \t]*\\?(?:'[^'\n]+'|"[^"\n]+"|[\w.!+-]+))
      | (?P<redirect>(?:\d+(?=[<>])|&(?=>))?(?:<<<|>\||>>|>&|<&|<>|>|<))
      | (?P<operator>&&|\|\||\|&|;;|[;&|\n()])
      | (?P<word>(?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\;&|()<>])+)
      | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_piece = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^'"\\]+)""", re.DOTALL)
_expansion = re.compile(r"[$`*?\[\]]|\{[^}]*(?:,|\.\.)[^}]*\}")
_escape = re.compile(r"\\([\"\\$`\n])")
_assignment = re.compile(r"\x00?[A-Za-z_]\w*\+?=")
_cd_prefix = re.compile(r"^\s*cd\s+[^\s;&|]+\s*(?:&&|;)\s*")
_absolute_cd = re.compile(r"\A\s*cd\s+(?:/[^\s;&|]*|'/[^'\n]*'|\"/[^\"\n]*\")\s*&&\s*(?=\S)")
_odd_path = re.compile(r"[\x00-\x1f\x7f]|://")
_patch_file = re.compile(r"^\*\*\* (Add|Update|Delete) File:([^\n]+)$|^\*\*\* Move to:([^\n]+)$", re.MULTILINE)
# Flags of sed and perl: to rewrite files in place, and to take the next word as a script. BSD's sed takes the suffix of a backup
# as a word of its own, nearly always an empty one.
_in_place = re.compile(r"-[a-z0-9E]*i\S*|--in-place\S*")
_script_flag = re.compile(r"-[A-Za-z0-9]*[ef]|--expression|--file")
_backup = re.compile(r"(?:\.\w+)?")


class Edit(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a call does to one file."""

    path: str
    effect: Effect = "changed"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Command:
    """One command of a line, without assignments and wrappers. `behind` is the operator in front of it; `reads` are its
    here-documents.
    """

    program: str
    arguments: tuple[str, ...]
    behind: str
    writes: Sequence[str]
    reads: Sequence[str]


def read_line(text: str, *, folder: str = "") -> ShellLine:
    """Return the effects of the command line `text` in `folder`; an empty folder is unknown."""
    commands = _parse(text)
    if commands is None:
        return _read_unparsed(text)
    working = [command for command in commands if not _is_look(command)]
    runs = [command for command in working if not _is_edit(command)]
    return ShellLine(
        edits=tuple(_find_edits(commands, folder))[:EDITS],
        keys=tuple(dict.fromkeys(key for command in runs or working if (key := _make_key(command))))[:KEYS],
        looks=not working,
        edits_only=bool(working) and not runs,
        certain=all(command.behind in ("", "&&") for command in commands),
    )


def is_rerun(done: str, failed: str) -> bool:
    """Whether a run with key `done` runs what the run with key `failed` ran."""
    return done == failed or (done in WHOLE and failed.startswith(f"{done} "))


def read_patch_edits(patch: str) -> tuple[Edit, ...]:
    """Return the files that a patch in Codex' format changes."""
    edits: list[Edit] = []
    updated = ""
    for verb, named, moved in _patch_file.findall(patch):
        path = resolve_path((named or moved).strip())
        if moved and updated:
            edits.append(Edit(path=updated, effect="gone"))
        if path:
            edits.append(Edit(path=path, effect="deleted" if verb == "Delete" else "changed"))
        updated = path if verb == "Update" else ""
    return tuple(edits[:EDITS])


def resolve_path(path: str, folder: str = "") -> str:
    """Return a path in its shortest spelling, below `folder` if it is relative; empty where it is no usable path."""
    if not path.strip() or len(path) > PATH_CHARS or _odd_path.search(path):
        return ""
    joined = posixpath.join(folder, path) if folder and not path.startswith("~") else path
    clean = posixpath.normpath(joined)
    return "" if clean in (".", "..", "/") or len(clean) > PATH_CHARS else clean


def shorten_line(text: str) -> str:
    """Return a command line for people to read: without here-documents and without a leading `cd` to an absolute path."""
    return _absolute_cd.sub("", _split_heredocs(text)[0], count=1)


def _split_heredocs(text: str) -> tuple[str, list[str]]:
    """Return a command line without the bodies of its here-documents, and these."""
    lines: list[str] = []
    bodies: list[list[str]] = []
    waiting: list[tuple[str, str, str]] = []
    for line in text.split("\n"):
        if not waiting:
            lines.append(line)
            waiting = _heredoc.findall(line) if "<<" in line else []
            bodies.extend([] for _ in waiting)
            continue
        tabs, _, delimiter = waiting[0]
        if (line.lstrip("\t") if tabs else line).rstrip("\r") == delimiter:
            waiting.pop(0)
        else:
            bodies[-len(waiting)].append(line)
    return "\n".join(lines), ["\n".join(body) for body in bodies]


def _parse(text: str) -> list[_Command] | None:
    """Return the commands of a line, or None where it holds anything this module does not read."""
    line, bodies = _split_heredocs(text)
    if len(line) > LINE_CHARS:
        return None
    commands: list[_Command] = []
    words: list[str] = []
    writes: list[str] = []
    reads: list[str] = []
    behind = target = ""
    for match in _token.finditer(f"{line}\n"):
        kind, token = match.lastgroup, match[0]
        if kind == "word":
            if (word := _read_word(token)) is None:
                return None
            if not target:
                words.append(word)
            elif target in (">", ">>", ">|", "1>", "1>>"):
                writes.append(word)
            target = ""
        elif kind == "blank":
            continue
        elif target or kind == "other" or token in ("(", ")"):
            return None
        elif kind == "redirect":
            target = token
        elif kind == "heredoc":
            reads.append(bodies.pop(0) if bodies else "")
        else:
            if words or writes:
                if words and words[0].removeprefix(CHANGED) in _KEYWORDS:
                    return None
                program, *arguments = _strip_wrappers(words) or [""]
                name = posixpath.basename(program.rstrip("/")).removeprefix(CHANGED)
                commands.append(_Command(program=name, arguments=tuple(arguments), behind=behind, writes=writes, reads=reads))
                words, writes, reads, behind = [], [], [], token
            elif token != "\n":
                behind = token
    return commands


def _read_word(token: str) -> str | None:
    """Return a word without its quotes, marked where the shell changes it; None where it runs a command of its own."""
    text, plain = "", True
    for literal, quoted, escaped, bare in _piece.findall(token):
        if "$(" in (open_text := quoted + bare) or "`" in open_text:
            return None
        plain = plain and len(open_text) <= PATH_CHARS and not _expansion.search(open_text)
        text += literal + _escape.sub(r"\1", quoted) + escaped + bare
    return text if plain else f"{CHANGED}{text}"


def _strip_wrappers(words: list[str]) -> list[str]:
    """Return the words of a command without assignments and wrappers."""
    while words:
        names = (posixpath.basename(words[0]), *words[1:2])
        wrapper = next((wrapper for wrapper in _WRAPPERS if names[: len(wrapper)] == wrapper), ())
        if _assignment.match(words[0]):
            words = words[1:]
        elif names[0] == "timeout":
            words = [word for word in words[1:] if not word.startswith("-")][1:]
        elif wrapper and len(words) > len(wrapper):
            words = words[len(wrapper) :]
        else:
            break
    return words


def _read_unparsed(text: str) -> ShellLine:
    """Return the first program of a line that cannot be read, and one key for the whole line."""
    bare = " ".join(_cd_prefix.sub("", text[: KEY_CHARS * 4]).split())
    if f"{COMMIT} " in bare:
        return ShellLine(keys=(COMMIT,))
    looks = posixpath.basename(bare.partition(" ")[0]) in LOOKS - {"cd", "export", "source", "set"}
    return ShellLine(keys=(bare[:KEY_CHARS],) if bare and not looks else (), looks=looks)


def _is_look(command: _Command) -> bool:
    texts = command.arguments
    if any(not word.startswith("/dev/") for word in command.writes):
        return False
    match command.program:
        case "":
            return True
        case "git":
            return next((text for text in texts if not text.startswith("-")), "") in GIT_LOOKS
        case "sed":
            return not any(map(_in_place.fullmatch, texts))
        case "find":
            return not {"-delete", "-exec", "-execdir", "-ok"} & set(texts)
        case program:
            return program in LOOKS


def _is_edit(command: _Command) -> bool:
    program = " ".join((command.program, *command.arguments[:1])) if command.program == "git" else command.program
    return program in HOUSEKEEPING or program in LOOKS


def _make_key(command: _Command) -> str:
    words = [" ".join(word.removeprefix(CHANGED).split()) for word in (command.program, *command.arguments) if word[:1] != "-"]
    if words[:2] == ["git", "commit"]:
        return COMMIT
    # Two scripts that a program reads from its input are two things.
    scripts = [blake2b(body.encode("utf-8", "replace"), digest_size=4).hexdigest() for body in command.reads]
    return " ".join(word for word in (*words, *scripts) if word)[:KEY_CHARS]


def _find_edits(commands: Sequence[_Command], folder: str) -> Iterator[Edit]:
    """Yield the edits of a line's commands. A command behind `||` may not have run and yields none."""
    known, uncertain = True, False
    for command in commands:
        uncertain = command.behind == "||" or (uncertain and command.behind in ("&&", "|", "|&"))
        if command.program in ("cd", "pushd", "popd"):
            target = command.arguments[0] if command.program == "cd" and len(command.arguments) == 1 else None
            known = known and target is not None and not target.startswith((CHANGED, "-"))
            folder = posixpath.join(folder, target) if known and target is not None else folder
            continue
        written = [Edit(path=path) for path in command.writes if command.program not in ("[", "test", "expr")]
        for edit in () if uncertain else (*written, *_find_program_edits(command)):
            path = edit.path if edit.path == "." else resolve_path(edit.path, folder)
            if path and (known or path.startswith(("/", "~"))) and not _scratch.fullmatch(path):
                yield Edit(path=path, effect=edit.effect)


def _find_program_edits(command: _Command) -> Iterator[Edit]:
    """Yield the edits of a program that is known to change files."""
    program, texts = command.program, command.arguments
    if program in ("apply_patch", "applypatch"):
        for patch in (*command.reads, *texts):
            yield from read_patch_edits(patch)
        return
    if program in ("sed", "perl"):
        yield from map(Edit, _find_in_place_files(texts))
        return
    if program == "git" and texts:
        program, texts = f"git {texts[0]}", texts[1:]
    paths = [text for text in texts if not text.startswith("-")]
    flags = [text for text in texts if text.startswith("-")]
    is_deep = "--recursive" in flags or any("r" in flag.lower() for flag in flags if not flag.startswith("--"))
    reverted: Sequence[str] = ()
    match program:
        case "tee" | "touch":
            yield from map(Edit, paths)
        case "rm" | "git rm":
            yield from (Edit(path=path, effect="gone" if is_deep else "deleted") for path in paths)
        case "mv" | "git mv":
            yield from _find_moves(paths, sources="gone")
        case "cp" if not is_deep and "-a" not in flags:
            yield from _find_moves(paths, sources=None)
        case "git restore":
            reverted = paths
        case "git checkout":
            reverted = texts[texts.index("--") + 1 :] if "--" in texts else [path for path in paths if path == "."]
        case "git stash" if paths[:1] in ([], ["push"], ["save"]):
            reverted = ["."]
        case "git reset" if "--hard" in flags:
            reverted = ["."]
        case _:
            return
    yield from (Edit(path=path, effect="reverted") for path in reverted)


def _find_in_place_files(texts: Sequence[str]) -> list[str]:
    """Return the files that `sed -i` or `perl -i` rewrites."""
    if not any(map(_in_place.fullmatch, texts)):
        return []
    names: list[str] = []
    for word, before in zip(texts, ("", *texts), strict=False):
        is_value = _script_flag.fullmatch(before) or (before == "-i" and _backup.fullmatch(word))
        if not is_value and not word.startswith("-"):
            names.append(word)
    return names if any(map(_script_flag.fullmatch, texts)) else names[1:]


def _find_moves(paths: Sequence[str], *, sources: Effect | None) -> Iterator[Edit]:
    """Yield what `mv` and `cp` leave behind. A name without an ending could be a folder: it is not reported."""
    if len(paths) < 2 or any(path.startswith(CHANGED) for path in paths):
        return
    *froms, target = paths
    if sources:
        yield from (Edit(path=path, effect=sources) for path in froms)
    if target.endswith("/") or len(froms) > 1 or target in (".", ".."):
        files = (posixpath.basename(path) for path in froms if posixpath.splitext(path)[1])
        yield from (Edit(path=posixpath.join(target, name)) for name in files)
    elif posixpath.splitext(target)[1]:
        yield Edit(path=target)
