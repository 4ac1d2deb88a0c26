"""The tree as its tests see it."""

from __future__ import annotations

import ast
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "threadkeep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A module of the package. `name` is its path within the package, written with slashes."""

    name: str
    lines: int
    tree: ast.Module


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    """Every module of the package."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(PACKAGE).as_posix()
        found.append(Source(name=name, lines=len(text.splitlines()), tree=ast.parse(text, filename=name)))
    return found


@pytest.fixture(scope="session")
def project_files() -> list[Path]:
    """Every file that is in git or would be added by `git add --all`."""
    if not (ROOT / ".git").exists():
        pytest.skip("only a git checkout can tell the project's files from what lies beside them")
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file()]
