"""Clients with threadkeep's hooks in their settings, and nothing else of threadkeep between them and their provider."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

from tests.drivers.process import Ended, run_to_end

from threadkeep import Config, Threadkeep
from threadkeep.adapters.client_hooks import render_session

WORDS = "amber birch cedar delta ember fjord grove heath inlet juniper".split()
RULES = [
    f"Always keep the {first} {second} folder under {first}-{second}/{number * 37} open for the {third} team in release {number}."
    for number, (first, second, third) in enumerate(product(WORDS, WORDS[:5], WORDS[:3]))
]
NEEDLE = "The staging port is 7443."
# Neither message is so long that a state shortens it; together they are more than one hook may say.
SAID = ("\n".join((NEEDLE, *RULES[:75])), "\n".join(RULES[75:]))


async def threadkeep(*words: str, store: Path, cwd: Path, environment: dict[str, str]) -> Ended:
    """Run a command of threadkeep on `store`, as the client's user would."""
    command = (sys.executable, "-m", "threadkeep.cli", "--store", str(store), *words)
    return await run_to_end(command, cwd=cwd, environment=environment, seconds=60)


async def state_told(store: Path, session_id: str, *, recall: str) -> str:
    """Return what a client is handed back about a session, as the store has it now."""
    async with Threadkeep(Config(store=str(store))) as tk:
        thread = await tk.find(session_id)
        return render_session(await thread.history(), dialect=thread.dialect, thread_id=thread.id, recall=recall)


def spaced(text: str) -> str:
    """Return a text with every stretch of space as one: clients trim what a hook says."""
    return " ".join(text.split())


def joined(parts: list[str]) -> str:
    """Return a state that was handed over in parts, without the line that numbers each."""
    if len(parts) == 1:
        return parts[0]
    numbered = [part.split("\n", 1) for part in parts]
    assert [head.partition(";")[0] for head, _ in numbered] == [
        f"[session state, part {number} of {len(parts)}" for number in range(1, len(parts) + 1)
    ]
    return "".join(text for _, text in numbered)
