"""Reads LoCoMo, LongMemEval and BEAM into one form: messages in order, and questions with their evidence.

Each loader takes what its makers publish. A file that is another is refused with what was missing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadkeep.errors import BadInput

_SESSION = re.compile(r"session_(\d+)")
_DIALOG = re.compile(r"D:?(\d+):(\d+)")
# What BEAM's generator left behind a user's words: where in the plan they were asked for.
_INDEX = re.compile(r"\s*->->\s*\d+\s*,\s*\d+\s*$")

LOCOMO_KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
# How ids of LongMemEval's questions end whose answer was never said.
UNSAID = "_abs"
# Under which name BEAM has the answer depends on the kind of question.
BEAM_ANSWERS = ("answer", "ideal_answer", "ideal_response", "ideal_summary", "expected_compliance")


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
        BadInput: It cannot be read, is not of this form, or holds no conversation.
    """
    if form not in LOADERS:
        raise BadInput(f"there is no loader for {form!r}; there are {', '.join(LOADERS)}")
    try:
        found = list(LOADERS[form](path))
    except OSError as error:
        raise BadInput(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise BadInput(f"{str(path)!r} is no {form} file ({reason}); take the one its makers publish") from error
    if not found:
        raise BadInput(f"{str(path)!r} holds no {form} conversation; take the file its makers publish")
    return found


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
                seen = f" ({line['blip_caption']})" if line.get("blip_caption") else ""
                text = f"[{date}] {line['speaker']}: {line['text']}{seen}"
                said.append(
                    Said(role="user" if line["speaker"] == first else "assistant", text=text, mark=_dialog(line["dia_id"]))
                )
        questions = [
            Question(
                text=asked["question"],
                answer=str(asked.get("answer", asked.get("adversarial_answer", ""))),
                kind=LOCOMO_KINDS.get(asked["category"], f"category {asked['category']}"),
                evidence=_dialogs(asked.get("evidence", ())),
            )
            for asked in sample["qa"]
        ]
        yield Conversation(id=str(sample.get("sample_id", number)), said=tuple(said), questions=tuple(questions))


def _dialogs(evidence: str | Sequence[str]) -> tuple[str, ...]:
    """Return the ids of dialogs in evidence. Some entries hold several, and some ids have a slip in them."""
    text = evidence if isinstance(evidence, str) else " ".join(evidence)
    return tuple(dict.fromkeys(f"D{int(session)}:{int(turn)}" for session, turn in _DIALOG.findall(text)))


def _dialog(dia_id: str) -> str:
    """Return an id as evidence is read."""
    return next(iter(_dialogs(dia_id)), dia_id)


def _longmemeval(path: Path) -> Iterator[Conversation]:
    """`longmemeval_*.json`: a haystack of chats with an assistant for each question, in the order of their dates.

    What was never said has no evidence, whatever is marked: its makers leave these questions out of recall, too.
    """
    for sample in _read(path):
        sessions = sorted(
            zip(sample["haystack_dates"], sample["haystack_sessions"], strict=True), key=lambda session: str(session[0])
        )
        said: list[Said] = []
        evidence: list[str] = []
        for at, (date, session) in enumerate(sessions):
            for turn, line in enumerate(session):
                mark = f"{at}:{turn}"
                said.append(Said(role=line["role"], text=f"[{date}] {line['content']}", mark=mark))
                if line.get("has_answer"):
                    evidence.append(mark)
        unsaid = str(sample["question_id"]).endswith(UNSAID)
        question = Question(
            text=sample["question"],
            answer=str(sample["answer"]),
            kind="abstention" if unsaid else sample["question_type"],
            evidence=() if unsaid else tuple(evidence),
        )
        yield Conversation(id=str(sample["question_id"]), said=tuple(said), questions=(question,))


def _beam(path: Path) -> Iterator[Conversation]:
    """A folder with `chat.json` and `probing_questions/probing_questions.json`, or a folder of such folders.

    Where its makers shortened a chat, they ask about the shortened one.
    """
    if not (path / "chat.json").exists():
        inner = sorted(
            (each for each in path.iterdir() if (each / "chat.json").exists()), key=lambda each: (len(each.name), each.name)
        )
        if not inner:
            raise BadInput(f"{str(path)!r} holds no BEAM conversation: there is no chat.json in it, nor in a folder of it")
        for folder in inner:
            yield from _beam(folder)
        return
    shortened = path / "chat_trunecated.json"
    lines = list(_messages(_read(shortened if shortened.exists() else path / "chat.json")))
    if not lines:
        raise BadInput(f"{str(path)!r} holds no BEAM conversation: there is no message in its chat")
    said = [
        Said(role=line["role"], text=_INDEX.sub("", str(line["content"] or "")), mark=str(line.get("id", f"at {at}")))
        for at, line in enumerate(lines)
    ]
    # Some ids stand at several messages, and then name none of them.
    named = Counter(line.mark for line in said)
    questions = [
        Question(
            text=asked["question"],
            answer=next((str(asked[name]) for name in BEAM_ANSWERS if asked.get(name)), ""),
            kind=kind,
            evidence=tuple(mark for mark in dict.fromkeys(_numbers(asked.get("source_chat_ids"))) if named[mark] == 1),
        )
        for kind, group in _read(path / "probing_questions" / "probing_questions.json").items()
        for asked in group
    ]
    yield Conversation(id=path.name, said=tuple(said), questions=tuple(questions))


def _messages(chat: object) -> Iterator[Mapping[str, Any]]:
    """Yield the messages of a chat, however deep they lie: in turns, in batches of turns, in plans of batches."""
    if isinstance(chat, Mapping):
        if "role" in chat and "content" in chat:
            yield chat
            return
        chat = list(chat.values())
    if isinstance(chat, list):
        for each in chat:
            yield from _messages(each)


def _numbers(ids: object) -> Iterator[str]:
    """Yield the ids of a list, or of every list of a table."""
    if isinstance(ids, Mapping):
        ids = list(ids.values())
    if isinstance(ids, list):
        for each in ids:
            yield from _numbers(each)
    elif ids is not None:
        yield str(ids)


def _read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if not text.strip():
        raise BadInput(f"{str(path)!r} is empty; take the file its makers publish")
    return json.loads(text)


LOADERS: Mapping[str, Callable[[Path], Iterator[Conversation]]] = {
    "locomo": _locomo,
    "longmemeval": _longmemeval,
    "beam": _beam,
}
