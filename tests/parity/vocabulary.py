"""What can happen in a conversation, said once and written in the JSON of any dialect.

A scenario speaks of persons, hosts, calls, outputs and answers; a `Speech` writes them down. What a thread then shows is
read back by `seen`: the window, whole, with the session state as one mark.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from threadkeep import Config, Thread, Threadkeep
from threadkeep.dialects import HISTORY_FIELDS
from threadkeep.items import decode_json
from threadkeep.store import Record, RecordKind
from threadkeep.threads import Checkpoint, EntryKind, decode_body
from threadkeep.threads.reader import load_tip
from threadkeep.threads.writer import append_items, make_arrival

Json = dict[str, Any]

# Stands where the session state stands.
STATE: Final[Json] = {"the session state": "is here"}
# A few turns of `turn` fill it, so that a compaction has something to do.
WINDOW_TOKENS: Final = 4_000
# The window of a model that takes more than any thread here holds, so that it is asked on the thread's own prefix.
ROOM: Final = 200_000


class Speech(Protocol):
    """One dialect's way to write down what happened."""

    @property
    def dialect(self) -> str: ...

    def said(self, text: str) -> Json:
        """A person speaks; so does a host that borrows the person's role."""
        ...

    def instructed(self, text: str) -> Json:
        """A developer's or system's message within the history."""
        ...

    def answered(self, text: str) -> Json: ...

    def call(self, call_id: str, command: str = "ls") -> Json: ...

    def output(self, call_id: str, text: str = "ok") -> Json: ...

    def pictured(self, data: str) -> Json:
        """A person shows an image, as base64."""
        ...

    def shown(self, text: str, data: str) -> Json:
        """A person says something about an image."""
        ...


class ResponsesSpeech:
    dialect = "responses"

    def said(self, text: str) -> Json:
        return self._message("user", {"type": "input_text", "text": text})

    def instructed(self, text: str) -> Json:
        return self._message("developer", {"type": "input_text", "text": text})

    def answered(self, text: str) -> Json:
        return self._message("assistant", {"type": "output_text", "text": text})

    def call(self, call_id: str, command: str = "ls") -> Json:
        return {"type": "function_call", "name": "shell", "arguments": f'{{"cmd":"{command}"}}', "call_id": call_id}

    def output(self, call_id: str, text: str = "ok") -> Json:
        return {"type": "function_call_output", "call_id": call_id, "output": text}

    def pictured(self, data: str) -> Json:
        return self._message("user", {"type": "input_image", "image_url": f"data:image/png;base64,{data}"})

    def shown(self, text: str, data: str) -> Json:
        return self._message("user", {"type": "input_text", "text": text}, *self.pictured(data)["content"])

    def _message(self, role: str, *parts: Json) -> Json:
        return {"type": "message", "role": role, "content": list(parts)}


class ChatSpeech:
    dialect = "chat"

    def said(self, text: str) -> Json:
        return {"role": "user", "content": text}

    def instructed(self, text: str) -> Json:
        return {"role": "system", "content": text}

    def answered(self, text: str) -> Json:
        return {"role": "assistant", "content": text}

    def call(self, call_id: str, command: str = "ls") -> Json:
        called = {"name": "shell", "arguments": f'{{"cmd":"{command}"}}'}
        return {"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "type": "function", "function": called}]}

    def output(self, call_id: str, text: str = "ok") -> Json:
        return {"role": "tool", "tool_call_id": call_id, "content": text}

    def pictured(self, data: str) -> Json:
        return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}]}

    def shown(self, text: str, data: str) -> Json:
        return {"role": "user", "content": [{"type": "text", "text": text}, *self.pictured(data)["content"]]}


class MessagesSpeech:
    dialect = "messages"

    def said(self, text: str) -> Json:
        return self._message("user", {"type": "text", "text": text})

    def instructed(self, text: str) -> Json:
        return self._message("system", {"type": "text", "text": text})

    def answered(self, text: str) -> Json:
        return self._message("assistant", {"type": "text", "text": text})

    def call(self, call_id: str, command: str = "ls") -> Json:
        return self._message("assistant", {"type": "tool_use", "id": call_id, "name": "shell", "input": {"cmd": command}})

    def output(self, call_id: str, text: str = "ok") -> Json:
        return self._message("user", {"type": "tool_result", "tool_use_id": call_id, "content": text})

    def pictured(self, data: str) -> Json:
        source = {"type": "base64", "media_type": "image/png", "data": data}
        return self._message("user", {"type": "image", "source": source})

    def shown(self, text: str, data: str) -> Json:
        return self._message("user", {"type": "text", "text": text}, *self.pictured(data)["content"])

    def _message(self, role: str, *blocks: Json) -> Json:
        return {"role": role, "content": list(blocks)}


class GeminiSpeech:
    dialect = "gemini"

    def said(self, text: str) -> Json:
        return self._content("user", {"text": text})

    def instructed(self, text: str) -> Json:
        return self._content("system", {"text": text})

    def answered(self, text: str) -> Json:
        return self._content("model", {"text": text})

    def call(self, call_id: str, command: str = "ls") -> Json:
        called = {"id": call_id, "name": "shell", "args": {"cmd": command}}
        return self._content("model", {"functionCall": called, "thoughtSignature": "skip_thought_signature_validator"})

    def output(self, call_id: str, text: str = "ok") -> Json:
        answer = {"id": call_id, "name": "shell", "response": {"output": text}}
        return self._content("user", {"functionResponse": answer})

    def pictured(self, data: str) -> Json:
        return self._content("user", {"inlineData": {"mimeType": "image/png", "data": data}})

    def shown(self, text: str, data: str) -> Json:
        return self._content("user", {"text": text}, *self.pictured(data)["parts"])

    def _content(self, role: str, *parts: Json) -> Json:
        return {"role": role, "parts": list(parts)}


