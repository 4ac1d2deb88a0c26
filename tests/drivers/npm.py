"""Installs real clients from npm once, in the releases the tests were written for, outside the project."""

from __future__ import annotations

import contextlib
import json
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.drivers.process import ClientUnavailable, run_to_end

INSTALL_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmClient:
    """A package that brings a command.

    Attributes:
        builds: Whether its install script must run: it puts the native program in place.
        bundled_with: What its command, one bundle, needs beside it; None where all dependencies of the package are fetched.
        newer_node: Whether it needs `NODE_22`.
    """

    package: str
    version: str
    command: str
    builds: bool = False
    bundled_with: str | None = None
    newer_node: bool = False

    @property
    def folder(self) -> str:
        return f"{self.command}-{self.version}"


CODEX_0_150 = NpmClient(package="@openai/codex", version="0.150.1", command="codex")
CODEX_0_166 = NpmClient(package="@openai/codex", version="0.166.0", command="codex")
CODEX_0_169 = NpmClient(package="@openai/codex", version="0.169.0", command="codex")
OPENCODE = NpmClient(package="opencode-ai", version="1.18.33", command="opencode", builds=True)
CLAUDE_CODE = NpmClient(package="@anthropic-ai/claude-code", version="2.1.325", command="claude", builds=True)
CLAUDE_CODE_2_1_328 = NpmClient(package="@anthropic-ai/claude-code", version="2.1.328", command="claude", builds=True)
PI = NpmClient(package="@mariozechner/pi-coding-agent", version="0.73.1", command="pi")
PI_1_5 = NpmClient(package="@earendil-works/pi-coding-agent", version="1.5.2", command="pi", bundled_with="jiti", newer_node=True)
NODE_22 = NpmClient(package="node", version="22.23.3", command="node", builds=True)
QWEN = NpmClient(package="@qwen-code/qwen-code", version="0.24.4", command="qwen")
CLINE = NpmClient(package="cline", version="3.0.65", command="cline", builds=True)
CONTINUE = NpmClient(package="@continuedev/cli", version="1.5.47", command="cn")
COPILOT = NpmClient(package="@github/copilot", version="1.0.102", command="copilot")
DROID = NpmClient(package="droid", version="0.215.0", command="droid", builds=True)
GEMINI = NpmClient(package="@google/gemini-cli", version="0.61.0", command="gemini")
GROK = NpmClient(package="@vibe-kit/grok-cli", version="0.0.34", command="grok")
KILO = NpmClient(package="@kilocode/cli", version="7.7.7", command="kilo", builds=True)
KIMI = NpmClient(package="@moonshot-ai/kimi-code", version="2.1.0", command="kimi")


async def install(client: NpmClient, into: Path) -> Path:
    """Return the command of `client`, installing it below `into` if it is not there yet.

    A finished install appears under its name at once and whole, so an interrupted one is never taken for it and two
    processes may install side by side.

    Raises:
        ClientUnavailable: npm is absent, or the install failed.
    """
    place = into / client.folder
    command = place / "node_modules" / ".bin" / client.command
    if command.exists():
        return command
    npm = shutil.which("npm")
    if npm is None:
        raise ClientUnavailable("npm is not installed")
    into.mkdir(parents=True, exist_ok=True)
    package = f"{client.package}@{client.version}"
    partial = Path(tempfile.mkdtemp(prefix=f"{client.folder}-", dir=into))
    try:
        scripts = () if client.builds else ("--ignore-scripts",)
        quietly = ("--no-audit", "--no-fund", *scripts, "--prefix", str(partial))
        await _run_npm(npm, "install", *quietly, client.bundled_with or package, cwd=partial)
        if client.bundled_with is not None:
            await _run_npm(npm, "pack", package, cwd=partial)
            _unpack(client, partial)
        # Fails only where another process put the same version there first; theirs is as good.
        with contextlib.suppress(OSError):
            partial.rename(place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    if not command.exists():
        raise ClientUnavailable(f"{package} was installed but brought no {client.command} command")
    return command


async def _run_npm(*words: str, cwd: Path) -> None:
    ended = await run_to_end(words, cwd=cwd, environment=None, seconds=INSTALL_SECONDS)
    if ended.exit_code != 0:
        raise ClientUnavailable(f"npm could not install {words[-1]}: {ended.stderr.decode(errors='replace').strip()}")


def _unpack(client: NpmClient, place: Path) -> None:
    """Unpack the archive of a package below `place` and put its command where `npm install` puts commands."""
    (archive,) = place.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    archive.unlink()
    bundle = place / "package" / json.loads((place / "package" / "package.json").read_text())["bin"][client.command]
    bundle.chmod(0o755)
    commands = place / "node_modules" / ".bin"
    commands.mkdir(exist_ok=True)
    (commands / client.command).symlink_to(f"../../{bundle.relative_to(place)}")
