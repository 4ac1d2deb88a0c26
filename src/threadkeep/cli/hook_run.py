"""`threadkeep hook run`: called by a client around its own compaction. Whatever happens, the client goes on."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import threading
from argparse import Namespace
from contextlib import suppress

import msgspec

from threadkeep.adapters.client_hooks import LARGEST_CALL, context_answer, part_of, read_call, trouble_answer
from threadkeep.adapters.client_settings.clients import HOOK_CLIENTS, PART_BYTES, PARTS
from threadkeep.cli.cleaning import one_line
from threadkeep.cli.hook_places import data_folder, note_failure, own_program
from threadkeep.cli.opening import settings_of
from threadkeep.client import Threadkeep, build_config
from threadkeep.errors import BadInput, ThreadkeepError

# A client waits for this before it compacts; work that takes longer goes on the next time, from where it stopped.
LONGEST_S = 30.0
# What hangs outside the event loop (a disk, a lock) ends with the process.
GRACE_S = 5.0


def run(args: Namespace) -> int:
    """Answer one event on standard output. Always 0: a client must not suffer from a hook that failed."""
    watchdog = threading.Timer(LONGEST_S + GRACE_S, _give_up, args=(args.client,))
    watchdog.daemon = True
    watchdog.start()
    try:
        answer = asyncio.run(_answered(args))
        if answer is not None:
            print(answer)
    except TimeoutError:
        _report(f"it took longer than {LONGEST_S:g} seconds", client=args.client)
    except (ThreadkeepError, OSError, ValueError, msgspec.MsgspecError) as error:
        _report(str(error), client=args.client)
    finally:
        watchdog.cancel()
    return 0


async def _answered(args: Namespace) -> str | None:
    """Return what the client is told, if anything."""
    from threadkeep.adapters.client_hooks import Sessions, hand_back, keep

    body = sys.stdin.buffer.read(LARGEST_CALL + 1)
    if len(body) > LARGEST_CALL:
        raise BadInput("this is no hook event: it is too long")
    call = read_call(body)
    if call.event == "other":
        return None
    form, sessions = HOOK_CLIENTS[args.client].form, Sessions(folder=data_folder() / "sessions")
    async with asyncio.timeout(LONGEST_S), Threadkeep(build_config(settings_of(args)), environ=os.environ) as tk:
        if call.event == "PreCompact":
            await keep(tk, call, form=form, sessions=sessions)
            return None
        place = ("--store", args.store) if args.store else ()
        recall = shlex.join((*own_program(), *place, "recall"))
        text = await hand_back(tk, call, form=form, sessions=sessions, recall=recall)
    rest = "[the rest of the session state did not fit; `threadkeep show THREAD --state` has all of it]"
    told = part_of(text, args.part, limit_bytes=PART_BYTES, parts=PARTS, rest=rest) if text else None
    return context_answer(told) if told else None


def _report(text: str, *, client: str) -> None:
    """Say what went wrong to the client's log, to its user, and to whoever looks later."""
    message = f"threadkeep could not keep this session's state: {one_line(text)}"
    print(f"threadkeep: {message}", file=sys.stderr)
    print(trouble_answer(message))
    with suppress(OSError):
        note_failure(message, client=client)


def _give_up(client: str) -> None:
    _report(f"it took longer than {LONGEST_S + GRACE_S:g} seconds", client=client)
    sys.stdout.flush()
    # Threads that hang would keep the interpreter, and the client with it; the store survives a kill.
    os._exit(0)
