"""Runs one compactor in the interpreter that has it; a script of its own, which needs nothing of threadkeep.

It speaks JSON, a line each, on standard input and output. First it says `{"ready": VERSION}`, or `{"cannot": WHY}` and ends. It
is told `{"begin": true, "model": BOOL}` for a new session and `{"new": [MESSAGES], "budget": TOKENS}` for a hop; while it
compacts it may say `{"ask": PROMPT}` any number of times, each answered by `{"answer": TEXT}`; and ends a hop with
`{"window": [MESSAGES]}` or `{"failed": WHY}`. A question with an `instruction` wants to hear what changes, not everything.
Messages are those of Chat Completions.

A compactor is a class in one of the modules of `drivers`, made anew for every session; see `Compactor`. To add one, threadkeep
inside a host included, write it and name it in `COMPACTORS`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Literal, Protocol

Message = dict[str, Any]
Say = Callable[[dict[str, Any]], None]

DRIVERS = Path(__file__).with_name("drivers")


class Compactor(Protocol):
    """One way to compact, for one session."""

    def __init__(self, session: Session) -> None: ...

    def window(self, messages: list[Message], budget: int) -> list[Message]:
        """Return what takes the place of `messages`, the last window and what came since, in at most `budget` tokens.

        The budget is the same for every compactor in a hop. It is asked for, not enforced.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A compactor by name.

    Attributes:
        packages: What it needs: what is measured first, then what it is measured with.
        made_by: Its class, `MODULE:NAME`.
        asks: Whether it asks a model; threadkeep can do either.
    """

    packages: tuple[str, ...]
    made_by: str
    asks: Literal["always", "never", "either"] = "always"


def _through(host: str, made_by: str) -> Entry:
    return Entry(packages=("threadkeep", host), made_by=f"{made_by}:Through", asks="either")


COMPACTORS = {
    "langchain": Entry(packages=("langchain",), made_by="langchain:Own"),
    "hermes": Entry(packages=("hermes-agent",), made_by="hermes:Own"),
    "pydantic-ai": Entry(packages=("pydantic-ai-harness",), made_by="pydantic_ai:Own"),
    "headroom": Entry(packages=("headroom-ai",), made_by="headroom:Own", asks="never"),
    "openai-agents": Entry(packages=("openai-agents",), made_by="openai_agents:Own"),
    "openai-agents-gateway": Entry(packages=("openai-agents", "threadkeep"), made_by="openai_agents:BehindGateway"),
    "claude-agent-sdk": Entry(packages=("claude-agent-sdk",), made_by="claude_agent_sdk:Own"),
    "threadkeep-langchain": _through("langchain", "langchain"),
    "threadkeep-hermes": _through("hermes-agent", "hermes"),
    "threadkeep-openai-agents": _through("openai-agents", "openai_agents"),
    "threadkeep-pydantic-ai": _through("pydantic-ai-slim", "pydantic_ai"),
    "threadkeep-litellm": _through("litellm", "litellm"),
}


class Session:
    """What a compactor gets for one session: a model to ask, a folder of its own, and servers that end with it."""

    def __init__(self, say: Say, *, has_model: bool) -> None:
        self._say = say
        self._has_model = has_model
        self._one_question = Lock()
        self.ends = ExitStack()
        self.folder = Path(self.ends.enter_context(TemporaryDirectory(prefix="threadkeep-host-")))

    def ask(self, prompt: str, *, instruction: str | None = None) -> str:
        """Ask the driving process for a summary or, with an `instruction` at the prompt's end, for changes; return it."""
        with self._one_question:
            self._say({"ask": prompt} if instruction is None else {"ask": prompt, "instruction": instruction})
            answer: str = json.loads(sys.stdin.readline())["answer"]
            return answer

    def served(self, answer: Callable[[str, Message], Any]) -> str:
        """Return the address of a server that gives what `answer` makes of a path and a body; it ends with the session."""
        url: str = self.ends.enter_context(_loaded("answer_server").serving(answer))
        return url

    @cached_property
    def model(self) -> str | None:
        """The model that threadkeep's compactions ask, as a user writes it; None for no model."""
        if not self._has_model:
            return None

        def answered(path: str, body: Message) -> Any:
            said = [str(message["content"]) for message in body["messages"]]
            text = self.ask("\n".join(said), instruction=said[-1])
            return {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}

        return f"scripted@{self.served(answered)}/v1"

    @cached_property
    def threadkeep(self) -> Any:
        """The library; what its adapters open is closed with the session."""
        self.ends.callback(import_module("threadkeep.adapters.bridge").shared.close)
        return import_module("threadkeep")

    def settings(self, budget: int) -> Any:
        """Return threadkeep's settings in a host: a store of the session's own, and no window above `budget`.

        An adapter's settings never change: one with another budget is another adapter, on the same store.
        """
        return self.threadkeep.Config(
            store=str(self.folder / "host.db"), model_auto_compact_token_limit=max(1, budget), compact_model=self.model
        )


