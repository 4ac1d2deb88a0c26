"""`threadkeep view`: the web viewer on this machine, until a signal ends it."""

from __future__ import annotations

import asyncio
import webbrowser
from argparse import Namespace

from threadkeep.cli.opening import existing_store, store_name, token_place
from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import Config
from threadkeep.gateway.control.identity import load_token, make_token
from threadkeep.gateway.http.server import serve
from threadkeep.store.locations import IN_MEMORY
from threadkeep.viewer.servers import StandaloneViewer

HOST = "127.0.0.1"


def run(args: Namespace) -> int:
    """Serve the viewer until SIGINT or SIGTERM."""
    asyncio.run(_view(args))
    return 0


async def _view(args: Namespace) -> None:
    async with existing_store(args) as tk:
        # The address that is printed opens the viewer as long as this runs, and lies in a browser's history longer than that.
        here = make_token()
        app = StandaloneViewer(tk, passes=(here, *_kept_passes(tk.config)), allow_changes=args.allow_changes)

        def announce(url: str) -> None:
            address = f"{url}/ui/enter?pass={here}"
            if args.json:
                print_json({"url": f"{url}/ui/", "enter": address, "store": store_name(tk.config)})
                return
            screen = open_screen()
            screen.line(("threadkeep", "bold green"), f" shows {store_name(tk.config)}")
            screen.whole_line(f"open {address}", indent=2)
            changes = "changes are allowed" if args.allow_changes else "read-only; --allow-changes lets it change threads"
            screen.line((f"{changes}. Ctrl-C stops.", "dim"))
            if args.open:
                webbrowser.open(address)

        await serve(app, host=HOST, port=args.port, on_ready=announce, on_stop=app.stop)


def _kept_passes(config: Config) -> tuple[str, ...]:
    """Return the token a gateway on the same store is opened with; one in memory has none that is kept."""
    return () if config.store == IN_MEMORY else (load_token(token_place(config)),)
