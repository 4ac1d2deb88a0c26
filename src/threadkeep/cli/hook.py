"""`threadkeep hook`: hooks of Codex and Claude Code, put into their settings, and run for them."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from threadkeep.adapters.client_hooks.clients import CLIENTS
from threadkeep.cli.cleaning import clean
from threadkeep.cli.hook_places import data_folder, own_program
from threadkeep.cli.output import open_screen, print_json
from threadkeep.errors import BadInput


def run(args: Namespace) -> int:
    """Install hooks, take them out again, or be one."""
    if args.action == "run":
        from threadkeep.cli.hook_run import run as run_hook

        return run_hook(args)
    return _install(args)


def _install(args: Namespace) -> int:
    """Show what would change in the client's settings; with `--yes`, change it."""
    from threadkeep.adapters.client_hooks.installing import Installation

    client = CLIENTS[args.client]
    path = client.settings(args.scope, environ=os.environ, project=Path.cwd())
    installation = Installation(client=client, path=path, memory=data_folder() / "installed")
    change = installation.plan_undo() if args.undo else installation.plan(own_program(), store=_store_named(args))
    written = bool(change.diff) and args.yes
    if written:
        (installation.undo if args.undo else installation.install)(change)
    if args.json:
        print_json({"client": client.name, "scope": args.scope, "file": str(path), "diff": change.diff, "written": written})
    else:
        _tell(str(path), change.diff, written=written, client=client.name, undo=args.undo)
    return 0


def _tell(path: str, diff: str, *, written: bool, client: str, undo: bool) -> None:
    screen = open_screen()
    if not diff:
        screen.line(f"{path}: ", ("no hooks of threadkeep here" if undo else "the hooks are there already", "green"))
        return
    # As it is: a line that is folded would be no line of a diff.
    print(clean(diff), end="", flush=True)
    if not written:
        screen.line(("nothing written; --yes does it", "yellow"))
    elif client == "codex" and not undo:
        screen.line(("written", "green"), "; Codex runs hooks only once you have trusted them, which it asks for in its terminal")
    else:
        screen.line(("written", "green"), "" if undo else f"; `threadkeep hook install {client} --undo --yes` takes it back")


def _store_named(args: Namespace) -> str | None:
    """Return the store as a hook is to be told it: a path must hold wherever the client stands."""
    if args.store is None or "://" in args.store:
        return str(args.store) if args.store is not None and not _has_password(args.store) else None
    return str(Path(args.store).expanduser().absolute())


def _has_password(address: str) -> bool:
    """Whether an address has a password in it.

    Raises:
        BadInput: It does: settings of another program are no place for it.
    """
    user, at, _ = address.partition("://")[2].rpartition("@")
    if at and ":" in user:
        raise BadInput("this address has a password in it, which the client's settings would show; put it into THREADKEEP_STORE")
    return False
