"""threadkeep as the context engine of Hermes Agent.

Hermes finds this module through the entry point `threadkeep` of the group `hermes_agent.plugins`, or through the folder
`plugins/hermes`, and calls `register`. It is used where the host's config says `plugins: {enabled: [threadkeep]}` and
`context: {engine: threadkeep}`; `threadkeep doctor --hermes` proves whether it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadkeep.adapters.hermes.engine import Engine


def make_engine() -> Engine:
    """Return an engine that is also of the host's own class; only where Hermes is installed."""
    from agent.context_engine import ContextEngine

    from threadkeep.adapters.hermes.engine import Engine

    class HermesEngine(Engine, ContextEngine):  # type: ignore[misc]  # the host's class, which the type checker cannot see
        """threadkeep's engine in a running Hermes."""

    return HermesEngine()


def register(ctx: Any) -> None:
    """Register the engine and the command `/threadkeep`, which shows its figures. Opens nothing before a session starts."""
    from threadkeep.adapters.hermes.engine import show_figures

    ctx.register_context_engine(make_engine())
    # Older hosts have no slash commands for plugins.
    command = getattr(ctx, "register_command", None)
    if callable(command):
        command("threadkeep", show_figures, description="show this session's thread and what its compactions saved")
