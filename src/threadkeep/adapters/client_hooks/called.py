"""What a client says to a hook, and what it is answered: pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from threadkeep.errors import BadInput

# A client's own words about an event are short; more is no event.
LARGEST_CALL = 1 << 20

Event = Literal["PreCompact", "SessionStart", "other"]


class _Payload(msgspec.Struct):
    """What both clients send with every event, and what tells the events apart."""

    hook_event_name: str
    transcript_path: str | None = None
    session_id: str = ""
    trigger: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCall:
    """An event, and the transcript it is about."""

    event: Event
    transcript: Path
    session_id: str
    by_person: bool


def read_call(body: bytes) -> HookCall:
    """Return what a client said.

    Raises:
        BadInput: It is no event, or names no transcript; a session that is kept nowhere has none.
    """
    try:
        payload = msgspec.json.decode(body, type=_Payload)
    except msgspec.MsgspecError as error:
        raise BadInput(f"this is no hook event: {error}") from error
    if not payload.transcript_path:
        raise BadInput(f"{payload.hook_event_name} names no transcript, so there is nothing to record")
    event: Event = "other"
    if payload.hook_event_name == "PreCompact":
        event = "PreCompact"
    elif payload.hook_event_name == "SessionStart" and payload.source == "compact":
        event = "SessionStart"
    return HookCall(
        event=event,
        transcript=Path(payload.transcript_path),
        session_id=payload.session_id,
        by_person=payload.trigger == "manual",
    )


def context_answer(text: str) -> str:
    """Return the answer that puts `text` before the model."""
    return json.dumps({"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}}, ensure_ascii=False)


def trouble_answer(text: str) -> str:
    """Return the answer that tells a person something, and lets everything go on."""
    return json.dumps({"systemMessage": text}, ensure_ascii=False)


def part_of(text: str, part: int, *, limit_bytes: int, parts: int, rest: str) -> str | None:
    """Return part `part` (from 1) of a text that is told in several, each within `limit_bytes`; None where it ends before.

    Parts end between lines where they can, else between words. One that is not the only one says which it is; where all of them
    together do not hold the text, the last ends with `rest`, which says where the remainder is.
    """
    pieces = _pieces(text, limit_bytes=limit_bytes - len(rest.encode()) - 128)
    if part > min(len(pieces), parts):
        return None
    piece = pieces[part - 1]
    if part == parts < len(pieces):
        piece = f"{piece}\n{rest}"
    if len(pieces) == 1:
        return piece
    return f"[session state, part {part} of {min(len(pieces), parts)}; they may arrive in any order]\n{piece}"


def _pieces(text: str, *, limit_bytes: int) -> list[str]:
    """Return the text in stretches that fit, each as long as it can be; one behind another they are the text."""
    pieces: list[str] = []
    while text:
        head = text.encode()[:limit_bytes].decode(errors="ignore")
        if len(head) < len(text):
            head = head[: head.rfind("\n") + 1 or head.rfind(" ") + 1 or len(head)]
        pieces.append(head)
        text = text[len(head) :]
    return pieces
