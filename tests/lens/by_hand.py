"""The whole model once more, in plain torch and from its weights alone: what the lens is compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from transduce.model import Transformer, sinusoid_table


@dataclass
class ByHand:
    """A pass over one sentence: everything that was computed, by name."""

    model: Transformer
    found: dict[str, Tensor] = field(default_factory=dict)

    def run(self, source: list[int], target: list[int]) -> Tensor:
        """Logits, (tgt_len, vocab)."""
        with torch.inference_mode():
            memory = self._stack("encoder", self._embed("source", source), None)
            states = self._stack("decoder", self._embed("target", target), memory)
            weight = self.model.output.weight
            return F.linear(states, weight, self.model.output.bias)

    def _embed(self, side: str, ids: list[int]) -> Tensor:
        config = self.model.config
        x = getattr(self.model, f"{side}_embedding").weight[ids] * math.sqrt(config.d_model)
        offset = config.position_offset
        if config.position == "sinusoidal":
            x = x + sinusoid_table(len(ids), config.d_model, config.sinusoid, offset)
        if config.position == "learned":
            x = x + getattr(self.model, f"{side}_position").weight[offset : offset + len(ids)]
        return x

    def _stack(self, name: str, x: Tensor, memory: Tensor | None) -> Tensor:
        stack = getattr(self.model, name)
        for number, layer in enumerate(stack.layers):
            self.found[f"{name}.{number}.input"] = x
            causal = torch.ones(len(x), len(x)).tril().bool() if memory is not None else None
            x = self._around(
                layer.self_attention_add_norm,
                x,
                lambda y, layer=layer, number=number, causal=causal: self._attend(
                    f"{name}.{number}.self", layer.self_attention, y, y, causal, rotary=True
                ),
            )
            if memory is not None:
                x = self._around(
                    layer.cross_attention_add_norm,
                    x,
                    lambda y, layer=layer, number=number: self._attend(
                        f"{name}.{number}.cross", layer.cross_attention, y, memory, None, rotary=False
                    ),
                )
            x = self._around(
                layer.feed_forward_add_norm, x, lambda y, layer=layer: self._feed(layer.feed_forward, y)
            )
        self.found[f"{name}.top"] = x
        return self._norm(stack.norm, x) if self.model.config.norm == "pre" else x

    def _around(self, add_norm, x, sublayer):
        if self.model.config.norm == "pre":
            return x + sublayer(self._norm(add_norm.norm, x))
        return self._norm(add_norm.norm, x + sublayer(x))

    def _norm(self, norm, x):
        return F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.eps)

    def _feed(self, feed, x):
        kind = self.model.config.activation
        wide = F.linear(x, feed.w_1.weight, feed.w_1.bias)
        if kind == "swiglu":
            inner = F.silu(F.linear(x, feed.w_g.weight, feed.w_g.bias)) * wide
        else:
            inner = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}[kind](wide)
        return F.linear(inner, feed.w_2.weight, feed.w_2.bias)

    def _attend(self, name, attention, queries, memory, visible, *, rotary):
        config = self.model.config
        q, k, v = (
            F.linear(x, linear.weight, linear.bias).unflatten(-1, (config.num_heads, -1)).transpose(0, 1)
            for x, linear in ((queries, attention.w_q), (memory, attention.w_k), (memory, attention.w_v))
        )  # (heads, len, d)
        if rotary and config.position == "rotary":
            q, k = self._turn(q), self._turn(k)
        scores = q @ k.transpose(-1, -2) / math.sqrt(config.key_width)
        hidden = torch.zeros_like(scores) if visible is None else (~visible).float() * -1e9
        weights = (scores + hidden).softmax(-1)
        mask = torch.ones_like(scores[0]).bool() if visible is None else visible
        self.found |= {
            f"{name}.{part}": value
            for part, value in {
                "q": q,
                "k": k,
                "v": v,
                "scores": scores,
                "weights": weights,
                "mask": mask,
            }.items()
        }
        heads = (weights @ v).transpose(0, 1).flatten(1)
        return F.linear(heads, attention.w_o.weight, attention.w_o.bias)

    def _turn(self, x: Tensor) -> Tensor:
        config = self.model.config
        numbers = torch.arange(config.position_offset, config.position_offset + x.shape[1])
        angles = numbers[:, None] / 10000 ** (torch.arange(0, config.key_width, 2) / config.key_width)
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
