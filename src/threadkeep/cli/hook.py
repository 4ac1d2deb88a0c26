"""`threadkeep hook run`: called by a client around its own compaction. Whatever happens, the client goes on."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import threading
from argparse import Namespace
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from threadkeep.adapters.client_hooks import LARGEST_EVENT, parse_event, render_context, render_warning, split_part
from threadkeep.adapters.client_settings.clients import HOOK_CLIENTS, PART_BYTES, PARTS, find_own_program
from threadkeep.cli.safe_text import clean_line
from threadkeep.cli.settings import read_config
from threadkeep.client import Threadkeep
from threadkeep.errors import InvalidArgument, ThreadkeepError

# A client waits this long before it compacts; unfinished work goes on the next time, from where it stopped.
LONGEST_S = 30.0
# Work that hangs outside the event loop (a disk, a lock) ends with the process.
GRACE_S = 5.0
FOLDER = "~/.local/share/threadkeep/client-hooks"
LARGEST_FAILURES = 1 << 20
CUT = "[the rest of the session state did not fit; `threadkeep show THREAD --state` has all of it]"


def run(args: Namespace) -> int:
    """Answer one event on standard output. Always 0: a client must not suffer from a hook that failed."""
    watchdog = threading.Timer(LONGEST_S + GRACE_S, _give_up, args=(args.client,))
    watchdog.daemon = True
    watchdog.start()
    try:
        answer = asyncio.run(_answer(args))
        if answer is not None:
            print(answer)
    except TimeoutError:
        _report(f"it took longer than {LONGEST_S:g} seconds", client=args.client)
    except (ThreadkeepError, OSError, ValueError, msgspec.MsgspecError) as error:
        _report(str(error), client=args.client)
    finally:
        watchdog.cancel()
    return 0


async def _answer(args: Namespace) -> str | None:
    """Return the answer to the client; None where it needs none."""
    from threadkeep.adapters.client_hooks import ThreadIndex, describe_session, record_session

    body = sys.stdin.buffer.read(LARGEST_EVENT + 1)
    if len(body) > LARGEST_EVENT:
        raise InvalidArgument(
            "event", f"this is not a hook event: it has more than {LARGEST_EVENT:,} bytes; give the JSON that the client sends"
        )
    event = parse_event(body)
    if event.kind == "other":
        return None
    form, index = HOOK_CLIENTS[args.client].form, ThreadIndex(folder=_find_data_folder() / "sessions")
    async with asyncio.timeout(LONGEST_S), Threadkeep(read_config(args), environ=os.environ) as tk:
        if event.kind == "PreCompact":
            await record_session(tk, event, form=form, index=index)
            return None
        store = ("--store", args.store) if args.store else ()
        recall = shlex.join((*find_own_program(), *store, "recall"))
        text = await describe_session(tk, event, form=form, index=index, recall=recall)
    part = split_part(text, args.part, limit_bytes=PART_BYTES, parts=PARTS, rest=CUT) if text else None
    return render_context(part) if part else None


def _report(text: str, *, client: str) -> None:
    """Put a failure into the client's log, its answer for the user, and the file of failures."""
    message = f"threadkeep could not keep this session's state: {clean_line(text)}"
    print(f"threadkeep: {message}", file=sys.stderr)
    print(render_warning(message))
    with suppress(OSError):
        _log_failure(message, client=client)


def _log_failure(text: str, *, client: str) -> None:
    file = _find_data_folder() / "failures.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    # A hook that fails every time must not fill the disk; the newest failures count.
    is_full = file.exists() and file.stat().st_size > LARGEST_FAILURES
    line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "client": client, "text": text}
    with file.open("w" if is_full else "a", encoding="utf-8") as failures:
        failures.write(json.dumps(line) + "\n")


def _find_data_folder() -> Path:
    return Path(FOLDER).expanduser()


def _give_up(client: str) -> None:
    _report(f"it took longer than {LONGEST_S + GRACE_S:g} seconds", client=client)
    sys.stdout.flush()
    # Threads that hang would keep the interpreter, and the client with it; the store survives a kill.
    os._exit(0)
