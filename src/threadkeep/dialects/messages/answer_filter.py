"""Anthropic's Messages without the calls of a hidden tool: one message of blocks, each known by its index."""

from __future__ import annotations

from collections.abc import Sequence

from threadkeep.dialects.answer_filter import AnswerFilter, Json, render_typed_event, sum_usage

ENDING = ("message_delta", "message_stop", "error")
WRITTEN = ("output_tokens",)


class MessagesAnswerFilter(AnswerFilter):
    """See `threadkeep.dialects.answer_filter.AnswerFilter`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._calls = False

    def _take(self, raw: bytes, event: Json | None) -> bytes:
        kind = event.get("type") if event is not None else None
        if event is None or (kind == "message_start" and self._round > 1):
            return raw if self._round == 1 else b""
        if kind in ENDING:
            return self._hold(raw, event)
        index = event.get("index")
        if not isinstance(index, int):
            return raw
        block = event.get("content_block")
        is_ours = _is_call_of(block, self._name)
        self._calls = self._calls or (not is_ours and isinstance(block, dict) and block.get("type") == "tool_use")
        place = self._place(index, is_ours=is_ours)
        if place is None:
            return b""
        return raw if place == index else render_typed_event({**event, "index": place})

    def _close(self, raw: bytes, event: Json) -> bytes:
        delta = event.get("delta")
        if event.get("type") != "message_delta" or not isinstance(delta, dict) or not self._has_hidden:
            return raw
        if delta.get("stop_reason") == "tool_use" and not self._calls:
            delta = {**delta, "stop_reason": "end_turn"}
        usage = sum_usage([*self._usages, event.get("usage")], written=WRITTEN)
        return render_typed_event({**event, "delta": delta, "usage": usage})


def merge_answers(answers: Sequence[Json], *, name: str) -> Json:
    shown = [block for answer in answers for block in _list_blocks(answer) if not _is_call_of(block, name)]
    last = answers[-1]
    usage = sum_usage([answer.get("usage") for answer in answers], written=WRITTEN)
    whole = {**last, "id": answers[0].get("id", last.get("id")), "content": shown, "usage": usage}
    if last.get("stop_reason") == "tool_use" and not any(block.get("type") == "tool_use" for block in shown):
        whole["stop_reason"] = "end_turn"
    return whole


def _list_blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _is_call_of(block: object, name: str) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_use" and block.get("name") == name
