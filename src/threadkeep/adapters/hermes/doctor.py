"""Checks whether a Hermes on this machine uses threadkeep, by asking Hermes in its own interpreter.

The configuration is not enough: a host that cannot find, load or copy an engine only logs that and uses its own. So this creates
an agent of the host, which sends nothing, and looks at its engine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from threadkeep.adapters.hermes.engine import ENGINE
from threadkeep.errors import InvalidArgument

MARK: Final = "THREADKEEP FOUND "
LONGEST_S: Final = 180

# Runs without threadkeep, which may be missing there.
PROBE: Final = f"""
import importlib.metadata, json, logging, os, sys

found = {{"python": sys.executable, "warnings": []}}

class Keep(logging.Handler):
    def emit(self, record):
        found["warnings"].append(record.getMessage()[:500])

logging.getLogger().addHandler(Keep(level=logging.WARNING))

def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None

found["hermes"], found["threadkeep"] = version("hermes-agent"), version("threadkeep")
try:
    from hermes_cli.config import load_config
    config = load_config() or {{}}
    found["enabled"] = (config.get("plugins") or {{}}).get("enabled") or []
    found["engine_named"] = (config.get("context") or {{}}).get("engine") or "compressor"
    found["compression"] = (config.get("compression") or {{}}).get("enabled", True)
    # Do not look up the model's window: that would use the network.
    import agent.model_metadata
    agent.model_metadata.get_model_context_length = lambda *args, **kwargs: 128000
    from run_agent import AIAgent
    made = AIAgent(base_url="http://127.0.0.1:9/v1", api_key="unused", provider="custom", model="doctor", quiet_mode=True,
                   skip_memory=True, skip_context_files=True, enabled_toolsets=["context_engine"], platform="cli",
                   max_iterations=1)
    engine = made.context_compressor
    found["engine"], found["module"] = engine.name, type(engine).__module__
    found["tools"] = sorted(made._context_engine_tool_names)
except BaseException as error:
    found["error"] = f"{{type(error).__name__}}: {{error}}"
print("\\n{MARK}" + json.dumps(found), flush=True)
os._exit(0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check; `advice` says what to do if it fails."""

    name: str
    good: bool
    found: str
    advice: str = ""


def find_host_python(named: str | None, *, environ: Mapping[str, str]) -> str:
    """Return the interpreter of Hermes: the one named, that of its command, or this one.

    Raises:
        InvalidArgument: Hermes was not found.
    """
    if named is not None:
        return named
    command = shutil.which("hermes", path=environ.get("PATH"))
    if command is not None and (found := _find_interpreter(Path(command))) is not None:
        return found
    if find_spec("run_agent") is not None:
        return sys.executable
    raise InvalidArgument("hermes_python", "`hermes` is not on the PATH; name its Python with --hermes-python")


def _find_interpreter(command: Path) -> str | None:
    """Return the interpreter of a script; if its path is too long for the first line, the second line has it."""
    try:
        lines = command.read_text(encoding="utf-8", errors="replace").splitlines()[:2]
    except OSError:
        return None
    for line in lines:
        words = line.removeprefix("#!").replace("'''exec'", " ").split()
        path = next((word.strip('"') for word in words if "python" in Path(word.strip('"')).name), None)
        if path is not None and Path(path).is_file():
            return path
    return None


def probe_host(python: str, *, home: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Ask the host about itself and its engine.

    Raises:
        InvalidArgument: The interpreter cannot be started or does not answer.
    """
    try:
        ran = subprocess.run(
            [python, "-c", PROBE],
            env={**environ, "HERMES_HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        text = f"{python} could not be started: {type(error).__name__}; name Hermes' Python with --hermes-python"
        raise InvalidArgument("hermes_python", text) from error
    line = next((line for line in ran.stdout.splitlines() if line.startswith(MARK)), None)
    if line is None:
        text = f"{python} did not answer; install Hermes there, or name its Python with --hermes-python"
        raise InvalidArgument("hermes_python", text)
    answer: dict[str, Any] = json.loads(line.removeprefix(MARK))
    return answer


def make_checks(answer: Mapping[str, Any], *, home: Path) -> list[Check]:
    """Return the checks, in the order in which to fix them."""
    python, config = str(answer.get("python")), home / "config.yaml"
    enabled = [str(name) for name in answer.get("enabled") or []]
    named, used = str(answer.get("engine_named")), str(answer.get("engine"))
    warnings = "; ".join(str(text) for text in answer.get("warnings") or [] if "engine" in str(text).lower())
    return [
        Check(
            name="host",
            good=answer.get("hermes") is not None and "error" not in answer,
            found=f"hermes-agent {answer.get('hermes') or 'is missing'} in {python}" + _append_reason(answer.get("error")),
            advice="Hermes does not start there; run `hermes` once and fix what it reports",
        ),
        Check(
            name="package",
            good=answer.get("threadkeep") is not None,
            found=f"threadkeep {answer.get('threadkeep') or 'is missing'} beside it",
            advice=f"install it there: {python} -m pip install threadkeep",
        ),
        Check(
            name="plugin",
            good=bool(enabled) and (ENGINE in enabled or used == ENGINE),
            found=f"plugins.enabled is [{', '.join(enabled)}] in {config}",
            advice=f"add {ENGINE} to plugins.enabled in {config}",
        ),
        Check(
            name="engine",
            good=named == ENGINE,
            found=f"context.engine is {named}",
            advice=f"set context.engine to {ENGINE} in {config}",
        ),
        Check(
            name="compression",
            good=answer.get("compression") is not False,
            found="compression.enabled is " + str(answer.get("compression")).lower(),
            advice=f"set compression.enabled to true in {config}; false turns every engine off",
        ),
        Check(
            name="in use",
            good=used == ENGINE and str(answer.get("module")).startswith("threadkeep.") and bool(answer.get("tools")),
            found=f"a new agent uses {used} ({answer.get('module')})" + _append_reason(warnings),
            advice="fix the checks above; HERMES_PLUGINS_DEBUG=1 makes Hermes log more",
        ),
    ]


def _append_reason(reason: object) -> str:
    return f": {reason}" if reason else ""
