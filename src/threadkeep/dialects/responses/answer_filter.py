"""The Responses API without the calls of a hidden tool: output items and events are numbered anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threadkeep.dialects.answer_filter import AnswerFilter, Json, render_typed_event, sum_usage

OPENING = ("response.created", "response.in_progress", "response.queued")
TERMINAL = ("response.completed", "response.incomplete", "response.failed", "error")


class ResponsesAnswerFilter(AnswerFilter):
    """See `threadkeep.dialects.answer_filter.AnswerFilter`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._next_number: int | None = None
        self._shown: list[Any] = []

    def _find_usage(self, event: Json) -> object:
        response = event.get("response")
        return response.get("usage") if isinstance(response, dict) else None

    def _take(self, raw: bytes, event: Json | None) -> bytes:
        if event is None:
            return raw if self._round == 1 else b""
        kind = event.get("type")
        if kind in TERMINAL:
            return self._hold(raw, event)
        if kind in OPENING:
            if self._round > 1:
                return b""
            self._id = (event.get("response") or {}).get("id") if isinstance(event.get("response"), dict) else None
        index = event.get("output_index")
        if not isinstance(index, int) or kind in OPENING:
            return self._number(raw, event, changed=False)
        place = self._place(index, is_ours=_is_call_of(event.get("item"), self._name))
        if place is None:
            return b""
        if kind == "response.output_item.done":
            self._shown.append(event.get("item"))
        return self._number(raw, {**event, "output_index": place}, changed=place != index)

    def _number(self, raw: bytes, event: Json, *, changed: bool) -> bytes:
        """Return an event with the number it has among those the client gets; as it came, where nothing changed."""
        number = event.get("sequence_number")
        if isinstance(number, int):
            own = number if self._next_number is None else self._next_number
            self._next_number = own + 1
            changed = changed or own != number
            event = {**event, "sequence_number": own}
        return render_typed_event(event) if changed else raw

    def _close(self, raw: bytes, event: Json) -> bytes:
        response = event.get("response")
        if not isinstance(response, dict) or (self._round == 1 and not self._has_hidden):
            return self._number(raw, event, changed=False)
        whole = {**response, "id": self._id or response.get("id"), "usage": _sum_usage([*self._usages, response.get("usage")])}
        if isinstance(response.get("output"), list):
            whole["output"] = self._shown
        return self._number(raw, {**event, "response": whole}, changed=True)


def merge_answers(answers: Sequence[Json], *, name: str) -> Json:
    *_, last = answers
    outputs = [answer.get("output") for answer in answers]
    items = [item for output in outputs if isinstance(output, list) for item in output]
    shown = [item for item in items if not _is_call_of(item, name)]
    usage = _sum_usage([answer.get("usage") for answer in answers])
    return {**last, "id": answers[0].get("id", last.get("id")), "output": shown, "usage": usage}


def _is_call_of(value: object, name: str) -> bool:
    return isinstance(value, dict) and value.get("type") == "function_call" and value.get("name") == name


def _sum_usage(usages: Sequence[object]) -> object:
    return sum_usage(usages, written=["output_tokens"], read="input_tokens")
