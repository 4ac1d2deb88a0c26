"""A process that delivers mail, each of it twice: `python sender.py STORE NAME COUNT`."""

from __future__ import annotations

import asyncio
import sys

from threadkeep import Config, Threadkeep


async def send(location: str, name: str, count: int) -> None:
    async with Threadkeep(Config(store=location)) as tk:
        thread = await tk.thread("t")
        for number in range(count):
            for _ in range(2):
                await thread.deliver(f"{name} says {number}", sender=name, mail_id=f"{name}:{number}")


if __name__ == "__main__":
    asyncio.run(send(sys.argv[1], sys.argv[2], int(sys.argv[3])))
