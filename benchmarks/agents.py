"""Measures many agents who write to each other in one store: is every message delivered once and in order, and how fast?

`python -m benchmarks.agents --agents 1000 --messages 100000` runs it at full size in a temporary file. All agents run their
turns at the same time, so mail arrives while its reader works; nobody waits for anybody.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from threadkeep.client import Config, Thread, Threadkeep
from threadkeep.dialects import find_dialect
from threadkeep.items import decode_json
from threadkeep.store import RecordKind
from threadkeep.threads.mailbox import Way
from threadkeep.threads.records import MailBody, read_mail_record

DIALECT = "responses"
MESSAGES_A_TURN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What was found. Lost, doubled and disordered must be 0: the rest are figures."""

    agents: int
    messages: int
    heard: int
    lost: int
    doubled: int
    disordered: int
    turns: int
    seconds: float
    messages_a_second: float
    deliver_ms_p50: float
    deliver_ms_p99: float
    store_bytes: int
    bytes_a_message: float


@dataclass(slots=True)
class _Run:
    """An exchange under way: who has how many messages left to send, and how long each delivery took."""

    threads: Sequence[Thread]
    left: list[int]
    luck: random.Random
    waits_ms: list[float]
    turns: int = 0

    async def turn(self, index: int) -> None:
        """Run one turn of an agent: it hears what waits, answers, and writes to others while they are at work too."""
        thread = self.threads[index]
        pending = (await thread.mail()).pending
        if not pending and not self.left[index]:
            return
        self.turns += 1
        async with thread.turn([] if pending else [_build_message("user", "Say something to the others.")]) as turn:
            await turn.window()
            for _ in range(min(MESSAGES_A_TURN, self.left[index])):
                await self._send(index)
            await turn.record([_build_message("assistant", f"{thread.id} heard {len(pending)}")])

    async def _send(self, index: int) -> None:
        name = f"{self.threads[index].id}:{self.left[index]:06d}"
        self.left[index] -= 1
        to = self.threads[self.luck.randrange(len(self.threads))]
        began = time.perf_counter_ns()
        await to.deliver(f"message {name}", sender=self.threads[index].id, way=Way.TRIGGER, mail_id=name)
        self.waits_ms.append((time.perf_counter_ns() - began) / 1e6)


async def run_exchange(
    file: Path, *, agents: int, messages: int, seed: int = 7, say: Callable[[str], None] = lambda text: None
) -> Exchange:
    """Let `agents` exchange `messages` in the store at `file`, until no mail waits, and read back what each received."""
    async with Threadkeep(Config(store=str(file))) as tk:
        threads = await asyncio.gather(*(tk.thread(f"agent-{number:04d}", dialect=DIALECT) for number in range(agents)))
        shares = [messages // agents + (number < messages % agents) for number in range(agents)]
        run = _Run(threads=threads, left=shares, luck=random.Random(seed), waits_ms=[])
        began = time.perf_counter()
        while any(run.left) or await _has_waiting_mail(threads):
            await asyncio.gather(*(run.turn(index) for index in range(agents)))
            say(f"{messages - sum(run.left):,} of {messages:,} sent, {time.perf_counter() - began:.0f} s")
        seconds = time.perf_counter() - began
        letters = [letter for thread in threads for letter in await read_heard_mail(thread)]
    waits = sorted(run.waits_ms)
    size = sum(part.stat().st_size for part in file.parent.glob(f"{file.name}*"))
    times = Counter(name for name, _ in letters)
    return Exchange(
        agents=agents,
        messages=messages,
        heard=len(letters),
        lost=messages - len(times),
        doubled=sum(count - 1 for count in times.values()),
        disordered=_count_disordered(letters),
        turns=run.turns,
        seconds=round(seconds, 1),
        messages_a_second=round(messages / seconds, 1),
        deliver_ms_p50=round(waits[len(waits) // 2], 2),
        deliver_ms_p99=round(waits[len(waits) * 99 // 100], 2),
        store_bytes=size,
        bytes_a_message=round(size / messages, 1),
    )


async def read_heard_mail(thread: Thread) -> list[tuple[str, str]]:
    """Return what an agent's history has of others' messages: their ids and its own, in the order they stand there.

    The words are compared with the mail they came in: what is counted as received is what was sent.
    """
    records = await thread.records()
    sent = {record.ordinal: body for record in records if isinstance(body := read_mail_record(record), MailBody)}
    letters: list[tuple[str, str]] = []
    for record in records:
        if record.kind is RecordKind.ITEM and record.target is not None:
            mail = sent[record.target]
            if f"message {mail.id}\n" in read_text(record.body):
                letters.append((mail.id, thread.id))
    return letters


def read_text(raw: bytes) -> str:
    dialect = find_dialect(DIALECT)
    return dialect.view(dialect.parse(decode_json(raw))).text


def _count_disordered(letters: Sequence[tuple[str, str]]) -> int:
    """Return how many messages one agent received from another before an older one; ids of one sender count down."""
    by_pair: dict[tuple[str, str], list[str]] = {}
    for name, reader in letters:
        by_pair.setdefault((name.partition(":")[0], reader), []).append(name)
    return sum(later >= earlier for names in by_pair.values() for earlier, later in pairwise(names))


async def _has_waiting_mail(threads: Sequence[Thread]) -> bool:
    for thread in threads:
        if (await thread.mail()).pending:
            return True
    return False


def _build_message(role: str, text: str) -> dict[str, object]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def main() -> None:
    """Run an exchange and print what was found as JSON; exit 1 if a message was lost, doubled or out of order."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agents", description=__doc__)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "agents.db"
        found = asyncio.run(
            run_exchange(
                file,
                agents=args.agents,
                messages=args.messages,
                seed=args.seed,
                say=_tell,
            )
        )
    sys.stdout.write(json.dumps(asdict(found), indent=2) + "\n")
    sys.exit(1 if found.lost or found.doubled or found.disordered else 0)


if __name__ == "__main__":
    main()
