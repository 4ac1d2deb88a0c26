"""The facade over everything below it; takes no decisions of its own."""

from __future__ import annotations

from holdfast.runtime.config import Config, Setting, config_of, resolve
from holdfast.runtime.handle import Thread
from holdfast.runtime.head import Head
from holdfast.runtime.holdfast import Holdfast
from holdfast.runtime.remarking import Remarked
from holdfast.runtime.reports import Branched, CompactionReport, Problem, ThreadSummary, Verdict, Window
from holdfast.runtime.turn import TurnScope

__all__ = [
    "Branched",
    "CompactionReport",
    "Config",
    "Head",
    "Holdfast",
    "Problem",
    "Remarked",
    "Setting",
    "Thread",
    "ThreadSummary",
    "TurnScope",
    "Verdict",
    "Window",
    "config_of",
    "resolve",
]
