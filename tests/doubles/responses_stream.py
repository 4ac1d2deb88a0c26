"""The OpenAI Responses wire as a real provider speaks it: finished items, the events that stream them, the histories it refuses.

Pure, and written against the wire format alone: nothing here uses threadkeep's own dialects, so that a test that compares the
two compares two readings of the format and not one with itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

JsonObject = dict[str, Any]

DELTAS_PER_TEXT = 3
ID_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc", "compaction": "cmp"}
CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call"})


class Numbering:
    """Ids that count up from 1 for each prefix, so that two runs of one script give equal bytes."""

    def __init__(self) -> None:
        self._given: Counter[str] = Counter()

    def next(self, prefix: str) -> str:
        self._given[prefix] += 1
        return f"{prefix}_{self._given[prefix]}"


def finished_item(item: Mapping[str, Any], *, ids: Numbering) -> JsonObject:
    """Return an output item as the provider reports it when done, with the id, status and call id that the script left out."""
    kind = str(item["type"])
    done: JsonObject = {"id": ids.next(ID_PREFIXES.get(kind, "item")), "type": kind}
    if kind != "reasoning":
        done["status"] = "completed"
    done |= item
    if kind in CALLS:
        done.setdefault("call_id", ids.next("call"))
    return done


def response_object(
    response_id: str,
    *,
    request: Mapping[str, Any],
    status: str,
    output: Sequence[JsonObject] = (),
    usage: JsonObject | None = None,
    error: JsonObject | None = None,
) -> JsonObject:
    """Return the response object that the stream's framing events carry and that a plain request is answered with."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": error,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "model": request.get("model"),
        "output": list(output),
        "parallel_tool_calls": request.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "store": request.get("store", True),
        "tool_choice": request.get("tool_choice", "auto"),
        "usage": usage,
        "metadata": {},
    }


def usage_object(*, input_tokens: int, output_tokens: int) -> JsonObject:
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input_tokens + output_tokens,
    }


def item_events(item: JsonObject, *, index: int) -> Iterator[JsonObject]:
    """Yield the events that stream one finished item: it is added empty, filled in several deltas, and reported done."""
    yield {"type": "response.output_item.added", "output_index": index, "item": _begun(item)}
    place = {"item_id": item["id"], "output_index": index}
    match item["type"]:
        case "message":
            for number, part in enumerate(item["content"]):
                yield from _part_events(part, place=place | {"content_index": number})
        case "reasoning":
            for number, part in enumerate(item["summary"]):
                yield from _summary_events(part, place=place | {"summary_index": number})
        case "function_call":
            name = "response.function_call_arguments"
            yield from _text_events(name, item["arguments"], place=place, last={"arguments": item["arguments"]})
        case "custom_tool_call":
            name = "response.custom_tool_call_input"
            yield from _text_events(name, item["input"], place=place, last={"input": item["input"]})
        case _:
            # Items without a delta form, compaction items and provider-run tools among them, arrive whole.
            pass
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _begun(item: JsonObject) -> JsonObject:
    empty: JsonObject = {}
    if "status" in item:
        empty["status"] = "in_progress"
    empty |= {key: [] for key in ("content", "summary") if isinstance(item.get(key), list)}
    empty |= {key: "" for key in ("arguments", "input") if isinstance(item.get(key), str)}
    return item | empty


def _part_events(part: JsonObject, *, place: JsonObject) -> Iterator[JsonObject]:
    kind = part["type"]
    payload = "refusal" if kind == "refusal" else "text"
    text: str = part[payload]
    yield {"type": "response.content_part.added", **place, "part": part | {payload: ""}}
    extra: JsonObject = {} if kind == "refusal" else {"logprobs": []}
    yield from _text_events(f"response.{kind}", text, place=place | extra, last={payload: text})
    yield {"type": "response.content_part.done", **place, "part": part}


def _summary_events(part: JsonObject, *, place: JsonObject) -> Iterator[JsonObject]:
    text: str = part["text"]
    yield {"type": "response.reasoning_summary_part.added", **place, "part": part | {"text": ""}}
    yield from _text_events("response.reasoning_summary_text", text, place=place, last={"text": text})
    yield {"type": "response.reasoning_summary_part.done", **place, "part": part}


def _text_events(name: str, text: str, *, place: JsonObject, last: JsonObject) -> Iterator[JsonObject]:
    size = max(1, -(-len(text) // DELTAS_PER_TEXT))
    for start in range(0, len(text), size):
        yield {"type": f"{name}.delta", **place, "delta": text[start : start + size]}
    yield {"type": f"{name}.done", **place, **last}


def refusal(items: Sequence[JsonObject]) -> str | None:
    """Say why a real provider would refuse this input, or return None.

    Refused are: an output whose call does not stand before it, a call without an output, a call id used twice, and
    reasoning that is not directly followed by the assistant message or the call it led to.
    """
    waiting: dict[str, None] = {}
    seen: set[str] = set()
    for index, item in enumerate(items):
        kind, call_id = str(item.get("type", "message")), str(item.get("call_id"))
        if kind == "reasoning" and not _led_to(items[index + 1 : index + 2]):
            return f"input[{index}]: reasoning {item.get('id')!r} is not followed by the item it belongs to"
        if kind in CALLS:
            if call_id in seen:
                return f"input[{index}]: call id {call_id!r} is used twice"
            seen.add(call_id)
            waiting[call_id] = None
        elif kind.endswith("_call_output"):
            if call_id not in waiting:
                fault = "has a second output" if call_id in seen else "has an output but no call before it"
                return f"input[{index}]: call id {call_id!r} {fault}"
            del waiting[call_id]
    return f"input: call id {next(iter(waiting))!r} has no output" if waiting else None


def _led_to(following: Sequence[JsonObject]) -> bool:
    """Whether the item after reasoning, if there is one, is what the model wrote next."""
    if not following:
        return False
    kind = str(following[0].get("type", "message"))
    return kind.endswith("_call") or (kind == "message" and following[0].get("role") == "assistant")
