"""`threadkeep key`: a new key of the gateway."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from threadkeep.cli.opening import settings_of
from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import build_config
from threadkeep.errors import BadInput
from threadkeep.gateway.http.keys import Keys, KeysFile, digest_key, make_key

HEADER = "[keys]\n"


def run(args: Namespace) -> int:
    """Make a key, add its digest to the file, and show the key: there is no second time."""
    config = build_config(settings_of(args))
    if config.keys_file is None:
        raise BadInput("say which file keeps the digests of keys: --keys FILE, or keys_file in your own threadkeep.toml")
    path = Path(config.keys_file).expanduser()
    key = make_key()
    add_key(path, key, tenant=args.tenant)
    if args.json:
        print_json({"key": key, "tenant": args.tenant, "file": str(path)})
        return 0
    screen = open_screen()
    screen.line((key, "bold green"))
    screen.line(
        (f"a key of tenant {args.tenant}, shown once; {path} keeps its digest, which a gateway reads when it starts", "dim")
    )
    screen.line(("a client sends it as X-Threadkeep-Key, or has /k/KEY in front of /v1 in its base URL", "dim"))
    return 0


def add_key(path: Path, key: str, *, tenant: str) -> None:
    """Add a key's digest to a file of keys, which is made, for its owner alone, if it is not there.

    Raises:
        BadInput: The file is not one of keys or cannot be written, or the name cannot be a tenant's.
    """
    Keys({digest_key(key): tenant})
    there = path.exists()
    if there:
        KeysFile(path)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(f'{"" if there else HEADER}"{digest_key(key)}" = "{tenant}"\n')
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
