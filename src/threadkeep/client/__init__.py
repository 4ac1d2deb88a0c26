"""What an application holds: an open store, its threads and their turns."""

from __future__ import annotations

from threadkeep.client.config import Config, Setting, config_of, resolve
from threadkeep.client.thread import Thread
from threadkeep.client.threadkeep import Threadkeep
from threadkeep.client.turn import TurnScope
from threadkeep.compaction.pins import Remarked
from threadkeep.compaction.report import CompactionReport
from threadkeep.threads.head import Head
from threadkeep.threads.reports import Branched, Problem, ThreadSummary, Verdict, Window

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