def main(name: str) -> None:
    """Serve one compactor until standard input ends."""
    # What peers print themselves goes to standard error: standard output is the conversation.
    out = os.dup(1)
    os.dup2(2, 1)

    def say(told: dict[str, Any]) -> None:
        text = (json.dumps(told, ensure_ascii=False) + "\n").encode()
        while text:
            text = text[os.write(out, text) :]

    entry = COMPACTORS[name]
    try:
        say({"ready": _versions(entry.packages)})
    except PackageNotFoundError as missing:
        say({"cannot": f"{missing.name} is not installed"})
        return
    with ThreadPoolExecutor(max_workers=1) as worker:
        _converse(entry, say, worker)


def _converse(entry: Entry, say: Say, worker: ThreadPoolExecutor) -> None:
    playing: _Playing | None = None
    # A session removes its folder and servers also when the other side is gone.
    try:
        for line in sys.stdin:
            told = json.loads(line)
            if told.get("begin"):
                _end(playing, worker)
                playing = _Playing(entry, Session(say, has_model=told["model"]))
                continue
            assert playing is not None
            hop = worker.submit(playing.hop, told["new"], told["budget"])
            # Any error of a peer is reported as its failure; the window stays what it was.
            if error := hop.exception():
                say({"failed": f"{type(error).__name__}: {error}"[:500]})
            else:
                say({"window": hop.result()})
    finally:
        _end(playing, worker)


def _end(playing: _Playing | None, worker: ThreadPoolExecutor) -> None:
    if playing is not None:
        worker.submit(playing.session.ends.close).result()


class _Playing:
    """A session under way. Its compactor is made with the first hop, so that what goes wrong in that is its failure."""

    def __init__(self, entry: Entry, session: Session) -> None:
        self.session = session
        self._entry = entry
        self._window: list[Message] = []
        self._compactor: Compactor | None = None

    def hop(self, new: list[Message], budget: int) -> list[Message]:
        self._window = [*self._window, *new]
        if self._compactor is None:
            module, _, kind = self._entry.made_by.partition(":")
            made: Compactor = getattr(_loaded(module), kind)(self.session)
            self._compactor = made
        self._window = self._compactor.window(self._window, budget)
        return self._window


@cache
def _loaded(module: str) -> Any:
    """Return a module of `drivers` by its file: where threadkeep is not installed it has no other name."""
    spec = spec_from_file_location(f"threadkeep_driver_{module}", DRIVERS / f"{module}.py")
    assert spec is not None
    assert spec.loader is not None
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def _versions(packages: tuple[str, ...]) -> str:
    """Return the first package's version, with the others behind it.

    Raises:
        PackageNotFoundError: One of them is not installed; its `name` says which.
    """
    return " with ".join([version(packages[0]), *(f"{other} {version(other)}" for other in packages[1:])])


if __name__ == "__main__":
    main(sys.argv[1])
