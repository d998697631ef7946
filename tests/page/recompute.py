"""The model again, in a page of plain torch: what every number on the page is compared with.

Shares no code with `transduce.model` or `transduce.lens`: it reads the weights from the file and follows
the paper. Only for the form that the test's model has (see `real_model.py`): pre-norm, ReLU,
sinusoidal positions, one matrix for both embeddings and the output. In float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

KINDS = ("enc_self", "dec_self", "cross")


@dataclass
class Head:
    """One head's tensors, `[queries, …]` and `[keys, …]`."""

    q: Tensor
    k: Tensor
    v: Tensor
    scores: Tensor
    mask: Tensor
    weights: Tensor


class Recomputed:
    """One pass over a source and a target, and all that was on the way."""

    def __init__(self, model: Path, num_heads: int, source: list[int], target: list[int]) -> None:
        self.w = {name: tensor.double() for name, tensor in load_file(model / "model.safetensors").items()}
        self.num_heads = num_heads
        self.heads: dict[tuple[str, int, int], Head] = {}
        self.values: dict[str, Tensor] = {}
        self.stack_output: list[Tensor] = []
        num_layers = 1 + max(int(n.split(".")[2]) for n in self.w if n.startswith("decoder.layers."))
        x = self.embed("source", source)
        for layer in range(num_layers):
            name = f"encoder.layers.{layer}"
            x = self.attend("enc_self", layer, f"{name}.self_attention", x, None)
            x = self.feed_forward(name, x)
        self.memory = self.norm("encoder.norm", x)
        y = self.embed("target", target)
        self.stack_output.append(y)
        for layer in range(num_layers):
            name = f"decoder.layers.{layer}"
            y = self.attend("dec_self", layer, f"{name}.self_attention", y, None)
            y = self.attend("cross", layer, f"{name}.cross_attention", y, self.memory)
            y = self.feed_forward(name, y)
            self.stack_output.append(y)
        self.logits = self.keep("output.logits", self.out(y))
        self.keep("probabilities", self.logits.softmax(-1))

    def keep(self, name: str, x: Tensor) -> Tensor:
        """Write a tensor down by its name in the walk, without the axis of the batch."""
        self.values[name] = x
        return x

    def embed(self, side: str, ids: list[int]) -> Tensor:
        """E[ids] · √d_model + sin/cos of the position."""
        table = self.w["source_embedding.weight"]
        d_model = table.shape[1]
        self.keep(f"{side}_embedding.ids", torch.tensor(ids, dtype=torch.float64))
        self.keep(f"{side}_embedding.rows", table[ids])
        scaled = self.keep(f"{side}_embedding.scaled", table[ids] * math.sqrt(d_model))
        sines = self.keep(f"{side}_position.table", positions(len(ids), d_model))
        return self.keep(f"{side}_position.sum", scaled + sines)

    def norm(self, name: str, x: Tensor) -> Tensor:
        y = F.layer_norm(x, x.shape[-1:], self.w[f"{name}.weight"], self.w[f"{name}.bias"], 1e-5)
        return self.keep(name, y)

    def linear(self, name: str, x: Tensor) -> Tensor:
        return self.keep(name, F.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"]))

    def feed_forward(self, layer: str, x: Tensor) -> Tensor:
        y = self.norm(f"{layer}.feed_forward_add_norm.norm", x)
        inner = self.linear(f"{layer}.feed_forward.w_1", y).relu()
        self.keep(f"{layer}.feed_forward.inner", inner)
        out = self.keep(f"{layer}.feed_forward.output", self.linear(f"{layer}.feed_forward.w_2", inner))
        return self.keep(f"{layer}.feed_forward_add_norm.residual", x + out)

    def attend(self, kind: str, layer: int, name: str, x: Tensor, memory: Tensor | None) -> Tensor:
        """One attention around its residual path, head by head; each head is kept."""
        y = self.norm(f"{name}_add_norm.norm", x)
        over = y if memory is None else memory
        wide = {"q": self.linear(f"{name}.w_q", y), "k": self.linear(f"{name}.w_k", over)}
        wide["v"] = self.linear(f"{name}.w_v", over)
        parts = {key: value.chunk(self.num_heads, dim=-1) for key, value in wide.items()}
        mask = torch.ones(len(y), len(over), dtype=torch.bool)
        if kind == "dec_self":
            mask = mask.tril()
        own = []
        for head in range(self.num_heads):
            q, k, v = parts["q"][head], parts["k"][head], parts["v"][head]
            scores = q @ k.T / math.sqrt(q.shape[1])
            weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
            self.heads[kind, layer, head] = Head(q, k, v, scores, mask, weights)
            own.append(weights @ v)
        found = [self.heads[kind, layer, head] for head in range(self.num_heads)]
        for plural, field in (("queries", "q"), ("keys", "k"), ("values", "v")):
            self.keep(f"{name}.{plural}", torch.stack([getattr(head, field) for head in found]))
        self.keep(f"{name}.scores", torch.stack([head.scores for head in found]))
        self.keep(f"{name}.weights", torch.stack([head.weights for head in found]))
        self.keep(f"{name}.heads", torch.stack(own))
        joined = self.keep(f"{name}.concat", torch.cat(own, dim=-1))
        out = self.keep(f"{name}.output", self.linear(f"{name}.w_o", joined))
        return self.keep(f"{name}_add_norm.residual", x + out)

    def out(self, y: Tensor) -> Tensor:
        """Final norm, then the tied matrix: logits of the next token, one row a position."""
        return self.norm("decoder.norm", y) @ self.w["source_embedding.weight"].T

    def cache_bytes(self, num_tokens: int) -> tuple[int, int]:
        """Bytes of keys and values in float32: of the target's first tokens, and of the source."""
        sizes = {"dec_self": 0, "cross": 0}
        for (kind, _, _), head in self.heads.items():
            if kind in sizes:
                rows = num_tokens if kind == "dec_self" else len(head.k)
                sizes[kind] += 4 * rows * (head.k.shape[1] + head.v.shape[1])
        return sizes["dec_self"], sizes["cross"]


def positions(length: int, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same (the paper, section 3.5)."""
    table = torch.empty(length, d_model, dtype=torch.float64)
    for position in range(length):
        for i in range(0, d_model, 2):
            angle = position / 10000 ** (i / d_model)
            table[position, i], table[position, i + 1] = math.sin(angle), math.cos(angle)
    return table
