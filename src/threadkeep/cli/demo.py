"""`threadkeep demo`: a recorded session, played through the real gateway."""

from __future__ import annotations

from argparse import Namespace

from threadkeep.cli.output import open_screen
from threadkeep.demo.play import play_demo


async def run(_: Namespace) -> int:
    """Play the recorded session and print what was kept."""
    return await play_demo(console=open_screen().console)
