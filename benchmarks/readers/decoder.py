"""Answers many prompts at once with a Qwen2 model: each prompt is read alone, then all answers are written together.

`transformers` pads prompts to one length and copies its cache at every token, which is too slow for prompts of 20,000 tokens.
Here the cache has its full size from the start. The most likely token is taken, so the same prompts give the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

# A small model that repeats itself seldom stops; tokens it has written already count a little less.
REPEAT_PENALTY = 1.05
# Whether answers have ended is looked up after so many tokens: each look waits for the device.
LOOK_EVERY = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of a Qwen2 model that its weights do not tell."""

    layers: int
    heads: int
    key_heads: int
    head_size: int
    rope_base: float
    norm_epsilon: float


class Decoder:
    """A Qwen2 model from its weights, by the names that `transformers` gives them."""

    def __init__(self, weights: dict[str, torch.Tensor], shape: Shape, *, output: torch.Tensor) -> None:
        self._shape = shape
        self._embedding = weights["model.embed_tokens.weight"]
        self._norm = weights["model.norm.weight"]
        self._output = output
        steps = torch.arange(0, shape.head_size, 2, device=self._embedding.device).float()
        self._frequencies = 1.0 / (shape.rope_base ** (steps / shape.head_size))
        self._layers = [_join_weights(weights, f"model.layers.{number}.") for number in range(shape.layers)]

    @classmethod
    def from_model(cls, model: Any) -> Decoder:
        """Return the decoder of a loaded `transformers` model."""
        config = model.config
        base = getattr(config, "rope_theta", None) or config.rope_parameters["rope_theta"]
        shape = Shape(
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            key_heads=config.num_key_value_heads,
            head_size=config.hidden_size // config.num_attention_heads,
            rope_base=base,
            norm_epsilon=config.rms_norm_eps,
        )
        return cls(model.state_dict(), shape, output=model.get_output_embeddings().weight)

    def answer(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        most_tokens: int,
        stops: Collection[int],
        is_done: Callable[[list[int]], bool] = lambda _: False,
    ) -> list[list[int]]:
        """Return the tokens written after each prompt, up to a stop token or until `is_done`."""
        with torch.inference_mode():
            return self._answer(prompts, most_tokens=most_tokens, stops=stops, is_done=is_done)

    def _answer(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        most_tokens: int,
        stops: Collection[int],
        is_done: Callable[[list[int]], bool],
    ) -> list[list[int]]:
        shape, device = self._shape, self._embedding.device
        lengths = [len(prompt) for prompt in prompts]
        size = (len(prompts), shape.key_heads, max(lengths) + most_tokens, shape.head_size)
        keys = [self._embedding.new_zeros(size) for _ in self._layers]
        values = [self._embedding.new_zeros(size) for _ in self._layers]
        logits = torch.stack([self._read(prompt, keys, values, row=row) for row, prompt in enumerate(prompts)])
        written = torch.zeros_like(logits, dtype=torch.bool)
        places, rows = torch.tensor(lengths, device=device), torch.arange(len(prompts), device=device)
        ends: list[int | None] = [None] * len(prompts)
        tokens: list[torch.Tensor] = []
        for step in range(1, most_tokens + 1):
            lowered = torch.where(logits > 0, logits / REPEAT_PENALTY, logits * REPEAT_PENALTY)
            token = torch.where(written, lowered, logits).argmax(-1)
            written[rows, token] = True
            tokens.append(token)
            if step % LOOK_EVERY == 0 or step == most_tokens:
                answers = torch.stack(tokens, 1).tolist()
                pairs = zip(ends, answers, strict=True)
                ends = [end if end is not None else _find_end(answer, stops, is_done) for end, answer in pairs]
                if None not in ends:
                    break
            logits = self._write(token, keys, values, places=places, rows=rows)
            places = places + 1
        return [answer[:end] for answer, end in zip(torch.stack(tokens, 1).tolist(), ends, strict=True)]

    def _read(
        self, prompt: Sequence[int], keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor], *, row: int
    ) -> torch.Tensor:
        """Read one prompt into its row of the cache; return the logits behind it."""
        count = len(prompt)
        hidden = self._embedding[torch.tensor(prompt, device=self._embedding.device)]
        turn = self._turns(torch.arange(count, device=hidden.device))
        for layer, kept_keys, kept_values in zip(self._layers, keys, values, strict=True):
            asked, key, value = (part.transpose(0, 1) for part in self._attend(hidden, layer, turn))
            kept_keys[row, :, :count], kept_values[row, :, :count] = key, value
            groups = self._shape.heads // self._shape.key_heads
            wide = (part.repeat_interleave(groups, 0)[None] for part in (key, value))
            seen = functional.scaled_dot_product_attention(asked[None], *wide, is_causal=True)[0]
            hidden = self._finish(hidden, seen.transpose(0, 1).reshape(count, -1), layer)
        return self._score(hidden[-1:])[0]

    def _write(
        self,
        token: torch.Tensor,
        keys: Sequence[torch.Tensor],
        values: Sequence[torch.Tensor],
        *,
        places: torch.Tensor,
        rows: torch.Tensor,
    ) -> torch.Tensor:
        """Put one token behind each row; return the logits behind it."""
        hidden, turn = self._embedding[token], self._turns(places)
        hidden_places = (torch.arange(keys[0].shape[2], device=token.device)[None] > places[:, None])[:, None, None]
        shape = self._shape
        for layer, kept_keys, kept_values in zip(self._layers, keys, values, strict=True):
            asked, key, value = self._attend(hidden, layer, turn)
            kept_keys[rows, :, places], kept_values[rows, :, places] = key, value
            grouped = asked.view(len(token), shape.key_heads, -1, shape.head_size)
            weights = (grouped @ kept_keys.transpose(-1, -2)).float() / shape.head_size**0.5
            weights = weights.masked_fill(hidden_places, float("-inf")).softmax(-1).to(hidden.dtype)
            hidden = self._finish(hidden, (weights @ kept_values).reshape(len(token), -1), layer)
        return self._score(hidden)

    def _attend(
        self, hidden: torch.Tensor, layer: dict[str, torch.Tensor], turn: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return queries, keys and values of tokens, turned to their places."""
        shape = self._shape
        joined = functional.linear(self._normalise(hidden, layer["before"]), layer["attention"], layer["bias"])
        sizes = [shape.heads * shape.head_size, *[shape.key_heads * shape.head_size] * 2]
        asked, key, value = (part.unflatten(-1, (-1, shape.head_size)) for part in joined.split(sizes, -1))
        return _turn(asked, turn), _turn(key, turn), value

    def _finish(self, hidden: torch.Tensor, seen: torch.Tensor, layer: dict[str, torch.Tensor]) -> torch.Tensor:
        hidden = hidden + functional.linear(seen, layer["out"])
        gate, up = functional.linear(self._normalise(hidden, layer["after"]), layer["gate_up"]).chunk(2, -1)
        return hidden + functional.linear(functional.silu(gate) * up, layer["down"])

    def _normalise(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        wide = hidden.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self._shape.norm_epsilon)
        return scaled.to(hidden.dtype) * weight

    def _turns(self, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        angles = (places.float()[:, None] * self._frequencies).repeat(1, 2)[:, None]
        return angles.cos().to(self._embedding.dtype), angles.sin().to(self._embedding.dtype)

    def _score(self, hidden: torch.Tensor) -> torch.Tensor:
        return functional.linear(self._normalise(hidden, self._norm), self._output).float()


def _turn(part: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    cosine, sine = turn
    one, other = part.chunk(2, -1)
    return part * cosine + torch.cat((-other, one), -1) * sine


def _join_weights(weights: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Return the weights of a layer, those read together joined."""
    attention = f"{prefix}self_attn."
    return {
        "before": weights[f"{prefix}input_layernorm.weight"],
        "after": weights[f"{prefix}post_attention_layernorm.weight"],
        "attention": torch.cat([weights[f"{attention}{name}_proj.weight"] for name in "qkv"]),
        "bias": torch.cat([weights[f"{attention}{name}_proj.bias"] for name in "qkv"]),
        "out": weights[f"{attention}o_proj.weight"],
        "gate_up": torch.cat([weights[f"{prefix}mlp.{name}_proj.weight"] for name in ("gate", "up")]),
        "down": weights[f"{prefix}mlp.down_proj.weight"],
    }


def _find_end(answer: list[int], stops: Collection[int], is_done: Callable[[list[int]], bool]) -> int | None:
    """Return how many tokens of an answer count; None if it goes on."""
    found = next((at for at, token in enumerate(answer) if token in stops), None)
    return found if found is not None else len(answer) if is_done(answer) else None
