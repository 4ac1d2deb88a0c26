"""Says what the newest versions of the clients do differently: `make test-clients-latest`, all of them or `WHAT="qwen kimi"`.

Each client's newest version is taken from npm or PyPI, the shape of its requests is compared with the stored one, and the client
tests run with it. Nothing in the repository is changed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.clients.programs import CLIENTS
from tests.clients.shapes import SHAPES, compare_shapes, load_shape
from tests.drivers.npm import NpmClient
from tests.drivers.pypi import PypiClient

FOLDER = Path(".cache/clients-latest")
ASK_SECONDS = 60


def find_newest(client: NpmClient | PypiClient) -> str:
    """Return the newest version of a package, as its registry says."""
    if isinstance(client, NpmClient):
        return _ask("npm", "view", client.package, "version").strip()
    listed = _ask(sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions", client.package)
    return listed.partition("(")[2].partition(")")[0]


def _ask(*words: str) -> str:
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=ASK_SECONDS, check=True).stdout


def run_tests(names: Sequence[str], newest: Path) -> dict[str, list[str]]:
    """Run the client tests with the newest versions and return the failed ones by the package they use."""
    report = FOLDER / "report.xml"
    report.unlink(missing_ok=True)
    # The tests of some clients only: those that have the client's name in theirs.
    chosen = () if set(names) == set(CLIENTS) else ("-k", " or ".join(names))
    words = ("-m", "pytest", "-n", "4", "--dist", "loadgroup", "-m", "clients", f"--junitxml={report}", *chosen, "tests/clients")
    environment = {**os.environ, "THREADKEEP_CLIENTS_NEWEST": str(newest.resolve())}
    subprocess.run((sys.executable, *words), env=environment, check=False)
    failed: dict[str, list[str]] = defaultdict(list)
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            used = [str(each.get("value")) for each in case.iter("property") if each.get("name") == "client"]
            for package in dict.fromkeys(used or ["without a client"]):
                failed[package].append(f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}")
    return failed


def report_changes(names: Sequence[str], versions: Mapping[str, str], failed: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield for each client its two versions, what its requests have new or no longer, and the tests that fail."""
    for name in names:
        pinned = CLIENTS[name].package
        yield f"{name}: {pinned.version} → {versions[pinned.package]}"
        received = FOLDER / "shapes" / f"{name}.txt"
        if received.exists():
            changes = compare_shapes(load_shape(SHAPES / f"{name}.txt"), load_shape(received))
            yield from (f"  {line}" for line in changes or ["its requests look the same"])
        else:
            yield "  its requests could not be recorded"
        yield from (f"  fails: {test}" for test in failed.get(pinned.package, ()))
    known = {CLIENTS[name].package.package for name in names}
    yield from (f"{package}: fails: {test}" for package, tests in failed.items() if package not in known for test in tests)


def main() -> int:
    names = sys.argv[1:] or list(CLIENTS)
    if unknown := [name for name in names if name not in CLIENTS]:
        sys.stderr.write(f"unknown: {', '.join(unknown)}; these are known: {', '.join(CLIENTS)}\n")
        return 2
    shutil.rmtree(FOLDER / "shapes", ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    versions = {CLIENTS[name].package.package: find_newest(CLIENTS[name].package) for name in names}
    newest = FOLDER / "newest.json"
    newest.write_text(json.dumps(versions, indent=2))
    failed = run_tests(names, newest)
    text = "\n".join(report_changes(names, versions, failed))
    (FOLDER / "report.txt").write_text(f"{text}\n")
    sys.stdout.write(f"\n{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
