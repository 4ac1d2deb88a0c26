"""docs/hooks.md tells the truth: what it shows is run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.hooks.samples import committed, compaction, started

from threadkeep.hooks import CommandHook, HookEvent, HookReply, Hooks, parse_hooks, run_hooks
from threadkeep.hooks.reply import parse_output

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "hooks.md").read_text(encoding="utf-8")
ENVIRON = {"PATH": os.defpath}


def shown(language: str) -> list[str]:
    """Return the page's examples in one language, in their order."""
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)
    return found


@pytest.mark.anyio
async def test_the_configuration_saves_notes_before_and_shows_them_after(tmp_path: Path) -> None:
    """The table is valid, its commands run, and what the second prints is what the model is told."""
    (written,) = shown("toml")
    hooks = parse_hooks(tomllib.loads(written)["hooks"])
    (tmp_path / "save-notes.sh").write_text("echo Port 4621. > NOTES.md\n")
    before = await run_hooks(hooks, compaction(tmp_path, trigger="auto"), environ=ENVIRON)
    after = await run_hooks(hooks, started(tmp_path, source="compact"), environ=ENVIRON)
    assert (before.goes_on, len(before.runs), after.added_context) == (True, 1, ("Port 4621.",))


def test_the_payload_is_the_one_a_command_reads() -> None:
    """Key by key; PreCompact lacks the last three of threadkeep's own."""
    payload, _, _ = (json.loads(example) for example in shown("json"))
    assert payload == committed("/srv/app").payload()
    own = compaction("/srv/app").payload()["threadkeep"]
    assert isinstance(own, Mapping)
    assert list(own) == list(payload["threadkeep"])[:-3]


def test_the_answers_are_read_as_the_page_says() -> None:
    """A stop with its words, and context at a start."""
    _, stop, context = shown("json")
    assert parse_output(stop, event=HookEvent.PRE_COMPACT) == HookReply(
        stop=True, reason="the test run is not over", warning="compaction put off", quiet=True
    )
    assert parse_output(context, event=HookEvent.SESSION_START) == HookReply(context="Notes are in NOTES.md.")


@pytest.mark.anyio
async def test_the_script_puts_compactions_off_while_the_file_is_there(tmp_path: Path) -> None:
    """And no longer."""
    (script,) = shown("sh")
    hooks = Hooks().on(HookEvent.PRE_COMPACT, CommandHook(command=script))
    free = await run_hooks(hooks, compaction(tmp_path), environ=ENVIRON)
    (tmp_path / "busy").touch()
    busy = await run_hooks(hooks, compaction(tmp_path), environ=ENVIRON)
    assert (free.goes_on, busy.goes_on, busy.stop_reason) == (True, False, "someone is busy")


def test_the_program_runs_and_is_stopped(tmp_path: Path) -> None:
    """Copied as it is, in an empty folder."""
    (program,) = shown("python")
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", "PreCompact manual\nit is Friday\n")
