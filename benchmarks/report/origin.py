"""Describes where a number comes from: the machine, the packages next to threadkeep, and the measured code."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

import threadkeep
from benchmarks.code import DIGITS, compute_code_digest
from benchmarks.result import describe_machine
from benchmarks.samples import summarise

UNKNOWN, NONE = "unknown", "none"
PACKAGES = ("msgspec", "aiohttp", "uvicorn", "uvloop", "openai-agents", "langgraph-checkpoint-sqlite", "langchain", "litellm")


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where and of what something was measured.

    Attributes:
        commit: What was checked out, `… with changes` where files differ from it, or `none` outside of a checkout.
        source: A digest of the package's own files, which tells one code from another whatever a commit is called.
    """

    machine: str = UNKNOWN
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    commit: str = UNKNOWN
    source: str = UNKNOWN


def read_origin() -> Origin:
    """Return where this process is, and what it runs."""
    package = Path(threadkeep.__file__).parent
    return Origin(
        machine=_describe_machine(), versions=_list_versions(), commit=find_commit(package), source=compute_code_digest()
    )


def find_commit(package: Path) -> str:
    """Return the commit a package is checked out at. One that merely lies below somebody's checkout is at none."""
    if _run_git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return NONE
    commit = _run_git(package, "rev-parse", f"--short={DIGITS}", "HEAD")
    if commit is None:
        return NONE
    return f"{commit} with changes" if _run_git(package, "status", "--porcelain", "--", ".") else commit


def list_differences(there: Origin, here: Origin) -> list[str]:
    """Return in what `there` is not `here`, a phrase each; an old part that does not say where it was made is unknown."""
    if there == Origin():
        return ["unknown machine and code"]
    absent = "not installed"
    versions = [
        (name, there.versions.get(name, absent), here.versions.get(name, absent))
        for name in sorted({*there.versions, *here.versions})
    ]
    return [
        *([] if there.machine == here.machine else [f"other machine: {there.machine}"]),
        *([] if there.source == here.source else ["other code"]),
        *(f"{name} {was}, here {now}" for name, was, now in versions if was != now),
    ]


def _run_git(folder: Path, *arguments: str) -> str | None:
    """Return what git says, or None where it has nothing to say or is not there."""
    try:
        asked = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return asked.stdout.strip()


def _describe_machine() -> str:
    still = summarise([0.0])
    at = describe_machine(fsync_before=still, fsync_after=still)
    return f"{at.processor}, {at.cores} cores, {at.system}, {at.python}, SQLite {at.sqlite}, {platform.machine()}"


def _list_versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
