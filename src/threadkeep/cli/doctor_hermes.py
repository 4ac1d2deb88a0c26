"""`threadkeep doctor --hermes`: is threadkeep the context engine that Hermes uses, and if not, why not."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.adapters.hermes.doctor import Check, ask_host, checks_of, host_python
from threadkeep.cli.output import open_screen, print_json

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen


def run(args: Namespace) -> int:
    """Ask the host; 1 when threadkeep is not the engine it uses.

    Raises:
        BadInput: There is no host to ask, or it does not answer.
    """
    home = Path(args.hermes or os.environ.get("HERMES_HOME") or "~/.hermes").expanduser()
    python = host_python(args.hermes_python, environ=os.environ)
    checks = checks_of(ask_host(python, home=home, environ=os.environ), home=home)
    in_use = all(check.good for check in checks)
    if args.json:
        print_json({"home": str(home), "python": python, "in_use": in_use, "checks": [asdict(check) for check in checks]})
    else:
        _tell(open_screen(), checks, in_use=in_use)
    return 0 if in_use else 1


def _tell(screen: Screen, checks: list[Check], *, in_use: bool) -> None:
    rows: list[list[Part]] = [
        [("ok", "green") if check.good else ("!!", "bold red"), check.name, check.found] for check in checks
    ]
    screen.table(["", "", ""], rows, indent=2)
    screen.heading("Next")
    if in_use:
        screen.line("threadkeep is the context engine in use; `/threadkeep` in a session shows its figures", indent=2)
    for check in checks:
        if not check.good:
            screen.line(check.advice, indent=2)
