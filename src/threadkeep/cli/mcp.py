"""`threadkeep mcp`: the MCP server, over stdin and stdout or over HTTP on this machine, until the client or a signal ends it."""

from __future__ import annotations

import hmac
import os
import sys
from argparse import Namespace
from importlib.util import find_spec

from threadkeep.cli.output import print_json
from threadkeep.cli.settings import read_config
from threadkeep.cli.store import TOKEN_VARIABLE, describe_store, find_token, open_keys
from threadkeep.client import Config, Threadkeep
from threadkeep.errors import MissingExtra
from threadkeep.gateway.http.keys import Keys

HOST = "127.0.0.1"


async def run(args: Namespace) -> None:
    """Serve the tools of MCP.

    Raises:
        MissingExtra: The SDK is not installed.
        BadInput: The file of keys cannot be understood.
    """
    if find_spec("mcp") is None:
        raise MissingExtra("the MCP server", extra="mcp")
    config = read_config(args)
    if args.http:
        await _serve_http(args, config, open_keys(config))
    else:
        await _serve_stdio(args, config)


async def _serve_stdio(args: Namespace, config: Config) -> None:
    from threadkeep.mcp.server import serve_stdio
    from threadkeep.mcp.tools import Access

    async with Threadkeep(config, environ=os.environ) as tk:
        if args.thread is not None:
            await tk.find(args.thread)
        access = Access(tk=tk, thread=args.thread, trusts_client=args.trust_client)
        await serve_stdio(access, read_only=args.read_only)


async def _serve_http(args: Namespace, config: Config, keys: Keys | None) -> None:
    from threadkeep.gateway.http.server import serve
    from threadkeep.mcp.http import PATH, Admitted, http_app

    token, token_file = find_token(config)

    def unlock(credential: str) -> Admitted | None:
        if hmac.compare_digest(credential.encode(), token.encode()):
            return Admitted(tenant=None)
        tenant = keys.tenant_of(credential) if keys else None
        return Admitted(tenant=tenant) if tenant is not None else None

    async with Threadkeep(config, environ=os.environ) as tk:
        stores: dict[str | None, Threadkeep] = {None: tk}

        async def open_store(tenant: str | None) -> Threadkeep:
            if tenant not in stores:
                stores[tenant] = await tk.for_tenant(tenant or config.tenant)
            return stores[tenant]

        def announce(url: str) -> None:
            store = describe_store(config)
            if args.json:
                print_json({"url": f"{url}{PATH}", "store": store, "token_file": str(token_file) if token_file else None})
                return
            where = f"in {token_file}" if token_file else f"${TOKEN_VARIABLE}" if os.environ.get(TOKEN_VARIABLE) else token
            print(f"threadkeep speaks MCP at {url}{PATH}, about {store}; its token is {where}. Ctrl-C stops.")
            sys.stdout.flush()

        app = http_app(open_store, unlock=unlock, thread=args.thread, read_only=args.read_only, trusts_client=args.trust_client)
        async with app as inside:
            await serve(inside, host=HOST, port=args.port, on_ready=announce, on_stop=inside.stop)
