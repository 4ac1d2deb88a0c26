"""`threadkeep erase` and `threadkeep takeout`: what is kept about somebody, gone or in their hands."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from threadkeep.cli.figures import count
from threadkeep.cli.opening import existing_store, settings_of
from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import build_config
from threadkeep.erasure.erase import ErasurePlan, ErasureReport, erase, plan_erasure
from threadkeep.erasure.takeout import TakenOut, take_out
from threadkeep.gateway.http.keys import KeysFile


def run(args: Namespace) -> int:
    """Say what erasing comes to, and with `--yes` do it."""
    plan, report = asyncio.run(_erase(args))
    if args.json:
        print_json({"plan": plan, "done": report})
        return 0
    screen = open_screen()
    over = sum(map(len, plan.checkpoints.values()))
    screen.line(f"{count(len(plan.ordinals), 'record')} of {plan.thread}, {count(over, 'checkpoint')} drawn up over them")
    if report is None:
        screen.line(("nothing was erased yet: --yes does it, and nothing brings it back", "yellow"))
    else:
        screen.line(("erased", "bold green"), f"  {count(report.records, 'record')}; noted in {plan.thread}")
    return 0


async def _erase(args: Namespace) -> tuple[ErasurePlan, ErasureReport | None]:
    async with existing_store(args) as tk:
        thread = await tk.find(args.thread)
        plan = await plan_erasure(tk.backend, thread.id, args.ordinals or None)
        if not args.yes:
            return plan, None

        async def recompact(thread_id: str) -> object:
            return await (await tk.find(thread_id)).compact(strategy="extractive")

        return plan, await erase(tk.backend, plan, reason=args.reason, memories=tk.memory, recompact=recompact)


def take_out_everything(args: Namespace) -> int:
    """Write everything down, in a folder that is not there yet."""
    config = build_config(settings_of(args))
    keys = KeysFile(Path(config.keys_file).expanduser()).list_digests(config.tenant) if config.keys_file else []
    done = asyncio.run(_take_out(args, Path(args.output).expanduser(), keys))
    if args.json:
        print_json(done)
        return 0
    open_screen().line(
        ("ok", "bold green"),
        f"  {count(done.threads, 'thread')}, {count(done.records, 'record')}, {count(done.memories, 'memory', 'memories')} and "
        f"{count(done.keys, 'key')} of tenant {done.tenant} in {done.folder}",
    )
    return 0


async def _take_out(args: Namespace, folder: Path, keys: Sequence[str]) -> TakenOut:
    async with existing_store(args) as tk:
        return await take_out(tk.backend, folder, keys=keys)
