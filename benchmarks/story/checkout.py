"""The checkout the agent works in: files that stay the same until edited, and real diffs of the edits."""

from __future__ import annotations

import difflib
from random import Random

from benchmarks.story import documents, source_code
from benchmarks.story.words import AREAS, NOUNS

_REMARK_PREFIX = {"md": "", "sql": "-- ", "toml": "# ", "yaml": "    # "}


class Tree:
    """The files of one checkout.

    A file's first text depends on the seed and its path alone, so reading it twice gives the same bytes; an edit
    changes it for good, and `diff` shows what changed since the last `commit`.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._texts: dict[str, str] = {}
        self._committed: dict[str, str] = {}

    def read(self, path: str) -> str:
        """Return the file's text as it is now."""
        if path not in self._texts:
            self._texts[path] = _first_text(Random(f"{self._seed}:{path}"), path)
        return self._texts[path]

    def edit(self, path: str, *, rng: Random, noun: str) -> str:
        """Add a few lines somewhere inside the file and return the patch that does it."""
        before = self.read(path)
        lines = before.splitlines()
        at = rng.choice([index for index in range(5, len(lines)) if _between_statements(lines, index)] or [len(lines)])
        added = source_code.addition(rng, noun=noun)
        if not path.endswith(".py"):
            added = [_REMARK_PREFIX[path.rpartition(".")[2]] + documents.remark(rng, noun=noun)]
        lines[at:at] = added
        self._committed.setdefault(path, before)
        self._texts[path] = "\n".join(lines) + "\n"
        context = lines[max(0, at - 3) : at]
        after = lines[at + len(added) : at + len(added) + 3]
        hunk = [f" {line}" for line in context] + [f"+{line}" for line in added] + [f" {line}" for line in after]
        return "\n".join(("*** Begin Patch", f"*** Update File: {path}", "@@", *hunk, "*** End Patch"))

    def diff(self) -> str:
        """Return everything that changed since the last commit, as git would show it."""
        parts = []
        for path, before in self._committed.items():
            changed = difflib.unified_diff(
                before.splitlines(), self._texts[path].splitlines(), f"a/{path}", f"b/{path}", n=6, lineterm=""
            )
            parts.append(f"diff --git a/{path} b/{path}\n" + "\n".join(changed))
        return "\n".join(parts)

    def changed(self) -> list[str]:
        """Return the paths edited since the last commit."""
        return list(self._committed)

    def commit(self) -> None:
        """Make the present texts the ones later edits are compared with."""
        self._committed.clear()


def _between_statements(lines: list[str], index: int) -> bool:
    """Whether a statement of a function's own level can be put before this line, the one above being one as well."""
    above, here = lines[index - 1], lines[index]
    plain = all(line.startswith("    ") and line[4:5].isalpha() for line in (above, here))
    return plain and not above.endswith((":", ",", "(", "[", "{")) and not here.lstrip().startswith(("else", "except"))


def path_of(noun: str, *, area: str) -> str:
    """Return where the file about `noun` lives in an area of the checkout."""
    match area:
        case "docs":
            return f"docs/{noun}.md"
        case "migrations":
            return f"migrations/{31 + NOUNS.index(noun):04d}_{noun}.sql"
        case "openapi":
            return f"openapi/{noun}.yaml"
        case "config":
            return "config/shops.toml"
        case "tests":
            return f"tests/{AREAS[NOUNS.index(noun) % len(AREAS)]}/test_{noun}s.py"
        case _:
            return f"src/quillback/{area}/{noun}s.py"


def _first_text(rng: Random, path: str) -> str:
    folder, _, name = path.rpartition("/")
    noun = next((noun for noun in sorted(NOUNS, key=len, reverse=True) if noun in name), NOUNS[0])
    match name.rpartition(".")[2]:
        case "md":
            return documents.page(rng, noun=noun)
        case "sql":
            return documents.migration(rng, noun=noun)
        case "yaml":
            return documents.api_description(rng, noun=noun)
        case "toml":
            return documents.settings(rng)
        case _:
            area = "tests" if path.startswith("tests/") else folder.rpartition("/")[2]
            return source_code.python_source(rng, area=area, noun=noun)
