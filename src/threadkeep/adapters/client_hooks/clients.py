"""The clients whose hooks are known: where they keep their settings, and what is to stand there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from threadkeep.transfer.formats import Format

# What a client shows its model of one hook's words: Codex cuts them at 2,500 tokens of four bytes, Claude Code at 10,000
# characters, and both put the rest into a file. A state that is longer goes out in parts, each from a handler of its own.
PART_BYTES = 9_000
PARTS = 4
# The client kills a hook after this; it ends by itself long before.
TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class HookClient:
    """A client with hooks.

    Attributes:
        form: What its transcripts are.
        home_variable: Names the folder of its settings, where that is not `home` in the user's own.
        file: The settings, in the user's folder and, below `home`, in a project's.
    """

    name: str
    form: Format
    home: str
    home_variable: str
    file: str

    def settings(self, scope: str, *, environ: Mapping[str, str], project: Path) -> Path:
        """Return the file its hooks stand in: the user's, or the project's."""
        if scope == "project":
            return project / self.home / self.file
        named = environ.get(self.home_variable)
        folder = Path(named) if named else Path(environ.get("HOME") or Path.home()) / self.home
        return folder / self.file


CLIENTS: Mapping[str, HookClient] = {
    client.name: client
    for client in (
        HookClient(name="codex", form=Format.CODEX, home=".codex", home_variable="CODEX_HOME", file="hooks.json"),
        HookClient(
            name="claude-code",
            form=Format.CLAUDE_CODE,
            home=".claude",
            home_variable="CLAUDE_CONFIG_DIR",
            file="settings.json",
        ),
    )
}


def wanted_groups(program: Sequence[str], client: HookClient, *, store: str | None) -> dict[str, dict[str, object]]:
    """Return what is to stand under each event: one group of handlers that call `program`.

    A handler never fails in the client's eyes: Claude Code would take an exit code of 2, which a misspelt argument has, as an
    order not to compact.
    """
    place = ("--store", store) if store else ()
    line = shlex.join((*program, "hook", "run", client.name, *place))
    parts = [_handler(f"{line} --part {part}") for part in range(1, PARTS + 1)]
    return {"PreCompact": {"hooks": [_handler(line)]}, "SessionStart": {"matcher": "compact", "hooks": parts}}


def is_ours(group: object, client: HookClient) -> bool:
    """Whether a group of handlers is one that `wanted_groups` made, here or elsewhere, now or in an earlier release."""
    handlers = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(handlers, list) or not handlers:
        return False
    return all(isinstance(each, dict) and _calls_threadkeep(each.get("command"), client) for each in handlers)


def _handler(line: str) -> dict[str, object]:
    return {"type": "command", "command": f"{line} || exit 0", "timeout": TIMEOUT_S}


def _calls_threadkeep(command: object, client: HookClient) -> bool:
    return isinstance(command, str) and "threadkeep" in command and f" hook run {client.name}" in command
