"""LoCoMo, LongMemEval and BEAM as one form: messages in order, and questions with the messages that answer them.

Each loader takes what its makers publish. A file that is another is refused with what was missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import BadInput

_SESSION = re.compile(r"session_(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message; `mark` is what questions name it by."""

    role: str
    text: str
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, its answer as its makers give it, its kind, and the marks of the messages that answer it."""

    text: str
    answer: str
    kind: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A whole conversation and what is asked about it."""

    id: str
    said: tuple[Said, ...]
    questions: tuple[Question, ...]


def load(form: str, path: Path) -> list[Conversation]:
    """Return the conversations of a file, or of BEAM's folder.

    Raises:
        BadInput: It cannot be read, or is not of this form.
    """
    if form not in LOADERS:
        raise BadInput(f"there is no loader for {form!r}; there are {', '.join(LOADERS)}")
    try:
        return list(LOADERS[form](path))
    except OSError as error:
        raise BadInput(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise BadInput(f"{str(path)!r} is no {form} file ({reason}); take the one its makers publish") from error


def _locomo(path: Path) -> Iterator[Conversation]:
    """`locomo10.json`: two people who talk over months; the first of them is the user here."""
    for number, sample in enumerate(_read(path)):
        talk = sample["conversation"]
        first = talk["speaker_a"]
        sessions = sorted((int(found[1]), name) for name in talk if (found := _SESSION.fullmatch(name)))
        said: list[Said] = []
        for at, name in sessions:
            date = talk.get(f"session_{at}_date_time", "")
            for line in talk[name]:
                text = f"[{date}] {line['speaker']}: {line['text']}"
                seen = f" ({line['blip_caption']})" if line.get("blip_caption") else ""
                said.append(
                    Said(role="user" if line["speaker"] == first else "assistant", text=text + seen, mark=str(line["dia_id"]))
                )
        questions = [
            Question(
                text=asked["question"],
                answer=str(asked.get("answer", asked.get("adversarial_answer", ""))),
                kind=f"category {asked['category']}",
                evidence=tuple(str(mark) for mark in asked.get("evidence", ())),
            )
            for asked in sample["qa"]
        ]
        yield Conversation(id=str(sample.get("sample_id", number)), said=tuple(said), questions=tuple(questions))


def _longmemeval(path: Path) -> Iterator[Conversation]:
    """`longmemeval_*.json`: a haystack of chats with an assistant for each question."""
    for sample in _read(path):
        said: list[Said] = []
        evidence: list[str] = []
        for at, (date, session) in enumerate(zip(sample["haystack_dates"], sample["haystack_sessions"], strict=True)):
            for turn, line in enumerate(session):
                mark = f"{at}:{turn}"
                said.append(Said(role=line["role"], text=f"[{date}] {line['content']}", mark=mark))
                if line.get("has_answer"):
                    evidence.append(mark)
        question = Question(
            text=sample["question"], answer=str(sample["answer"]), kind=sample["question_type"], evidence=tuple(evidence)
        )
        yield Conversation(id=str(sample["question_id"]), said=tuple(said), questions=(question,))


def _beam(path: Path) -> Iterator[Conversation]:
    """A folder with `chat.json` and `probing_questions/probing_questions.json`, or a folder of such folders."""
    if not (path / "chat.json").exists():
        inner = sorted((each for each in path.iterdir() if (each / "chat.json").exists()), key=lambda each: each.name)
        if not inner:
            raise BadInput(f"{str(path)!r} holds no BEAM conversation: there is no chat.json in it, nor in a folder of it")
        for folder in inner:
            yield from _beam(folder)
        return
    said = [
        Said(role=line["role"], text=line["content"], mark=str(line["id"]))
        for batch in _read(path / "chat.json")
        for turn in batch["turns"]
        for line in turn
    ]
    probes = _read(path / "probing_questions" / "probing_questions.json")
    questions = [
        Question(
            text=asked["question"],
            answer=str(asked.get("answer") or asked.get("ideal_answer") or asked.get("ideal_response") or ""),
            kind=kind,
            evidence=tuple(_numbers(asked.get("source_chat_ids", ()))),
        )
        for kind, group in probes.items()
        for asked in group
    ]
    yield Conversation(id=path.name, said=tuple(said), questions=tuple(questions))


def _numbers(ids: Sequence[object] | Mapping[str, Sequence[object]]) -> Iterator[str]:
    """Yield the ids of a list, or of every list of a table."""
    for each in ids.values() if isinstance(ids, Mapping) else [ids]:
        yield from (str(number) for number in (each if isinstance(each, list | tuple) else [each]))


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


LOADERS: Mapping[str, Callable[[Path], Iterator[Conversation]]] = {
    "locomo": _locomo,
    "longmemeval": _longmemeval,
    "beam": _beam,
}
