"""`generateContent` without the calls of a hidden tool: calls are parts, and an answer ends with the piece that says why."""

from __future__ import annotations

from collections.abc import Sequence

from threadkeep.dialects.answer_filter import SEPARATOR, AnswerFilter, Json, render_event, sum_usage
from threadkeep.dialects.gemini.parts import is_thought, read_name, rename_fields


class GeminiAnswerFilter(AnswerFilter):
    """See `threadkeep.dialects.answer_filter.AnswerFilter`. The last piece of an answer may have words too."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._last_words = b""
        self._has_spoken = False
        self._needs_separator = False

    def feed(self, chunk: bytes) -> bytes:
        words, self._last_words = self._last_words, b""
        return words + super().feed(chunk)

    def start_next(self) -> None:
        self._last_words = b"".join(_render_words(event) for _, event in self._held if _find_content(event).get("parts"))
        super().start_next()
        self._needs_separator = self._has_spoken

    def _find_usage(self, event: Json) -> object:
        return event.get("usageMetadata")

    def _take(self, raw: bytes, event: Json | None) -> bytes:
        if event is None:
            return raw if self._round == 1 else b""
        self._id = self._id or event.get("responseId")
        shown = self._show(event)
        if _find_candidate(event).get("finishReason") is not None or "error" in event or "promptFeedback" in event:
            return self._hold(raw, shown)
        if shown is event and self._round == 1:
            return raw
        return render_event(shown) if _find_content(shown).get("parts") else b""

    def _show(self, event: Json) -> Json:
        """Return an event as the client gets it: without our calls, under the first answer's id."""
        content = _find_content(event)
        parts = _drop_calls(content.get("parts"), self._name)
        has_ours = len(parts) < len(_as_list(content.get("parts")))
        self._has_hidden = self._has_hidden or has_ours
        if not has_ours and self._round == 1:
            self._has_spoken = self._has_spoken or any(map(_is_speech, parts))
            return event
        signed = event if self._id is None else {**event, "responseId": self._id}
        parts = [self._separate(part) for part in parts]
        return {**signed, "candidates": [{**_find_candidate(event), "content": {**content, "parts": parts}}]}

    def _separate(self, part: object) -> object:
        """Return a part, its text set apart from what an earlier answer said."""
        if not isinstance(part, dict) or not _is_speech(part):
            return part
        separator = SEPARATOR if self._needs_separator else ""
        self._has_spoken, self._needs_separator = True, False
        return {**part, "text": f"{separator}{part['text']}"}

    def _close(self, raw: bytes, event: Json) -> bytes:
        if self._round == 1 and not self._has_hidden:
            return raw
        return render_event({**event, "usageMetadata": _sum_usage([*self._usages, event.get("usageMetadata")])})


def merge_answers(answers: Sequence[Json], *, name: str) -> Json:
    last = answers[-1]
    parts = [part for answer in answers for part in _drop_calls(_find_content(answer).get("parts"), name)]
    merged = {**_find_candidate(last), "content": {"role": "model", **_find_content(last), "parts": parts}}
    usage = _sum_usage([answer.get("usageMetadata") for answer in answers])
    return {**last, "candidates": [merged], "usageMetadata": usage, "responseId": answers[0].get("responseId")}


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _find_candidate(answer: Json) -> Json:
    first = next(iter(_as_list(answer.get("candidates"))), None)
    return first if isinstance(first, dict) else {}


def _find_content(answer: Json) -> Json:
    content = _find_candidate(answer).get("content")
    return content if isinstance(content, dict) else {}


def _render_words(event: Json) -> bytes:
    """Return the last piece of an answer as one that others follow."""
    candidate = {name: value for name, value in _find_candidate(event).items() if name != "finishReason"}
    return render_event({name: value for name, value in event.items() if name != "usageMetadata"} | {"candidates": [candidate]})


def _drop_calls(parts: object, name: str) -> list[object]:
    """Return parts without the calls of the tool called `name`."""
    return [part for part in _as_list(parts) if not (isinstance(part, dict) and _is_call_of(part, name))]


def _is_call_of(part: Json, name: str) -> bool:
    call = rename_fields(part).get("functionCall")
    return isinstance(call, dict) and read_name(call) == name


def _is_speech(part: object) -> bool:
    return isinstance(part, dict) and not is_thought(part) and isinstance(part.get("text"), str) and part["text"] != ""


def _sum_usage(usages: Sequence[object]) -> object:
    written = ["candidatesTokenCount", "thoughtsTokenCount"]
    return sum_usage(usages, written=written, read="promptTokenCount", total="totalTokenCount")
