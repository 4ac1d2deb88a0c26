"""`threadkeep view`: the web viewer on this machine, until a signal ends it."""

from __future__ import annotations

import webbrowser
from argparse import Namespace

from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.store import describe_store, locate_token, open_existing_store
from threadkeep.gateway.control.identity import load_token, make_token
from threadkeep.gateway.http.server import serve
from threadkeep.store.locations import IN_MEMORY
from threadkeep.viewer.app import StandaloneViewer

HOST = "127.0.0.1"


async def run(args: Namespace) -> None:
    """Serve the viewer until SIGINT or SIGTERM."""
    async with open_existing_store(args) as tk:
        # The printed address stays in the browser's history, so its token is valid only while this runs.
        own_token = make_token()
        gateway_tokens = () if tk.config.store == IN_MEMORY else (load_token(locate_token(tk.config)),)
        app = StandaloneViewer(tk, passes=(own_token, *gateway_tokens), allow_changes=args.allow_changes)

        def announce(url: str) -> None:
            address = f"{url}/ui/enter?pass={own_token}"
            if args.json:
                print_json({"url": f"{url}/ui/", "enter": address, "store": describe_store(tk.config)})
                return
            screen = open_screen()
            screen.write(("threadkeep", "bold green"), f" shows {describe_store(tk.config)}")
            screen.write_uncut(f"open {address}", indent=2)
            changes = "changes are allowed" if args.allow_changes else "read-only; --allow-changes lets it change threads"
            screen.write((f"{changes}. Ctrl-C stops.", "dim"))
            if args.open:
                webbrowser.open(address)

        await serve(app, host=HOST, port=args.port, on_ready=announce, on_stop=app.stop)
