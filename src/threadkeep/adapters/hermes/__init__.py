"""threadkeep as the context engine of Hermes Agent.

Hermes finds this module through the entry point `threadkeep` of the group `hermes_agent.plugins`, or through the folder
`plugins/hermes`, and calls `register`. It is used where the host's config says `plugins: {enabled: [threadkeep]}` and
`context: {engine: threadkeep}`; `threadkeep doctor --hermes` proves whether it is.
"""

from __future__ import annotations

from typing import Any


def register(ctx: Any) -> None:
    """Offer the engine to the host, and `/threadkeep`, which shows its figures. Nothing is opened before a session begins."""
    from threadkeep.adapters.hermes.plugin import HermesEngine, figures

    ctx.register_context_engine(HermesEngine())
    # Hosts before it had slash commands of plugins do without.
    command = getattr(ctx, "register_command", None)
    if callable(command):
        command("threadkeep", figures, description="what threadkeep keeps of this session, and what its compactions saved")
