"""Ask a local model: the letters it prefers for questions, and the likelihood it gives to an agent's next steps.

Needs torch, transformers and the package `gguf`, and a folder with `model.gguf`. Nothing is generated, so the same input
gives the same result. `python -m benchmarks.readers.model FOLDER OUT FILE...` is the same as the command `score`, for a machine
that has torch and lacks threadkeep.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from benchmarks.readers.questions import LETTERS

WINDOW_TOKENS = 30_000
ASKED = (
    "You are a coding agent in the middle of a long session."
    " Below is your current context: what you remember of the session so far."
)
CONTINUED = "You are a coding agent in the middle of a long session with a user."


def score_files(folder: Path, sources: Sequence[Path], out: Path) -> None:
    """Score files of windows or of cuts; each result is written to `out` as soon as it is there."""
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    reader = Reader(folder)
    print(f"loaded after {time.monotonic() - began:.0f} s", flush=True)
    for source in sources:
        lines = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
        result: Any = [reader.weigh(line) for line in lines] if "segs" in lines[0] else reader.ask(lines)
        (out / f"{source.stem}.json").write_text(json.dumps(result), encoding="utf-8")
        print(f"{source.name}: {len(lines)} lines, {time.monotonic() - began:.0f} s", flush=True)


class Reader:
    """A model that reads windows."""

    def __init__(self, folder: Path) -> None:
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file="model.gguf")
        model = AutoModelForCausalLM.from_pretrained(folder, gguf_file="model.gguf", dtype=torch.bfloat16)
        self._model = model.to(self._device).eval()
        self._letters = [self._tokenizer.encode(letter, add_special_tokens=False)[0] for letter in LETTERS]

    def ask(self, lines: list[dict[str, Any]]) -> dict[str, Any]:
        """Return right and stale answers per arm and kind, the windows' tokens, and every answer."""
        counts: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0, 0, 0.0])
        lengths: defaultdict[str, list[int]] = defaultdict(list)
        detail: list[list[Any]] = []
        for line in lines:
            start = f"<|im_start|>system\n{ASKED}<|im_end|>\n<|im_start|>user\n<context>\n{line['ctx']}\n</context>"
            tokens = self._encode(start)[:WINDOW_TOKENS]
            lengths[line["arm"]].append(len(tokens))
            for (kind, letter, stale, _), chances in zip(line["qs"], self._answers(tokens, line["qs"]), strict=True):
                answer = LETTERS[max(range(len(LETTERS)), key=lambda at: chances[at])]
                chance = chances[LETTERS.index(letter)]
                row = counts[line["arm"], kind]
                for at, more in enumerate((1, answer == letter, answer == stale, chance)):
                    row[at] += more
                detail.append([line["seed"], line["arm"], kind, letter, answer, round(chance, 3)])
        return {"res": [[*key, *row] for key, row in counts.items()], "lens": dict(lengths), "detail": detail}

    def weigh(self, line: dict[str, Any]) -> dict[str, Any]:
        """Return, for each arm of a cut, the agent's summed negative log-likelihood, its tokens and the window's tokens."""
        arms = {}
        for arm, context in line["arms"].items():
            start = f"<|im_start|>system\n{CONTINUED}<|im_end|>\n<|im_start|>user\n{context}"
            tokens = self._encode(start)[-WINDOW_TOKENS:]
            size = len(tokens)
            scored = [False] * size
            for by_agent, text in line["segs"]:
                opening, body = self._encode("\n[assistant]\n" if by_agent else "\n"), self._encode(text)
                tokens += opening + body
                scored += [False] * len(opening) + [bool(by_agent)] * len(body)
            arms[arm] = [*self._surprise(tokens, scored), size]
        return {"thread": line["thread"], "cut": line["cut"], "arms": arms}

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False).input_ids)

    def _answers(self, tokens: list[int], questions: list[list[Any]]) -> list[list[float]]:
        """Return the four letters' probabilities per question; the window is read once."""
        found = []
        with torch.inference_mode():
            cache = DynamicCache()
            self._model(torch.tensor([tokens], device=self._device), past_key_values=cache, use_cache=True, logits_to_keep=1)
            for *_, text in questions:
                asked = self._encode(f"{text}<|im_end|>\n<|im_start|>assistant\n")
                read = torch.tensor([asked], device=self._device)
                logits = self._model(read, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1].float()
                found.append(logits[self._letters].softmax(0).tolist())
                cache.crop(-len(asked))
        return found

    def _surprise(self, tokens: list[int], scored: list[bool]) -> tuple[float, int]:
        with torch.inference_mode():
            read = torch.tensor([tokens], device=self._device)
            hidden = self._model.model(read).last_hidden_state[0]
            places = torch.tensor(scored[1:], device=self._device).nonzero().squeeze(1)
            logits = self._model.lm_head(hidden[places]).float()
            losses = torch.nn.functional.cross_entropy(logits, read[0, 1:][places], reduction="none")
        return float(losses.sum()), len(places)


if __name__ == "__main__":
    score_files(Path(sys.argv[1]), [Path(name) for name in sys.argv[3:]], Path(sys.argv[2]))