SPEECHES: Final[tuple[Speech, ...]] = (ResponsesSpeech(), ChatSpeech(), MessagesSpeech(), GeminiSpeech())
# Neither Chat Completions nor Gemini's API has a way to ask a provider for a compaction.
OFFERED: Final = tuple(speech for speech in SPEECHES if speech.dialect in ("responses", "messages"))


def skip_unless_offered(speech: Speech, strategy: str = "remote") -> None:
    """Skip a test of a provider's own compaction in a dialect that has none."""
    if strategy == "remote" and speech not in OFFERED:
        pytest.skip(f"no provider compacts by itself in {speech.dialect}")


def context(speech: Speech, text: str) -> Json:
    """The host describes its world."""
    return speech.said(f"<environment_context>{text}</environment_context>")


def permissions(speech: Speech, text: str) -> Json:
    """A developer's message that a newer one of its kind replaces."""
    return speech.instructed(f"<permissions>{text}</permissions>")


def aborted(speech: Speech) -> Json:
    """The host reports that the turn was broken off."""
    return speech.said("<turn_aborted>The turn was interrupted on purpose.</turn_aborted>")


def turn(speech: Speech, number: int, *, lines: int = 60) -> list[Json]:
    """A person's turn with one call, whose output is long enough to be worth compacting away."""
    return [
        speech.said(f"Please look into part {number} of the parser."),
        speech.call(f"c{number}", f"cat part_{number}.py"),
        speech.output(f"c{number}", f"line of part {number}\n" * lines),
        speech.answered(f"Part {number} is fine."),
    ]


def turns(speech: Speech, first: int, last: int) -> list[Json]:
    return [item for number in range(first, last + 1) for item in turn(speech, number)]


def said_in(speech: Speech, *numbers: int) -> list[Json]:
    """What the person said in these turns: what stands behind the state once they are compacted, unless it was the first."""
    return [turn(speech, number)[0] for number in numbers]


def config(file: Path, *, window_tokens: int = WINDOW_TOKENS) -> Config:
    return Config(store=str(file), model_context_window=window_tokens)


async def play(thread: Thread, speech: Speech, first: int, last: int) -> None:
    """Record the turns `first` to `last`, each as one unit."""
    for number in range(first, last + 1):
        await thread.record(turn(speech, number))


async def seen(thread: Thread) -> list[Json]:
    """Return every item of the window, the state as one mark, and make sure that the window is these items as sent."""
    history, window = await thread.history(), await thread.window()
    assert list(window) == [decode_json(item.raw) for item in thread.dialect.arrange(history.items)]
    return [STATE if entry.kind is EntryKind.STATE else decode_json(entry.item.raw) for entry in history.entries]


async def checkpoints(thread: Thread) -> list[Checkpoint]:
    """Return every checkpoint there is, oldest first."""
    return [decode_body(record.body, Checkpoint) for record in await of_kind(thread, RecordKind.CHECKPOINT)]


def sent(body: Json) -> list[Json]:
    """Return the history of a request as a provider receives it, without what Chat Completions puts before it."""
    found: list[Json] = next(body[name] for name in HISTORY_FIELDS if name in body)
    return [item for index, item in enumerate(found) if index or item.get("role") != "system"]


def asked(speech: Speech, first: int, last: int) -> list[Json]:
    """Return what the person said in the turns `first` to `last`."""
    return [turn(speech, number)[0] for number in range(first, last + 1)]


async def of_kind(thread: Thread, kind: RecordKind) -> list[Record]:
    return [record for record in await thread.records() if record.kind is kind]


async def add_aside(tk: Threadkeep, thread: Thread, item: Json) -> None:
    """Record what a person and the gateway said to each other, as the gateway does."""
    dialect = thread.dialect
    tip = await load_tip(tk.backend.store, thread.id, seed=b"")
    await append_items(tk.backend, thread.id, [make_arrival(dialect, dialect.parse(item), aside=True)], tip=tip)


def crashed_copy(file: Path, to: Path) -> Path:
    """Return a copy of a store as it lies on disk while its process still runs: what a kill would leave behind."""
    for suffix in ("", "-wal"):
        source = file.with_name(f"{file.name}{suffix}")
        if source.exists():
            to.with_name(f"{to.name}{suffix}").write_bytes(source.read_bytes())
    return to


def tamper(file: Path, sql: str, *values: object) -> None:
    """Change a closed store behind threadkeep's back, its guards put aside."""
    connection = sqlite3.connect(file)
    try:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        assert connection.execute(sql, values).rowcount > 0
        connection.commit()
    finally:
        connection.close()


def damage_body(file: Path, thread_id: str, ordinal: int, *, packed: bool = False) -> None:
    """Overwrite the bytes of one record with what is no JSON; `packed`, with what cannot even be unpacked."""
    where = "SELECT record.body FROM record JOIN thread ON thread.id = record.thread WHERE thread.name = ? AND ordinal = ?"
    sql = f"UPDATE body SET form = ?, data = x'ff00ff00' WHERE id = ({where})"
    tamper(file, sql, int(packed), thread_id, ordinal)
