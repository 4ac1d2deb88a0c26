"""Writes the session that `threadkeep demo` plays: `python -m benchmarks.story.record`."""

from __future__ import annotations

import json
from collections.abc import Sequence

import zstandard

from benchmarks import ROOT
from benchmarks.story.generator import generate_session
from benchmarks.story.session import build_context_items, render_turn

Json = dict[str, object]

RECORD = ROOT / "src" / "threadkeep" / "demo" / "session.jsonl.zst"
SEED, TURNS, WINDOW_TOKENS = 1, 60, 17_000


def render_record() -> bytes:
    """Return the session as JSON lines: its settings and demands, then each turn."""
    session = generate_session(seed=SEED, turns=TURNS)
    developer, environment = build_context_items()
    demands = [
        {"kind": str(demand.kind), "said": demand.said, "needle": demand.needle, "turn": demand.turn, "stale": demand.stale}
        for demand in session.demands
    ]
    header = {"window_tokens": WINDOW_TOKENS, "developer": developer, "environment": environment, "demands": demands}
    lines = [header, *(_record_turn(render_turn(turn, number=number)) for number, turn in enumerate(session.turns))]
    return "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines).encode()


def _record_turn(items: Sequence[Json]) -> Json:
    """Return a turn as the user's message and its steps: the items of each reply, and the outputs of the calls in it."""
    user, *others = items
    steps: list[dict[str, list[Json]]] = [{"reply": [], "outputs": []}]
    for item in others:
        is_output = item["type"] == "function_call_output"
        if not is_output and steps[-1]["outputs"]:
            steps.append({"reply": [], "outputs": []})
        steps[-1]["outputs" if is_output else "reply"].append(item)
    return {"user": user, "steps": steps}


if __name__ == "__main__":
    RECORD.write_bytes(zstandard.ZstdCompressor(level=19).compress(render_record()))
