"""Several processes work on one SQLite file at once: nothing acknowledged is lost, and no writer starves beside the others."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from tests.drivers.gateway_process import gateway_process
from tests.sharing.writers import item

from threadkeep import Config, Thread, Threadkeep
from threadkeep.store import RecordKind, Span

WRITERS = Path(__file__).with_name("writers.py")
SECONDS = float(os.environ.get("THREADKEEP_SHARING_SECONDS", "10"))
# While one call waits, this many calls of all others together may begin and end. A slow disk delays everyone alike and counts
# for nothing here; a lock that one process wins again and again counts for hundreds.
OVERTAKEN = 300
CLIENTS = 2
TURNS_A_CONVERSATION = 8
SEED_TURNS = 12


@dataclass(slots=True)
class Seen:
    """What was acknowledged: texts by thread, texts sent through the gateway, threads made; and every call, by writer."""

    recorded: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    sent: list[str] = field(default_factory=list)
    forks: list[str] = field(default_factory=list)
    calls: defaultdict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def acknowledged(self, writer: str, line: bytes) -> None:
        told = json.loads(line)
        self.recorded[told["thread"]].append(told["text"])
        self.calls[writer].append((told["began"], told["ended"]))


async def started(*words: str, takes_input: bool = False) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, str(WRITERS), *words, stdin=pipe if takes_input else None, stdout=pipe, stderr=pipe
    )


async def finished(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """Return what a process said once it has ended well."""
    said, complained = await process.communicate()
    assert process.returncode == 0, complained.decode()
    return said, complained


async def run_lingerer(store: Path, seen: Seen) -> None:
    said, _ = await finished(await started("linger", str(store), str(SECONDS)))
    for line in said.splitlines():
        seen.acknowledged("long-lived writer", line)


async def run_hooks(store: Path, seen: Seen, *, until: float) -> None:
    for number in count():
        if time.monotonic() >= until:
            return
        said, _ = await finished(await started("hook", str(store), str(number)))
        seen.acknowledged("hook script", said)


async def run_commands(store: Path, seen: Seen, *, until: float) -> None:
    for number in count():
        name = f"cli-{number}"
        for words in (("fork", "seed", "--name", name), ("rollback", name, "--turns", "1"), ("compact", name), ("verify", name)):
            if time.monotonic() >= until:
                return
            _, complained = await finished(await started("command", str(store), *words))
            seen.calls["command line"].extend((began, ended) for began, ended in json.loads(complained))
            if words[0] == "fork":
                seen.forks.append(name)


async def run_client(base_url: str, seen: Seen, *, name: int, until: float) -> None:
    async with ClientSession() as session:
        for conversation in count():
            history: list[dict[str, object]] = []
            for turn in range(TURNS_A_CONVERSATION):
                if time.monotonic() >= until:
                    return
                text = f"client {name} conversation {conversation} turn {turn}"
                history.append(item(text))
                began = time.monotonic()
                async with session.post(f"{base_url}/responses", json={"model": "m", "input": history}) as answer:
                    told = await answer.json()
                    assert answer.status == 200, told
                seen.calls["gateway"].append((began, time.monotonic()))
                seen.sent.append(text)
                history.extend(told["output"])


@asynccontextmanager
async def provider() -> AsyncIterator[str]:
    """A provider that answers everything at once, with a message nobody else was sent."""
    numbers = count()

    async def answer(_: web.Request) -> web.Response:
        number = next(numbers)
        part = {"type": "output_text", "text": f"answer {number}", "annotations": []}
        message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [part]}
        return web.json_response({"id": f"resp_{number}", "object": "response", "status": "completed", "output": [message]})

    application = web.Application()
    application.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def seeded(tk: Threadkeep) -> Thread:
    thread = await tk.thread("seed")
    for number in range(SEED_TURNS):
        reply = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"done {number} " * 200}]}
        await thread.record([item(f"seed {number}: never deploy on a Friday"), reply])
    return thread


def others(calls: Mapping[str, Sequence[tuple[float, float]]], writer: str) -> Sequence[tuple[float, float]]:
    """Return the calls of everyone else, in the order they ended."""
    theirs = [call for name, made in calls.items() if name != writer for call in made]
    return sorted(theirs, key=lambda call: call[1])


def most_overtaken(calls: Sequence[tuple[float, float]], *, by: Sequence[tuple[float, float]]) -> int:
    """Return how many calls of others began and ended within one of these, at most."""
    ends = [ended for _, ended in by]
    most = 0
    for began, ended in calls:
        within = by[bisect_left(ends, began) : bisect_left(ends, ended)]
        most = max(most, sum(start >= began for start, _ in within))
    return most


async def texts(tk: Threadkeep, thread_id: str) -> list[str]:
    """Return what people said on a thread, oldest first, each taken from the record's very bytes."""
    store = tk.backend.store
    row = await store.get(thread_id)
    records = await store.read(Span(thread_id=thread_id, start=row.start, stop=row.next), kinds={RecordKind.ITEM})
    said = []
    for record in records:
        told = json.loads(record.body)
        if told["role"] == "user":
            assert told == item(told["content"][0]["text"])
            said.append(told["content"][0]["text"])
    return said


