"""A model that is no model: a scripted summariser behind the library's own port, asked as any provider would be."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from benchmarks.retention.summarisers import Note, Shown, Summariser
from threadkeep.compaction.state_text import TAG
from threadkeep.dialects import Request, find_dialect
from threadkeep.llm.base import ModelReply

INDEX_HEAD = "The user's messages in what follows the state, by number:\n"


class SummarisingModel:
    """`threadkeep.llm.Model` around a summariser. Before each compaction it is told what a perfect reader would note down."""

    def __init__(self, name: str, summarise: Summariser, *, dialect: str, seed: str) -> None:
        self._name = name
        self._summarise = summarise
        self._dialect = dialect
        self._rng = Random(seed)
        self.key: Sequence[Note] = ()
        self.asked = 0

    @property
    def name(self) -> str:
        return f"{self._name}@scripted"

    @property
    def dialect(self) -> str:
        return self._dialect

    @property
    def window_tokens(self) -> int | None:
        return None

    async def ask(self, request: Request) -> ModelReply:
        """Answer as the summariser does, from the text of the request alone."""
        self.asked += 1
        dialect = find_dialect(self._dialect)
        *conversation, instruction = (dialect.view(item).text for item in request.items)
        shown = Shown(
            before=instruction.partition(f"<{TAG}>\n")[2].partition(f"\n</{TAG}>")[0],
            messages=instruction.partition(INDEX_HEAD)[2].partition("\n\n")[0],
            span="\n".join((*conversation, instruction)),
            whole=False,
            key=self.key,
        )
        return ModelReply(text=self._summarise(shown, self._rng))
