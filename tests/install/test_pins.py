"""The pins install the same packages whatever the index offers later."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALL = ROOT / "requirements" / "install"

pytestmark = pytest.mark.slow


def make_wheel(folder: Path, name: str, version: str, *, requires: str | None = None, extra: str | None = None) -> str:
    """Write an empty wheel and return its pin."""
    stem = f"{name}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += f"Provides-Extra: {extra}\n" if extra else ""
    metadata += f"Requires-Dist: {requires}\n" if requires else ""
    files = {
        f"{name}.py": "",
        f"{stem}.dist-info/METADATA": metadata,
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{stem}.dist-info/RECORD"
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(record, "".join(f"{path},,\n" for path in [*files, record]))
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """A new environment with the pip that this Python brings along."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


def environment(wheels: Path, *, path: str) -> dict[str, str]:
    """Return variables under which `wheels` is the whole index, for pip and for uv."""
    return {
        "PATH": path,
        "HOME": str(wheels),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "UV_NO_CONFIG": "1",
        "UV_OFFLINE": "1",
        "UV_FIND_LINKS": str(wheels),
        "UV_CACHE_DIR": str(wheels / "cache"),
    }


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_newer_release_on_the_index_changes_nothing(installer: str, venv: Path, tmp_path: Path) -> None:
    """A pinned package asks for an extra of another pinned one, and the index has a newer release of that one.

    This is what broke `make demo` on 2026-11-18: pip 23 in hash mode took `coverage[toml]` for unpinned.
    """
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    pins = tmp_path / "pins.txt"
    pins.write_text(
        make_wheel(wheels, "measure", "7.17.2", extra="toml")
        + make_wheel(wheels, "measure_plugin", "1.0", requires="measure[toml]>=7.10")
    )
    make_wheel(wheels, "measure", "7.17.3", extra="toml")
    tools = tmp_path / "tools"
    tools.mkdir()
    if installer == "uv":
        (tools / "uv").symlink_to(Path(sys.prefix) / "bin" / "uv")
    path = os.pathsep.join((str(tools), "/usr/bin", "/bin"))
    assert (shutil.which("uv", path=path) is not None) == (installer == "uv")

    subprocess.run([INSTALL, venv, pins], check=True, env=environment(wheels, path=path), timeout=120)

    listed = subprocess.run(
        [venv / "bin" / "python", "-m", "pip", "list", "--format=freeze"], check=True, capture_output=True, text=True
    ).stdout.split()
    assert [line for line in listed if line.startswith("measure")] == ["measure==7.17.2", "measure_plugin==1.0"]


def test_pins_are_complete() -> None:
    """Whatever a pinned package asks for on this platform is pinned too, in a version that it accepts."""
    done = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "check", "--python", sys.executable], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_the_checkout_is_linked_without_an_index(venv: Path) -> None:
    """The pins for running hold all that a checkout needs to be built, linked and started."""
    subprocess.run([INSTALL, venv, ROOT / "requirements" / "run.txt"], check=True, timeout=300)
    link = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    subprocess.run([venv / "bin" / "python", *link], check=True, timeout=120)
    version = subprocess.run([venv / "bin" / "threadkeep", "--version"], check=True, capture_output=True, text=True).stdout
    assert version.startswith("threadkeep ")