@pytest.mark.anyio
@pytest.mark.chaos
async def test_four_kinds_of_writer_share_a_file(store_file: Path, record_property: Callable[[str, object], None]) -> None:
    """Gateway, command line, hook scripts and a long-lived writer: every acknowledged record is there, none starved."""
    seen = Seen()
    async with Threadkeep(Config(store=str(store_file))) as tk:
        await seeded(tk)
    async with provider() as upstream, gateway_process(store_file, upstream=upstream) as gateway:
        until = time.monotonic() + SECONDS
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(run_lingerer(store_file, seen))
            tasks.create_task(run_hooks(store_file, seen, until=until))
            tasks.create_task(run_commands(store_file, seen, until=until))
            for number in range(CLIENTS):
                tasks.create_task(run_client(gateway.base_url, seen, name=number, until=until))
    async with Threadkeep(Config(store=str(store_file))) as tk:
        rows = {row.id: row for row in await tk.backend.store.threads(limit=1_000_000)}
        told = {name: await texts(tk, name) for name in rows}
        verdict = await tk.verify()
    assert {name: told[name] for name in seen.recorded} == seen.recorded
    named = {"seed", "hooks", *seen.recorded, *seen.forks}
    through_gateway = Counter(text for name, said in told.items() if name not in named for text in said)
    assert {text: through_gateway[text] for text in seen.sent} == dict.fromkeys(seen.sent, 1)
    assert {name: rows[name].parent for name in seen.forks} == dict.fromkeys(seen.forks, "seed")
    assert verdict.problems == ()
    overtaken = {writer: most_overtaken(calls, by=others(seen.calls, writer)) for writer, calls in seen.calls.items()}
    for writer, calls in seen.calls.items():
        longest_ms = round(max(ended - began for began, ended in calls) * 1000, 1)
        record_property(f"{writer}: calls, longest in ms, most overtaken", (len(calls), longest_ms, overtaken[writer]))
    record_property("records", verdict.records)
    assert set(overtaken) == {"gateway", "command line", "hook script", "long-lived writer"}
    assert {writer: count for writer, count in overtaken.items() if count > OVERTAKEN} == {}


@pytest.mark.anyio
async def test_of_two_stale_writers_one_wins(store_file: Path) -> None:
    """Two processes that saw the same end of a thread both append: one wins, the other is told so and can go on."""
    async with Threadkeep(Config(store=str(store_file))) as tk:
        thread = await tk.thread("contested")
        await thread.record([item("begin")])
    writers = [await started("stale", str(store_file), name, takes_input=True) for name in ("left", "right")]
    ends = []
    for writer in writers:
        assert writer.stdout is not None
        ends.append(int(await writer.stdout.readline()))
    outcomes = await asyncio.gather(*(writer.communicate(b"go\n") for writer in writers))
    end = ends[0]
    conflict = f"ordinal_conflict: thread 'contested' is at ordinal {end + 1}, not {end}; reload it and append again"
    assert ends == [end, end]
    assert sorted(said.decode() for said, _ in outcomes) == [f"{conflict}\n", "won\n"]
    assert [complained for _, complained in outcomes] == [b"", b""]
    async with Threadkeep(Config(store=str(store_file))) as tk:
        assert sorted(await texts(tk, "contested")) == ["begin", "left", "right"]
