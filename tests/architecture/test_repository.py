"""What is committed installs anywhere and speaks of no machine in particular."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

# Folders of machines this was once worked on; a path that leads there leads nowhere for anyone else.
SOMEONES_PATH = re.compile(rb"(?<![\w.~*-])/(?:work|root|farm)/")
AGENTS_LINES = 120


def pins(path: Path) -> dict[str, str]:
    """Return the version each requirement file entry is pinned to, by package name."""
    return dict(re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE))


@pytest.mark.parametrize("name", ["run.txt", "dev.txt"])
def test_requirements_name_no_address(root: Path, name: str) -> None:
    """Pins carry hashes, so any index will do, and none is written down."""
    assert "://" not in (root / "requirements" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["run.txt", "dev.txt"])
def test_every_pin_carries_hashes(root: Path, name: str) -> None:
    """Every pinned line is followed by at least one hash."""
    text = (root / "requirements" / name).read_text(encoding="utf-8")
    hashed = re.findall(r"^([a-z0-9._-]+)==.* \\\n    --hash=sha256:", text, flags=re.MULTILINE)
    assert list(dict.fromkeys(hashed)) == list(pins(root / "requirements" / name))


def test_pins_satisfy_what_the_package_declares(root: Path) -> None:
    """Each declared dependency is pinned to a version within its bounds; `make lock` mends this."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    run, dev = pins(root / "requirements" / "run.txt"), pins(root / "requirements" / "dev.txt")
    declared = [(run, text) for text in settings["project"]["dependencies"]]
    groups = settings["dependency-groups"]
    needed = [text for group in (groups["dev"], groups["build"]) for text in group if isinstance(text, str)]
    declared += [(dev, text) for text in settings["project"]["dependencies"] + needed]
    unmet = [text for pinned, text in declared if pinned.get((wanted := Requirement(text)).name, "") not in wanted.specifier]
    assert unmet == []


def test_both_requirement_files_pin_the_same_versions(root: Path) -> None:
    """What is tested is what runs: no package has one version in run.txt and another in dev.txt."""
    run, dev = pins(root / "requirements" / "run.txt"), pins(root / "requirements" / "dev.txt")
    assert {name: version for name, version in run.items() if dev.get(name) != version} == {}


def test_no_file_names_a_path_of_one_machine(root: Path, project_files: list[Path]) -> None:
    """Nothing committed points into someone's own folders."""
    naming = [str(path.relative_to(root)) for path in project_files if SOMEONES_PATH.search(path.read_bytes())]
    assert naming == []


def test_the_short_page_stays_short(root: Path) -> None:
    """AGENTS.md is meant to be read whole before a first change."""
    assert len((root / "AGENTS.md").read_text(encoding="utf-8").splitlines()) < AGENTS_LINES
