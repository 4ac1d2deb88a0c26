"""Who answers: a real model, or one that looks words up. Neither is given more than the window and the probe."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from benchmarks.cases.probes import LETTERS, PARTS, Probe
from benchmarks.retention.blindness import stands
from benchmarks.retention.wire_items import Json
from threadkeep.dialects import Request, find_dialect
from threadkeep.llm import Model

ANSWER_TOKENS = 120
LITERAL = "literal"

_WORD = re.compile(r"[^\W_]{3,}")
_CODE = re.compile(r"\S*\d\S*")
_FILE = re.compile(r"\*\*\* Update File: (\S+)|\bM (\S+/\S+)")
_STEP = re.compile(r'\{"step":\s*"([^"]+)",\s*"status":\s*"in_progress"\}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A reader's reply, and what it cost where that is known."""

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


class Reader(Protocol):
    """Answers a probe from a window, given as Chat Completions messages that end with the probe's text."""

    @property
    def name(self) -> str: ...

    async def answer(self, messages: Sequence[Json], probe: Probe) -> Answered:
        """Return the reply.

        Raises:
            ModelError: There is none.
        """
        ...


class ModelReader:
    """A real model. One that speaks Chat Completions gets the messages and a schema; any other gets them as one text."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    async def answer(self, messages: Sequence[Json], probe: Probe) -> Answered:
        dialect = find_dialect(self._model.dialect)
        if dialect.name == "chat":
            schema = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": probe.schema}}
            body = {"messages": list(messages), "temperature": 0, "max_tokens": ANSWER_TOKENS, "response_format": schema}
            request = dialect.split(msgspec.json.encode(body))
            assert request is not None
        else:
            text = "\n\n".join(_render_message(message) for message in messages)
            empty = dialect.compose(system=None, tools=(), cache_key=None)
            request = Request(fields=empty.fields, head=empty.head, items=(dialect.make_user_message(text),))
        reply = await self._model.ask(request)
        return Answered(
            text=reply.text,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cached_tokens=reply.cached_tokens,
        )


class LiteralReader:
    """Looks the words of a question up in the window, line by line: no key, no model, the same answer every time.

    Of a choice it takes the option that stands in the line with the most of the question's words, the newest such line; where
    none stands anywhere, the letter that the question's length falls on.
    """

    name = LITERAL

    async def answer(self, messages: Sequence[Json], probe: Probe) -> Answered:
        # Where neighbours of one role are merged, the probe is the end of a longer message.
        lines = "\n".join(_render_message(message) for message in messages).removesuffix(probe.text).splitlines()
        match probe.form:
            case "single_choice":
                said: Mapping[str, object] = {"option": _chosen(probe, lines)}
            case "short_answer" | "abstention":
                found = _looked_up(probe.question, lines)
                said = {"known": found is not None, "answer": found or ""}
            case "working_state":
                said = _find_work("\n".join(lines))
        return Answered(text=msgspec.json.encode(said).decode())


def _chosen(probe: Probe, lines: Sequence[str]) -> str:
    best, letter = (-1, -1), LETTERS[len(probe.question) % len(LETTERS)]
    asked = _split_words(probe.question)
    for at, line in enumerate(lines):
        shared = len(asked & _split_words(line))
        for number, option in enumerate(probe.options):
            if (shared, at) > best and stands(option, line):
                best, letter = (shared, at), LETTERS[number]
    return letter


def _looked_up(question: str, lines: Sequence[str]) -> str | None:
    """Return the first word with a figure in it, of the line that shares most words with the question and at least three."""
    asked = _split_words(question)
    shared, _, line = max(((len(asked & _split_words(line)), at, line) for at, line in enumerate(lines)), default=(0, 0, ""))
    near = next((part for part in re.split(r"(?<=[.;:])\s", line) if len(asked & _split_words(part)) >= 3), "")
    codes = [code.rstrip(".,;:") for code in _CODE.findall(near)]
    return codes[-1] if shared >= 3 and codes else None


def _find_work(text: str) -> dict[str, str]:
    files = [first or second for first, second in _FILE.findall(text)]
    steps = _STEP.findall(text)
    runs = re.findall(r'\{"cmd":\s*"([^"]+)"\}\n+exit code 1\b.*\n(.+)', text)
    command, blocker = runs[-1] if runs else ("", "")
    found = {"file": files[-1] if files else "", "next_step": steps[-1] if steps else "", "blocker": blocker, "command": command}
    return {part: found[part] for part in PARTS}


def _render_message(message: Json) -> str:
    """Return a message as text: what it says, then the calls it makes."""
    content = message.get("content")
    parts = [content] if isinstance(content, str) else []
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function", {})
        parts.append(str(function.get("arguments", "")))
    return "\n".join(parts)


def _split_words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}
