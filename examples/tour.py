"""A tour of threadkeep in one file: record, window, compact, recall, fork, undo.

Run it: `python examples/tour.py`. It needs no key and no network, and takes two seconds.

The story: an agent moves an invoice service to a new ledger. People give it rules, tools print long outputs, and the
context window fills up. We compact it, look at what the model sees now, fetch back what left, branch off and undo.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import threadkeep

LINE_WIDTH = 120


def ask(text: str) -> dict[str, Any]:
    """Return a message of the user, as Chat Completions writes it. threadkeep keeps it exactly like this."""
    return {"role": "user", "content": text}


def answer(text: str) -> dict[str, Any]:
    """Return an answer of the agent."""
    return {"role": "assistant", "content": text}


def run(call_id: str, command: str, output: str) -> list[dict[str, Any]]:
    """Return a tool call and its output: the agent runs a shell command."""
    function = {"name": "shell", "arguments": f'{{"cmd": "{command}"}}'}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "type": "function", "function": function}]}
    return [call, {"role": "tool", "tool_call_id": call_id, "content": output}]


def make_log(subject: str, lines: int) -> str:
    """Return a long output, such as a test run prints."""
    return "\n".join(f"{subject} {number:03d} ok, checked against the ledger of last month" for number in range(lines))


# Six turns of work. A turn begins with a message of the user and holds everything up to the next one.
SESSION = [
    [
        ask("Move the invoice service to the new ledger. Never touch anything below vendor/, it is generated."),
        *run("call_1", "make test", make_log("tests/test_totals.py", 60)),
        answer("The rounding is the only thing the new ledger does differently. I will begin there."),
    ],
    [
        ask("Good. Keep amounts in cents, as integers. No floats. The staging database listens on port 5434."),
        *run("call_2", "sed -i s/float/int/ invoice/totals.py", "edited invoice/totals.py: 14 replacements"),
        answer("All amounts are integers now. One test still expects a decimal, so I will change that test."),
    ],
    [
        ask("Yes. Then run the migration on staging."),
        *run("call_3", "make migrate DB=staging", "run id: mig-7f3a91c2\n" + make_log("table part", 60)),
        answer("The migration ran on staging without an error."),
    ],
    [
        ask("The staging database has moved: it listens on port 5440 now, not 5434."),
        *run("call_4", "sed -i s/5434/5440/ config/staging.toml", "edited config/staging.toml: 1 replacement"),
        answer("Staging is configured on port 5440."),
    ],
    [
        ask("The nightly report must keep its file name: finance reads reports/daily.csv every morning."),
        *run("call_5", "cat reports/nightly.py", make_log("write row", 60)),
        answer("The report still writes decimals. I will change it to cents and keep the file name."),
    ],
    [
        ask("Run the whole suite, then open the pull request."),
        *run("call_6", "make test", make_log("tests/test_report.py", 60)),
    ],
]


def print_window(title: str, window: threadkeep.Window) -> None:
    """Print what a model would be sent next, one line for each line of text, long outputs cut."""
    print(f"\n== {title}: {len(window)} items, {window.tokens:,} tokens")
    for item in window:
        text = item.get("content") or item["tool_calls"][0]["function"]["arguments"]
        lines = text.splitlines()
        shown = lines if item["role"] != "tool" else lines[:2]
        for number, line in enumerate(shown):
            speaker = item["role"] if number == 0 else ""
            print(f"  {speaker:>9} | {line if len(line) <= LINE_WIDTH else line[:LINE_WIDTH] + ' …'}")
        if len(shown) < len(lines):
            print(f"  {'':>9} | … {len(lines) - len(shown)} more lines")


async def tour(store: Path) -> None:
    """Walk through the life of one thread in `store`."""
    async with threadkeep.open(store) as tk:
        # 1. Record. A thread is a log: items go in as the provider's own JSON and are never changed again.
        thread = await tk.thread("new-ledger", dialect="chat")
        for turn in SESSION:
            await thread.record(turn)

        # 2. The window is what to send to the model next. Until a compaction it is everything that was recorded.
        before = await thread.window()
        print_window("1. The window before a compaction", before)

        # 3. Compact. No model is asked here: people's messages are kept in their own words, and files, commands and
        #    open calls are computed from the records. An agent calls `thread.turn(...)`, which compacts when it must.
        report = await thread.compact(target="50%")
        after = await thread.window()
        print_window("2. The window after it", after)
        print(f"\n   {report.tokens_before:,} tokens became {report.tokens_after:,}; {report.model_calls} model calls.")

        # 4. Recall. The migration's output has left the window, but not the thread.
        for hit in await thread.recall("run id of the staging migration", limit=1):
            original = await thread.original(str(hit.pointer))
            print(f"\n== 3. Recalled {hit.pointer}: {original['content'].splitlines()[0]}")

        # 5. Fork before the fourth turn, where staging was still on port 5434. A fork copies nothing.
        fork = await thread.fork(before_turn=4, new_id="what-if")
        await fork.record([ask("What if we stay on the old staging machine?")])
        print(f"\n== 4. The fork has {len(await fork.turns())} turns, the thread {len(await thread.turns())}.")

        # 6. Undo the compaction. The window is what it was, byte for byte: a compaction is one record, an undo another.
        await thread.undo()
        print(f"\n== 5. After the undo the window is the old one: {await thread.window() == before}")

        # 7. Check the store: every digest, every call and its output, every pointer.
        verdict = await tk.verify()
        print(f"\n== 6. Verified {verdict.records} records in {verdict.threads} threads: {len(verdict.problems)} problems")


def main() -> None:
    """Take the tour in a new store."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(tour(Path(folder) / "tour.db"))


if __name__ == "__main__":
    main()
