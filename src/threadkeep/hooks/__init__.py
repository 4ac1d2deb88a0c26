"""Hooks that hosts run around a compaction: commands and Python functions that receive and answer JSON; see docs/hooks.md.

A port: it runs what it is given and says what came of it. Whether a compaction is to begin, and what a stop means for a turn, is
decided above.
"""

from __future__ import annotations

from threadkeep.hooks.definitions import CommandHook, FunctionHook, Hook, Hooks, Matcher, parse_hooks
from threadkeep.hooks.events import CompactionFacts, Facts, HookEvent, SessionFacts, StartSource, Trigger
from threadkeep.hooks.reply import HookReply, HookRun, RunOutcome, Verdict
from threadkeep.hooks.runner import run_hooks

__all__ = [
    "CommandHook",
    "CompactionFacts",
    "Facts",
    "FunctionHook",
    "Hook",
    "HookEvent",
    "HookReply",
    "HookRun",
    "Hooks",
    "Matcher",
    "RunOutcome",
    "SessionFacts",
    "StartSource",
    "Trigger",
    "Verdict",
    "parse_hooks",
    "run_hooks",
]
