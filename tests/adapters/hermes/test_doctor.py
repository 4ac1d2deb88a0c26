"""What `threadkeep doctor --hermes` makes of what a host says about itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from threadkeep.adapters.hermes.doctor import MARK, find_host_python, make_checks, probe_host
from threadkeep.errors import BadInput

WORKING: dict[str, Any] = {
    "python": "/host/python",
    "hermes": "0.19.0",
    "threadkeep": "0.1.0",
    "enabled": ["threadkeep"],
    "engine_named": "threadkeep",
    "compression": True,
    "engine": "threadkeep",
    "module": "threadkeep.adapters.hermes",
    "tools": ["recall"],
    "warnings": [],
}
FALLEN_BACK = {"engine": "compressor", "module": "agent.context_compressor", "tools": []}


def wrong_with(**changes: Any) -> list[tuple[str, str]]:
    """Return what is found wrong, and the advice, where the host says this beside what a working one says."""
    return [(each.found, each.advice) for each in make_checks({**WORKING, **changes}, home=Path("/h")) if not each.good]


def test_nothing_is_wrong_where_everything_is_as_it_should_be() -> None:
    """The agent that the host made uses threadkeep."""
    assert wrong_with() == []
    assert wrong_with(enabled=["a-folder-of-another-name"]) == []


def test_each_way_to_be_without_threadkeep_is_named_with_what_to_do() -> None:
    """Not installed, not enabled, not chosen, turned off, not copied: the host's own log speaks where it said something."""
    heard = ["Context engine 'threadkeep' could not be copied", "something else"]
    found = {
        "not installed": wrong_with(threadkeep=None, **FALLEN_BACK),
        "not enabled": wrong_with(enabled=[], **FALLEN_BACK),
        "not chosen": wrong_with(engine_named="compressor", **FALLEN_BACK),
        "turned off": wrong_with(compression=False),
        "not copied": wrong_with(warnings=heard, **FALLEN_BACK),
        "does not start": wrong_with(error="ValueError: no model", **FALLEN_BACK),
    }
    assert found == snapshot(
        {
            "not installed": [
                (
                    "threadkeep is missing beside it",
                    "install it there: /host/python -m pip install threadkeep",
                ),
                (
                    "a new agent uses compressor (agent.context_compressor)",
                    "fix the checks above; HERMES_PLUGINS_DEBUG=1 makes Hermes log more",
                ),
            ],
            "not enabled": [
                ("plugins.enabled is [] in /h/config.yaml", "add threadkeep to plugins.enabled in /h/config.yaml"),
                (
                    "a new agent uses compressor (agent.context_compressor)",
                    "fix the checks above; HERMES_PLUGINS_DEBUG=1 makes Hermes log more",
                ),
            ],
            "not chosen": [
                ("context.engine is compressor", "set context.engine to threadkeep in /h/config.yaml"),
                (
                    "a new agent uses compressor (agent.context_compressor)",
                    "fix the checks above; HERMES_PLUGINS_DEBUG=1 makes Hermes log more",
                ),
            ],
            "turned off": [
                (
                    "compression.enabled is false",
                    "set compression.enabled to true in /h/config.yaml; false turns every engine off",
                )
            ],
            "not copied": [
                (
                    "a new agent uses compressor (agent.context_compressor): Context engine 'threadkeep' could not be copied",
                    "fix the checks above; HERMES_PLUGINS_DEBUG=1 makes Hermes log more",
                )
            ],
            "does not start": [
                (
                    "hermes-agent 0.19.0 in /host/python: ValueError: no model",
                    "Hermes does not start there; run `hermes` once and fix what it reports",
                ),
                (
                    "a new agent uses compressor (agent.context_compressor)",
                    "fix the checks above; HERMES_PLUGINS_DEBUG=1 makes Hermes log more",
                ),
            ],
        }
    )


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_the_host_s_interpreter_is_found_by_its_command(tmp_path: Path) -> None:
    """In the first line, or, where a path is long, in the second; named, it is the one that is named."""
    python = script(tmp_path / "python3.12", "#!/bin/sh")
    script(tmp_path / "hermes", f"#!{python}", "import sys")
    environ = {"PATH": str(tmp_path)}
    assert find_host_python(None, environ=environ) == str(python)
    script(tmp_path / "hermes", "#!/bin/sh", f'\'\'\'exec\' "{python}" "$0" "$@"')
    assert find_host_python(None, environ=environ) == str(python)
    assert find_host_python("/named", environ=environ) == "/named"


def test_a_machine_without_the_host_gets_a_clear_error(tmp_path: Path) -> None:
    """Nobody to ask, nobody who answers, and nobody there."""
    with pytest.raises(BadInput, match="`hermes` is not on the PATH"):
        find_host_python(None, environ={"PATH": str(tmp_path)})
    silent = script(tmp_path / "python", "#!/bin/sh", "echo hello")
    with pytest.raises(BadInput, match="did not answer"):
        probe_host(str(silent), home=tmp_path, environ={})
    with pytest.raises(BadInput, match="could not be started: FileNotFoundError"):
        probe_host(str(tmp_path / "nowhere"), home=tmp_path, environ={})


def test_what_the_host_prints_beside_its_answer_does_not_matter(tmp_path: Path) -> None:
    """Banners before and after it are passed over."""
    answer = f"{MARK}{json.dumps(WORKING)}"
    python = script(tmp_path / "python", "#!/bin/sh", "echo banner", f"echo '{answer}'", "echo bye")
    assert probe_host(str(python), home=tmp_path, environ={}) == WORKING


def test_an_interpreter_without_the_host_says_so(tmp_path: Path) -> None:
    """This one has no Hermes: the probe answers all the same."""
    answer = probe_host(sys.executable, home=tmp_path, environ={"PATH": ""})
    assert (answer["hermes"], answer["error"].split(":")[0]) == (None, "ModuleNotFoundError")
