"""`holdfast completion`: what a real shell offers when the key is pressed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.stories import Cli, grown, stored

from holdfast import Holdfast

BASH = shutil.which("bash")
NEEDS_BASH = pytest.mark.skipif(BASH is None, reason="there is no bash here")


async def three(hf: Holdfast) -> None:
    for name in ("ship-it", "shape", "other"):
        await grown(hf, name, turns=1)


def offered(script: Path, line: str, *, folder: Path, store: Path) -> set[str]:
    """Return what bash offers at the end of a line, in a folder whose `holdfast` is this one."""
    program = folder / "holdfast"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast.cli "$@"\n')
    program.chmod(0o755)
    words = line.split(" ")
    asked = (
        f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'; "
        f"COMP_POINT=${{#COMP_LINE}}; [ -n '{words[-1]}' ] || COMP_WORDS+=(''); "
        "_shtab_holdfast; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOLDFAST_STORE": str(store)}
    ran = subprocess.run([BASH or "bash", "-c", asked], cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    return {word for word in ran.stdout.split("\n") if word}


@NEEDS_BASH
def test_bash_completes_commands_options_and_threads(cli: Cli, home: Path, tmp_path: Path) -> None:
    """A command by its beginning, its options, its choices, and threads of the store."""
    store = stored(home / "store.db", three)
    script = tmp_path / "holdfast.bash"
    script.write_text(cli("completion", "bash").out)

    def completes(line: str) -> set[str]:
        return offered(script, line, folder=tmp_path, store=store)

    assert completes("holdfast ro") == {"rollback"}
    assert completes("holdfast show --pl") == {"--plot"}
    assert completes("holdfast export --format mark") == {"markdown"}
    assert completes("holdfast show sh") == {"ship-it", "shape"}


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_script_knows_every_command(cli: Cli, shell: str) -> None:
    """It is made from the parser, and has the function that looks for threads."""
    ran = cli("completion", shell)
    assert (ran.code, ran.err) == (0, "")
    assert [word for word in ("rollback", "takeout", "--before-turn", "_holdfast_threads()") if word not in ran.out] == []


def test_a_shell_nobody_asked_for_is_a_usage_error(cli: Cli) -> None:
    """Which shells there are is said."""
    ran = cli("completion", "fish")
    assert (ran.code, ran.out) == (2, "")
    assert "'bash', 'zsh'" in ran.err
