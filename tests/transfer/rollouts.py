"""Small transcripts of our own making, in the shapes of other programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from threadkeep import Threadkeep
from threadkeep.items import decode_json
from threadkeep.store import RecordKind
from threadkeep.transfer.importer import Importer, ImportReport

Json = dict[str, Any]

THREAD = "01a1e0f0-fc48-7710-b868-3f047a60f8e3"
FORK = "01a1e0f0-fc48-7710-b868-3f047a60f8e4"
STAMP = "2026-01-02T03:04:05.678Z"
STAMP_MS = 1_767_323_045_678


def line(kind: str, payload: object, **more: object) -> Json:
    return {"timestamp": STAMP, "type": kind, "payload": payload, **more}


def meta(thread_id: str = THREAD, **more: object) -> Json:
    payload = {"id": thread_id, "timestamp": STAMP, "cwd": "/project", "originator": "codex_cli_rs", "cli_version": "0.150.1"}
    return line("session_meta", {**payload, "source": "cli", **more})


def user(text: str) -> Json:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def answer(text: str) -> Json:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def call(call_id: str, command: str = "ls") -> Json:
    return {"type": "function_call", "name": "shell", "arguments": json.dumps({"cmd": command}), "call_id": call_id}


def output(call_id: str, text: str = "ok") -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def item(value: Json, **more: object) -> Json:
    return line("response_item", value, **more)


def event(kind: str, **fields: object) -> Json:
    return line("event_msg", {"type": kind, **fields})


def turn(number: int) -> list[Json]:
    """One turn: a question, a call with its output, an answer, and the events around them."""
    return [
        event("task_started", turn_id=f"turn-{number}"),
        item(user(f"question {number}")),
        event("user_message", message=f"question {number}"),
        item(call(f"call_{number}")),
        item(output(f"call_{number}", f"output {number}")),
        item(answer(f"answer {number}")),
        event("task_complete", turn_id=f"turn-{number}"),
    ]


def spoken(number: int) -> list[Json]:
    """The items of `turn(number)`."""
    said, opened, closed, told = (f"question {number}", f"call_{number}", f"output {number}", f"answer {number}")
    return [user(said), call(opened), output(opened, closed), answer(told)]


def written(*lines: Json | str) -> bytes:
    return b"".join((each if isinstance(each, str) else json.dumps(each)).encode() + b"\n" for each in lines)


def put(path: Path, *lines: Json | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written(*lines))
    return path


async def bring_in(tk: Threadkeep, *paths: Path) -> ImportReport:
    return await Importer(tk.backend).run(paths)


async def window(tk: Threadkeep, thread_id: str) -> list[Json]:
    return [decode_json(each.raw) for each in (await (await tk.find(thread_id)).history()).items]


async def bodies(tk: Threadkeep, thread_id: str, kind: RecordKind) -> list[bytes]:
    return [record.body for record in await (await tk.find(thread_id)).records() if record.kind is kind]


async def kinds(tk: Threadkeep, thread_id: str) -> list[str]:
    return [record.kind.value for record in await (await tk.find(thread_id)).records()]


def texts(items: Iterable[Json]) -> list[str]:
    """Return what each item says, in a word."""
    return [str(each.get("output") or each.get("call_id") or _text(each)) for each in items]


def _text(each: Json) -> str:
    content = each.get("content")
    return content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in content or [])
