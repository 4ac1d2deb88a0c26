"""A played session: its values, and the form a client would send it in.

Nothing here draws anything: ids and opaque reasoning are derived from the turn's number and content, so that the same
turn is the same bytes wherever it is rendered.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from itertools import groupby

CWD = "/srv/quillback"
PARALLEL_TOOLS = frozenset({"read_file", "grep"})
BYTES_PER_TOKEN = 4

# Demands are found by exact text, and some are plain numbers. Opaque text without digits can never hold one by chance.
_DIGITLESS = str.maketrans("0123456789", "qzkvxwjyhu")


class DemandKind(StrEnum):
    """In which way a user's words bind later work."""

    PROHIBITION = "prohibition"
    RULE = "rule"
    BINDING = "binding"
    SCOPE = "scope"
    LATE = "late_constraint"
    CORRECTION = "correction"
    WITHDRAWAL = "withdrawal"
    PREFERENCE = "preference"
    NAME = "name"
    FOREIGN = "other_language"
    LOOK_ALIKE = "look_alike"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One tool call and what came back."""

    tool: str
    arguments: dict[str, object]
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a user asked, what the agent did about it, and what it said in the end."""

    user: str
    steps: tuple[Step, ...]
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Something the user said that must still hold when the session ends.

    Attributes:
        said: The exact sentence, as it stands in the user's message.
        needle: Exact text of that sentence which occurs nowhere else in the session; an active place of the window
            must hold it from `turn` on.
        turn: Index of the turn whose user message says it.
        stale: What the user had said about it in an earlier turn and now takes back; once `turn` was played, it may
            be active only with the needle beside it.
    """

    kind: DemandKind
    said: str
    needle: str
    turn: int
    stale: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A whole session and what it demands, in the order it was said."""

    turns: tuple[Turn, ...]
    demands: tuple[Demand, ...]


def build_context_items() -> list[dict[str, object]]:
    """Return what a client puts before the first turn: its developer instructions and a description of its world."""
    developer = (
        "You are a coding agent working in a checkout of quillback, the inventory service of a chain of boat chandlers.\n"
        "Use the tools to look before you change things, and report what you did in a few sentences.\n"
        "Commands run in a sandbox that may write below the working directory and has no network."
    )
    world = (
        "<environment_context>\n"
        f"  <cwd>{CWD}</cwd>\n"
        "  <shell>bash</shell>\n"
        "  <filesystem>workspace-write</filesystem>\n"
        "  <network>restricted</network>\n"
        "  <timezone>Europe/Oslo</timezone>\n"
        "</environment_context>"
    )
    return [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": developer}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": world}]},
    ]


def render_turn(turn: Turn, *, number: int) -> list[dict[str, object]]:
    """Return the turn in the OpenAI Responses dialect; `number` keeps its ids apart from those of other turns.

    Neighbouring steps that only look (reading, searching) are called in parallel: all calls, then all outputs. About
    two of three groups of calls follow an opaque reasoning item.
    """
    items: list[dict[str, object]] = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": turn.user}]}]
    numbered = list(enumerate(turn.steps))
    for _, run in groupby(numbered, key=lambda pair: pair[1].tool if pair[1].tool in PARALLEL_TOOLS else pair[0]):
        items.extend(_call_group(list(run), number=number))
    items.append(
        {
            "type": "message",
            "id": f"msg_{_make_opaque(f'answer {number} {turn.answer}', length=24)}",
            "role": "assistant",
            "content": [{"type": "output_text", "text": turn.answer, "annotations": []}],
        }
    )
    return items


def estimate_tokens(session: Session) -> int:
    """Return the size of the whole session as sent, in tokens of four bytes of compact JSON."""
    size = count_bytes(build_context_items())
    size += sum(count_bytes(render_turn(turn, number=number)) for number, turn in enumerate(session.turns))
    return size // BYTES_PER_TOKEN


def count_bytes(items: Sequence[dict[str, object]]) -> int:
    """Return how many bytes the items take as compact JSON in UTF-8."""
    return sum(len(json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode()) for item in items)


def _call_group(steps: list[tuple[int, Step]], *, number: int) -> list[dict[str, object]]:
    first = steps[0][0]
    draw = blake2b(f"group {number} {first}".encode(), digest_size=2).digest()
    items: list[dict[str, object]] = []
    if draw[0] % 3:
        items.append(
            {
                "type": "reasoning",
                "id": f"rs_{_make_opaque(f'reasoning {number} {first}', length=24)}",
                "summary": [],
                "encrypted_content": _make_opaque(
                    f"thought {number} {first} {steps[0][1].output}", length=200 + draw[1] * 600 // 255
                ),
            }
        )
    call_ids = {index: f"call_{_make_opaque(f'call {number} {index}', length=24)}" for index, _ in steps}
    items.extend(
        {
            "type": "function_call",
            "name": step.tool,
            "arguments": json.dumps(step.arguments, ensure_ascii=False),
            "call_id": call_ids[index],
        }
        for index, step in steps
    )
    items.extend({"type": "function_call_output", "call_id": call_ids[index], "output": step.output} for index, step in steps)
    return items


def _make_opaque(origin: str, *, length: int) -> str:
    text = ""
    block = 0
    while len(text) < length:
        text += urlsafe_b64encode(blake2b(f"{block} {origin}".encode(), digest_size=48).digest()).decode()
        block += 1
    return text[:length].translate(_DIGITLESS)
