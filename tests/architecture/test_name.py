"""The project has one name."""

from __future__ import annotations

from pathlib import Path

# Written in parts, so that this file does not hold it.
FORMER = ("hold" + "fast").encode()
HISTORY = "CHANGELOG.md"


def test_the_former_name_is_nowhere_but_in_the_changelog(root: Path, project_files: list[Path]) -> None:
    """No file's path or content has the name the project had before its first release, in any case."""
    named = {str(path.relative_to(root)): path.read_bytes() for path in project_files}
    found = [name for name, content in named.items() if FORMER in name.encode().lower() + b"\n" + content.lower()]
    assert [name for name in found if name != HISTORY] == []
