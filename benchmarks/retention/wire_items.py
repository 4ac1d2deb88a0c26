"""Renders one neutral turn in each of the three dialects."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from benchmarks.story.session import PARALLEL_TOOLS, Step, Turn, render_turn

Json = dict[str, object]


def opening_json(opening: Sequence[Json], *, dialect: str) -> list[Json]:
    """Return what stands in the history before the first turn; where a client keeps it in its head, nothing."""
    return list(opening) if dialect == "responses" else []


def turn_json(turn: Turn, *, number: int, dialect: str) -> list[Json]:
    """Return a turn as a client of this dialect would send it; `number` keeps its ids apart from other turns'."""
    return RENDERERS[dialect](turn, number)


def _responses(turn: Turn, number: int) -> list[Json]:
    return render_turn(turn, number=number)


def _chat(turn: Turn, number: int) -> list[Json]:
    items: list[Json] = [{"role": "user", "content": turn.user}]
    for group in _groups(turn):
        calls = [
            {
                "id": f"call_{number}_{index}",
                "type": "function",
                "function": {"name": step.tool, "arguments": json.dumps(step.arguments, ensure_ascii=False)},
            }
            for index, step in group
        ]
        items.append({"role": "assistant", "content": None, "tool_calls": calls})
        items.extend({"role": "tool", "tool_call_id": f"call_{number}_{index}", "content": step.output} for index, step in group)
    items.append({"role": "assistant", "content": turn.answer})
    return items


def _messages(turn: Turn, number: int) -> list[Json]:
    items: list[Json] = [{"role": "user", "content": [{"type": "text", "text": turn.user}]}]
    for group in _groups(turn):
        calls = [
            {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": step.tool, "input": step.arguments}
            for index, step in group
        ]
        results = [
            {"type": "tool_result", "tool_use_id": f"toolu_{number}_{index}", "content": step.output} for index, step in group
        ]
        items.append({"role": "assistant", "content": calls})
        items.append({"role": "user", "content": results})
    items.append({"role": "assistant", "content": [{"type": "text", "text": turn.answer}]})
    return items


def _groups(turn: Turn) -> list[list[tuple[int, Step]]]:
    """Return the steps, those that only look and stand side by side called together."""
    numbered = enumerate(turn.steps)
    runs = groupby(numbered, key=lambda pair: pair[1].tool if pair[1].tool in PARALLEL_TOOLS else pair[0])
    return [list(run) for _, run in runs]


RENDERERS: Mapping[str, Callable[[Turn, int], list[Json]]] = {"responses": _responses, "chat": _chat, "messages": _messages}
