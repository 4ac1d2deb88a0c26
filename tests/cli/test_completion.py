"""`threadkeep completion`: what a real shell offers when the key is pressed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.stories import Cli, grown, stored

from threadkeep import Threadkeep


async def three(tk: Threadkeep) -> None:
    for name in ("ship-it", "shape", "other"):
        await grown(tk, name, turns=1)


def asked_of_bash(script: Path, line: str) -> str:
    """Return what makes bash print its offers at the end of a line."""
    words = line.split(" ")
    return (
        f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'; "
        f"COMP_POINT=${{#COMP_LINE}}; [ -n '{words[-1]}' ] || COMP_WORDS+=(''); "
        "_shtab_threadkeep; printf '%s\\n' \"${COMPREPLY[@]}\""
    )


def asked_of_fish(script: Path, line: str) -> str:
    """Return what makes fish print its offers at the end of a line."""
    return f"source {script}; complete -C '{line}'"


SHELLS = [
    pytest.param(name, asked, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"there is no {name} here"), id=name)
    for name, asked in {"bash": asked_of_bash, "fish": asked_of_fish}.items()
]


def offered(shell: str, asked: str, *, folder: Path, store: Path) -> set[str]:
    """Return what a shell offers, in a folder whose `threadkeep` is this one; what it says about an offer stands behind a tab."""
    program = folder / "threadkeep"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m threadkeep.cli "$@"\n')
    program.chmod(0o755)
    # fish writes into its home; it is not to be somebody's.
    environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "THREADKEEP_STORE": str(store), "HOME": str(folder)}
    ran = subprocess.run([shell, "-c", asked], cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    return {line.partition("\t")[0] for line in ran.stdout.split("\n") if line}


@pytest.mark.parametrize(("shell", "asked"), SHELLS)
def test_a_shell_completes_commands_options_files_and_threads(
    cli: Cli, home: Path, tmp_path: Path, shell: str, asked: Callable[[Path, str], str]
) -> None:
    """A command by its beginning, its options, its choices, files, and threads of the store."""
    store = stored(home / "store.db", three)
    script = tmp_path / f"threadkeep.{shell}"
    script.write_text(cli("completion", shell).out)
    (tmp_path / "rollout.jsonl").write_text("")

    def completes(line: str) -> set[str]:
        return offered(shell, asked(script, line), folder=tmp_path, store=store)

    assert completes("threadkeep ro") == {"rollback"}
    assert completes("threadkeep show --pl") == {"--plot"}
    assert completes("threadkeep export --format mark") == {"markdown"}
    assert completes("threadkeep import roll") == {"rollout.jsonl"}
    assert completes("threadkeep show sh") == {"ship-it", "shape"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_knows_every_command(cli: Cli, shell: str) -> None:
    """It is made from the parser, and has the function that looks for threads."""
    ran = cli("completion", shell)
    assert (ran.code, ran.err) == (0, "")
    assert [word for word in ("rollback", "takeout", "before-turn", "_threadkeep_threads") if word not in ran.out] == []


def test_a_shell_nobody_asked_for_is_a_usage_error(cli: Cli) -> None:
    """Which shells there are is said."""
    ran = cli("completion", "tcsh")
    assert (ran.code, ran.out) == (2, "")
    assert "'bash', 'zsh', 'fish'" in ran.err
