"""`threadkeep demo`: a recorded session, played through the real gateway."""

from __future__ import annotations

from argparse import Namespace

from threadkeep.cli.output import open_screen
from threadkeep.demo.play import play_session
from threadkeep.demo.session import load_session


async def run(_: Namespace) -> int:
    """Play the recorded session and print what was kept."""
    return await play_session(load_session(), console=open_screen().console)
