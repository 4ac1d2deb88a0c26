"""The recorded session that the demo plays: hours of invented work, with demands of the user that must not be lost.

The record is a file of JSON lines beside this module. Its first line holds everything but the turns; each further line is a turn.
"""

from __future__ import annotations

from importlib.resources import files

import msgspec
import zstandard

RECORD = "session.jsonl.zst"


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """Something the user said that must still hold when the session ends.

    Attributes:
        kind: How it binds later work: a prohibition, a correction, a name and so on.
        said: The exact sentence, as it stands in the user's message of `turn`.
        needle: Exact text of that sentence which occurs nowhere else in the session.
        stale: The earlier value that this demand replaces; it must not stand without the newer one after it.
    """

    kind: str
    said: str
    needle: str
    turn: int
    stale: str | None = None


class Step(msgspec.Struct, frozen=True):
    """One reply of the model, and the outputs of the tools it called; the last reply of a turn calls none."""

    reply: tuple[msgspec.Raw, ...]
    outputs: tuple[msgspec.Raw, ...]


class Turn(msgspec.Struct, frozen=True):
    """A message of the user and the model's steps until its answer."""

    user: msgspec.Raw
    steps: tuple[Step, ...]


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A whole session, every item as its exact bytes in the OpenAI Responses dialect.

    `developer` holds the client's instructions, sent in front of every request; `environment` is the first item of the history.
    """

    developer: msgspec.Raw
    environment: msgspec.Raw
    demands: tuple[Demand, ...]
    window_tokens: int
    turns: tuple[Turn, ...] = ()


class _Part(msgspec.Struct):
    text: str = ""


class Message(msgspec.Struct):
    """The fields of a message that the demo reads; any other item has none of them."""

    role: str = ""
    content: list[_Part] = []

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.content)


def read_message(raw: bytes | msgspec.Raw) -> Message:
    return msgspec.json.decode(raw, type=Message)


def load_session() -> Session:
    """Return the recorded session."""
    text = zstandard.ZstdDecompressor().decompress(files(__package__).joinpath(RECORD).read_bytes())
    first, *lines = text.splitlines()
    turns = tuple(msgspec.json.decode(line, type=Turn) for line in lines)
    return msgspec.structs.replace(msgspec.json.decode(first, type=Session), turns=turns)
