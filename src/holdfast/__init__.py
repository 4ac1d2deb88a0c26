"""holdfast keeps long-running LLM agents on course through any number of context compactions, and can prove that it did.

`async with holdfast.open("agent.db") as hf:` opens a store; `await hf.thread("ship-it", dialect="responses")` creates or
resumes a thread; `record`, `window`, `turn`, `compact`, `fork`, `rollback`, `undo` and `recall` are what it does. `Session` is
an agent on one.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.runtime import Config, Head, Holdfast, Thread, Window
    from holdfast.session import Session

__version__ = "0.1.0"

__all__ = ["Config", "Head", "Holdfast", "HoldfastError", "Session", "Thread", "Window", "__version__", "open"]

_IN_RUNTIME = frozenset({"Config", "Head", "Holdfast", "Thread", "Window"})


def open(store: str | os.PathLike[str] | None = None) -> Holdfast:
    """Open a store for use in `async with`: a path or `sqlite:///PATH`; without one, what `HOLDFAST_STORE` or a
    `holdfast.toml` names, else the user's own.

    Raises:
        BadInput: A configuration file or variable cannot be understood.
    """
    from pathlib import Path

    from holdfast.runtime import Holdfast, config_of, resolve

    flags = {"store": os.fspath(store) if store is not None else None}
    return Holdfast(config_of(resolve(flags=flags, environ=os.environ, project=Path.cwd())), environ=os.environ)


def __getattr__(name: str) -> Any:
    """Load the runtime when something of it is first named: an import of holdfast alone stays a few milliseconds."""
    if name in _IN_RUNTIME:
        return getattr(import_module("holdfast.runtime"), name)
    if name == "Session":
        return import_module("holdfast.session").Session
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
