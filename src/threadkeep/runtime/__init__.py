"""The facade over everything below it; takes no decisions of its own."""

from __future__ import annotations

from threadkeep.runtime.config import Config, Setting, config_of, resolve
from threadkeep.runtime.handle import Thread
from threadkeep.runtime.head import Head
from threadkeep.runtime.remarking import Remarked
from threadkeep.runtime.reports import Branched, CompactionReport, Problem, ThreadSummary, Verdict, Window
from threadkeep.runtime.threadkeep import Threadkeep
from threadkeep.runtime.turn import TurnScope

__all__ = [
    "Branched",
    "CompactionReport",
    "Config",
    "Head",
    "Problem",
    "Remarked",
    "Setting",
    "Thread",
    "ThreadSummary",
    "Threadkeep",
    "TurnScope",
    "Verdict",
    "Window",
    "config_of",
    "resolve",
]
