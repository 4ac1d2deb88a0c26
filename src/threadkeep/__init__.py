"""threadkeep keeps long-running LLM agents on course through any number of context compactions, and can prove that it did.

`async with threadkeep.open("agent.db") as tk:` opens a store; `await tk.thread("ship-it", dialect="responses")` creates or
resumes a thread; `record`, `window`, `turn`, `compact`, `fork`, `rollback`, `undo` and `recall` are what it does. `Session` is
an agent on one.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadkeep.client import Config, Head, Thread, Threadkeep, Window
    from threadkeep.errors import ThreadkeepError
    from threadkeep.session import Session

__version__ = "0.1.0"

__all__ = ["Config", "Head", "Session", "Thread", "Threadkeep", "ThreadkeepError", "Window", "__version__", "open"]

_IN_RUNTIME = frozenset({"Config", "Head", "Threadkeep", "Thread", "Window"})


def open(store: str | os.PathLike[str] | None = None) -> Threadkeep:
    """Open a store for use in `async with`: a path or `sqlite:///PATH`; without one, what `THREADKEEP_STORE` or a
    `threadkeep.toml` names, else the user's own.

    Raises:
        BadInput: A configuration file or variable cannot be understood.
    """
    from pathlib import Path

    from threadkeep.client import Threadkeep, build_config, resolve

    flags = {"store": os.fspath(store) if store is not None else None}
    return Threadkeep(build_config(resolve(flags=flags, environ=os.environ, project=Path.cwd())), environ=os.environ)


def __getattr__(name: str) -> Any:
    """Load the facade on first use, so that `import threadkeep` alone takes a few milliseconds."""
    if name in _IN_RUNTIME:
        return getattr(import_module("threadkeep.client"), name)
    if name == "ThreadkeepError":
        return import_module("threadkeep.errors").ThreadkeepError
    if name == "Session":
        return import_module("threadkeep.session").Session
    raise AttributeError(f"module 'threadkeep' has no attribute {name!r}")
