"""Installs real clients from PyPI once, each into an environment of its own, outside the project."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.drivers.process import ClientUnavailable, run_to_end

INSTALL_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PypiClient:
    """A package that brings a command. `python` is the least Python it runs on, where that is newer than ours."""

    package: str
    version: str
    command: str
    python: str = f"{sys.version_info.major}.{sys.version_info.minor}"

    @property
    def folder(self) -> str:
        return f"{self.package}-{self.version}"


AIDER = PypiClient(package="aider-chat", version="0.86.2", command="aider")
VIBE = PypiClient(package="mistral-vibe", version="3.0.2", command="vibe", python="3.12")


async def install(client: PypiClient, into: Path) -> Path:
    """Return the command of `client`, installing it below `into` if it is not there yet; a finished install appears at once.

    Raises:
        ClientUnavailable: There is no such Python here.
        RuntimeError: The package could not be installed.
    """
    place = into / client.folder
    command = place / "bin" / client.command
    if command.exists():
        return command
    uv = Path(sys.executable).with_name("uv")
    into.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{client.folder}-", dir=into))
    package = f"{client.package}=={client.version}"
    try:
        for words in (
            (
                "venv",
                "--quiet",
                "--clear",
                "--relocatable",
                "--no-python-downloads",
                "--python",
                client.python,
                str(partial),
            ),
            ("pip", "install", "--quiet", "--python", str(partial / "bin" / "python"), package),
        ):
            ended = await run_to_end((str(uv), "--quiet", *words), cwd=into, environment=None, seconds=INSTALL_SECONDS)
            if ended.exit_code != 0:
                said = ended.stderr.decode(errors="replace").strip()
                if words[0] == "venv":
                    raise ClientUnavailable(f"there is no Python {client.python} for {package}: {said}")
                raise RuntimeError(f"uv could not install {package}: {said}")
        with contextlib.suppress(OSError):
            partial.rename(place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    if not command.exists():
        raise ClientUnavailable(f"{package} was installed but brought no {client.command} command")
    return command
