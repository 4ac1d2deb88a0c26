"""The long session of the demo, which speaks Responses, told in another dialect."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from tests.dialects.samples import Json

from threadkeep.testing.dialect_checks import DialectSamples


def translated(items: list[dict[str, Any]], samples: DialectSamples) -> list[Json]:
    """Return Responses items as a client of another dialect would have had them: the same words, calls, ids and thoughts."""
    told: list[Json] = []
    thought: str | None = None
    for kind, run in groupby(items, key=lambda item: str(item["type"])):
        group = list(run)
        match kind:
            case "message":
                told.extend(_message(item, samples) for item in group)
            case "reasoning":
                [thought] = [str(item["encrypted_content"]) for item in group]
            case "function_call":
                told.extend(samples.calls({item["call_id"]: item["arguments"] for item in group}, thought=thought))
                thought = None
            case "function_call_output":
                told.extend(samples.outputs({item["call_id"]: item["output"] for item in group}))
            case _:
                raise AssertionError(f"the demo has no {kind}")
    return told


def _message(item: dict[str, Any], samples: DialectSamples) -> Json:
    text = "\n".join(part["text"] for part in item["content"])
    match item["role"]:
        case "developer":
            return samples.system(text)
        case "assistant":
            return samples.answer(text)
        case _:
            return samples.person(text)
