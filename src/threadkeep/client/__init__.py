"""What an application holds: an open store, its threads and their turns."""

from __future__ import annotations

from threadkeep.client.thread import Thread
from threadkeep.client.threadkeep import Threadkeep
from threadkeep.client.turn import TurnScope
from threadkeep.client.verification import Problem, Verdict
from threadkeep.compaction.pins import Remarked
from threadkeep.compaction.report import CompactionReport
from threadkeep.config import Config, Setting, build_config, resolve
from threadkeep.threads.forks_and_undos import Branched
from threadkeep.threads.summary import ThreadSummary
from threadkeep.threads.window import Head, Window

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
    "build_config",
    "resolve",
]
