"""Chat Completions without the calls of a hidden tool: one message, its text in pieces, its calls by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threadkeep.dialects.answer_filter import SEPARATOR, AnswerFilter, Json, render_event, sum_usage


class ChatAnswerFilter(AnswerFilter):
    """See `threadkeep.dialects.answer_filter.AnswerFilter`. The last choice, the usage and the mark of the end are held back."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._spoke = False
        self._parted = True
        self._finish: Json | None = None

    def start_next(self) -> None:
        super().start_next()
        self._finish = None
        self._parted = not self._spoke

    def end(self) -> bytes:
        finish = self._finish
        if finish is not None and self._has_hidden and all(place is None for place in self._places.values()):
            choice = finish["choices"][0]
            if choice.get("finish_reason") == "tool_calls":
                finish = {**finish, "choices": [{**choice, "finish_reason": "stop"}]}
        return (b"" if finish is None else render_event(self._sign(finish))) + super().end()

    def _take(self, raw: bytes, event: Json | None) -> bytes:
        choices = event.get("choices") if event is not None else None
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
        if event is None or choice is None:
            return self._hold(raw, event or {})
        if self._round == 1 and self._id is None:
            self._id = event.get("id")
        delta = choice.get("delta")
        before = delta if isinstance(delta, dict) else {}
        shown = self._show(before)
        finished = choice.get("finish_reason") is not None
        if finished:
            self._finish = {**event, "choices": [{**choice, "delta": {}}]}
        if shown == before and not finished and self._round == 1:
            return raw
        if not shown:
            return b""
        return render_event(self._sign({**event, "choices": [{**choice, "delta": shown, "finish_reason": None}]}))

    def _show(self, delta: Json) -> Json:
        """Return what the client gets of a piece: no call of ours, one role, and a gap between what two answers say."""
        shown = dict(delta)
        if self._round > 1:
            shown.pop("role", None)
        text = shown.get("content")
        if isinstance(text, str) and text:
            shown["content"] = text if self._parted else f"{SEPARATOR}{text}"
            self._spoke = self._parted = True
        elif self._round > 1:
            shown.pop("content", None)
        if "tool_calls" in shown:
            shown["tool_calls"] = [placed for call in _list_calls(delta) if (placed := self._place_call(call)) is not None]
            if not shown["tool_calls"]:
                del shown["tool_calls"]
        return shown

    def _place_call(self, call: Json) -> Json | None:
        index = call.get("index")
        place = self._place(index if isinstance(index, int) else 0, is_ours=_find_name(call) == self._name)
        return None if place is None else {**call, "index": place}

    def _sign(self, event: Json) -> Json:
        return event if self._round == 1 else {**event, "id": self._id}

    def _close(self, raw: bytes, event: Json) -> bytes:
        if self._round == 1 or not event:
            return raw
        return render_event({**self._sign(event), "usage": _sum_usage([*self._usages, event.get("usage")])})


def merge_answers(answers: Sequence[Json], *, name: str) -> Json:
    messages = [_find_message(answer) for answer in answers]
    texts = [text for message in messages if isinstance(text := message.get("content"), str) and text]
    message = {**messages[-1], "content": SEPARATOR.join(texts) if texts else messages[-1].get("content")}
    message.pop("tool_calls", None)
    calls = [call for call in _list_calls(messages[-1]) if _find_name(call) != name]
    if calls:
        message["tool_calls"] = calls
    last = answers[-1]
    choice = {**last["choices"][0], "message": message}
    if choice.get("finish_reason") == "tool_calls" and not calls:
        choice["finish_reason"] = "stop"
    usage = _sum_usage([answer.get("usage") for answer in answers])
    return {**last, "id": answers[0].get("id", last.get("id")), "choices": [choice], "usage": usage}


def _list_calls(message: Json) -> list[Json]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _find_message(answer: Json) -> Json:
    choices = answer.get("choices")
    message: Any = choices[0].get("message") if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    return message if isinstance(message, dict) else {}


def _find_name(call: Json) -> object:
    function = call.get("function")
    return function.get("name") if isinstance(function, dict) else None


def _sum_usage(usages: Sequence[object]) -> object:
    return sum_usage(usages, written=["completion_tokens"], read="prompt_tokens")
