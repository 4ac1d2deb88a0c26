"""Plays sessions twice, without a model and with a model's drafts, and writes both windows with the same questions.

All sessions are played at the same time: a model that answers many prompts together waits until every session has asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.readers.questions import order_options
from benchmarks.readers.sessions import Session
from benchmarks.readers.text import render_items
from benchmarks.readers.windows import play_session
from threadkeep.compaction.state_text import TAG
from threadkeep.dialects import Request, find_dialect
from threadkeep.llm import ModelReply

EXTRACTIVE, DRAFTED = "extractive", "session"
MODEL_WINDOW_TOKENS = 28_000
ANSWER_TOKENS = 700
# Prompts are put into one batch up to so many characters, answers included.
BATCH_CHARS = 3_600_000
# How long a batch waits for sessions that have not asked yet.
PATIENCE_S = 1.5
POLL_S = 0.01

Answer = Callable[[Sequence[str]], list[str]]
"""Answers prompts that were made with a model's chat marks."""


@dataclass(slots=True)
class Batches:
    """Collects prompts of sessions that are played at the same time."""

    answer: Answer
    playing: int = 0
    _waiting: list[tuple[str, asyncio.Future[str]]] = field(default_factory=list)

    async def ask(self, prompt: str) -> str:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append((prompt, future))
        return await future

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Answer prompts until the block ends."""
        server = asyncio.create_task(self._serve())
        try:
            yield
        finally:
            server.cancel()
            with suppress(asyncio.CancelledError):
                await server

    async def _serve(self) -> None:
        waited = 0.0
        while True:
            await asyncio.sleep(POLL_S)
            waited = waited + POLL_S if self._waiting else 0.0
            if not self._waiting or (len(self._waiting) < self.playing and waited < PATIENCE_S):
                continue
            batch, self._waiting = self._take_batch()
            for (_, future), text in zip(batch, self.answer([prompt for prompt, _ in batch]), strict=True):
                future.set_result(text)

    def _take_batch(self) -> tuple[list[tuple[str, asyncio.Future[str]]], list[tuple[str, asyncio.Future[str]]]]:
        """Return the longest prompts that fit into one batch, and the others."""
        ordered = sorted(self._waiting, key=lambda each: -len(each[0]))
        most = max(1, BATCH_CHARS // max(1, len(ordered[0][0])))
        return ordered[:most], ordered[most:]


@dataclass(slots=True)
class BatchedModel:
    """A model of threadkeep's port that answers through batches."""

    batches: Batches
    name: str = "local:batched"
    dialect: str = "chat"
    window_tokens: int = MODEL_WINDOW_TOKENS

    async def ask(self, request: Request) -> ModelReply:
        dialect = find_dialect(self.dialect)
        text = "\n\n".join(dialect.view(item).text for item in request.items)
        prompt = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
        return ModelReply(text=await self.batches.ask(prompt), ending="finished")


async def make_draft_lines(sessions: Sequence[Session], answer: Answer) -> list[dict[str, Any]]:
    """Return two lines for `score` per session: its window by `extractive`, and with the drafts of a model."""
    batches = Batches(answer)

    async def play(session: Session) -> list[dict[str, Any]]:
        questions = [question.as_line() for question in order_options(list(session.questions), seed=session.seed)]
        plain = await play_session(session)
        batches.playing += 1
        try:
            drafted = await play_session(session, strategy=DRAFTED, model=BatchedModel(batches))
        finally:
            batches.playing -= 1
        print(f"{session.family} {session.seed}: {dict(Counter(drafted.strategies))}")
        return [
            {"seed": session.seed, "family": session.family, "arm": arm, "ctx": render_items(played.window), "qs": questions}
            for arm, played in ((EXTRACTIVE, plain), (DRAFTED, drafted))
        ]

    async with batches.serve():
        found = await asyncio.gather(*(play(session) for session in sessions))
    return [line for lines in found for line in lines]


def open_answer(folder: Path) -> Answer:
    """Return the answers of the Qwen2 model in a folder with `model.gguf`; imported here because it needs torch."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from benchmarks.readers.decoder import Decoder

    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file="model.gguf")
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file="model.gguf", dtype=torch.bfloat16)
    decoder = Decoder.from_model(model.to("cuda" if torch.cuda.is_available() else "cpu").eval())
    stops = {tokenizer.convert_tokens_to_ids("<|im_end|>"), tokenizer.eos_token_id}

    def is_done(written: list[int]) -> bool:
        return f"</{TAG}>" in tokenizer.decode(written)

    def answer(prompts: Sequence[str]) -> list[str]:
        read = [list(tokenizer(prompt, add_special_tokens=False).input_ids) for prompt in prompts]
        answers = decoder.answer(read, most_tokens=ANSWER_TOKENS, stops=stops, is_done=is_done)
        return [tokenizer.decode(tokens, skip_special_tokens=True) for tokens in answers]

    return answer
