"""Scaled dot-product and multi-head attention (paper, section 3.2).

Knows: tensors, heads, a boolean `visible` mask (True = may be attended to), rotary positions.
Does not know: tokens, padding, batches, training, beams.
Axes: batch, tgt_len (queries), src_len (keys), heads, d_k (queries, keys), d_v (values), d_model.

One mathematics, two ways to run it: `fused_attention` never writes the tgt_len × src_len matrix
(section M13 of our sources), `explicit_attention` does and returns it. A test holds them equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model.config import TransformerConfig
from transduce.model.dropout import Dropout
from transduce.model.position import RotaryPosition
from transduce.model.projection import project

__all__ = ["AttentionRecord", "KeysValues", "MultiHeadAttention", "explicit_attention", "fused_attention"]


class KeysValues(NamedTuple):
    """What queries look at: projected once, then kept (in the decoder's cache) or thrown away."""

    keys: Float[Tensor, "batch heads src_len d_k"]
    values: Float[Tensor, "batch heads src_len d_v"]


@dataclass(frozen=True)
class AttentionRecord:
    """One explicit attention, for whoever looks in."""

    queries: Float[Tensor, "batch heads tgt_len d_k"]
    keys: Float[Tensor, "batch heads src_len d_k"]
    values: Float[Tensor, "batch heads src_len d_v"]
    scores: Float[Tensor, "batch heads tgt_len src_len"]
    """q·k / (√d_k · τ), before the mask."""
    weights: Float[Tensor, "batch heads tgt_len src_len"]
    """The softmax of the visible scores; exactly 0 where hidden."""


def explicit_attention(
    queries: Float[Tensor, "batch heads tgt_len d_k"],
    keys: Float[Tensor, "batch heads src_len d_k"],
    values: Float[Tensor, "batch heads src_len d_v"],
    visible: Bool[Tensor, "#batch #heads #tgt_len src_len"] | None = None,
    temperature: float = 1.0,
    dropout: Dropout | None = None,
) -> tuple[Float[Tensor, "batch heads tgt_len d_v"], AttentionRecord]:
    """Attention(Q, K, V) = softmax(Q Kᵀ / (√d_k · τ)) V (eq. 1), with everything on the way.

    Hidden cells get weight exactly 0 in every dtype; a query that sees nothing gets zeros.

    Args:
        queries: what is asked.
        keys: what is compared with.
        values: what is fetched.
        visible: True where a query may see a key; None means everywhere.
        temperature: τ; below 1 sharpens the weights, above 1 flattens them.
        dropout: applied to the weights (not by the paper).
    """
    scores = queries @ keys.transpose(-2, -1) / (math.sqrt(queries.shape[-1]) * temperature)
    if visible is None:
        weights = scores.softmax(-1)
    else:
        lowest = torch.finfo(scores.dtype).min  # -inf would make a row of hidden cells NaN
        weights = scores.masked_fill(~visible, lowest).softmax(-1).masked_fill(~visible, 0.0)
    dropped = weights if dropout is None else dropout(weights)
    return dropped @ values, AttentionRecord(queries, keys, values, scores, weights)


def fused_attention(
    queries: Float[Tensor, "batch heads tgt_len d_k"],
    keys: Float[Tensor, "batch heads src_len d_k"],
    values: Float[Tensor, "batch heads src_len d_v"],
    visible: Bool[Tensor, "#batch #heads #tgt_len src_len"] | None = None,
    temperature: float = 1.0,
) -> Float[Tensor, "batch heads tgt_len d_v"]:
    """The same result by torch's tiled kernel: memory grows with length, not with its square.

    A boolean mask makes the kernel give zeros to a query that sees nothing (torch ≥ 2.5).
    """
    scale = 1.0 / (math.sqrt(queries.shape[-1]) * temperature)
    out: Tensor = F.scaled_dot_product_attention(queries, keys, values, attn_mask=visible, scale=scale)
    return out


def as_attended(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """`x` in the type that heads are computed in: its own, but on a CPU not less than float32.

    There the kernels for short rows are ten times slower in half precision.
    """
    return x.to(torch.promote_types(x.dtype, torch.float32)) if x.device.type == "cpu" else x


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O, head_i = Attention(Q W^Q_i, K W^K_i, V W^V_i).

    The h projections of each kind are one matrix: `w_q`, `w_k`, `w_v`; `w_o` joins the heads.
    Set `observer` to be handed an `AttentionRecord` at each pass (the explicit form runs then);
    set `temperature` to look at another τ than the model was trained with.
    """

    def __init__(self, config: TransformerConfig, rotary: RotaryPosition | None = None) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        key_columns = config.num_heads * config.key_width
        value_columns = config.num_heads * config.value_width
        self.w_q = nn.Linear(config.d_model, key_columns, bias=config.bias)
        self.w_k = nn.Linear(config.d_model, key_columns, bias=config.bias)
        self.w_v = nn.Linear(config.d_model, value_columns, bias=config.bias)
        self.w_o = nn.Linear(value_columns, config.d_model, bias=config.bias)
        self.dropout = Dropout(config.attention_dropout)
        self.rotary = rotary
        self.temperature = 1.0
        self.observer: Callable[[AttentionRecord], None] | None = None

    def keys_values(self, memory: Float[Tensor, "batch src_len d_model"], past_len: int = 0) -> KeysValues:
        """Project what will be looked at.

        Args:
            memory: the encoder's output, or the layer's own input in self-attention.
            past_len: positions before the first row of `memory` (for rotary positions).
        """
        keys, values = self._split(project(self.w_k, memory)), self._split(project(self.w_v, memory))
        if self.rotary is not None:
            keys = self.rotary(as_attended(keys), past_len)
        return KeysValues(keys, values)

    def forward(
        self,
        queries: Float[Tensor, "batch tgt_len d_model"],
        keys_values: KeysValues,
        visible: Bool[Tensor, "#batch 1 #tgt_len src_len"] | None = None,
        past_len: int = 0,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Let each query gather from the values of the keys that it matches.

        Args:
            queries: one vector a position.
            keys_values: from `keys_values`.
            visible: True where a query may see a key; None means everywhere.
            past_len: positions before the first query (for rotary positions).
        """
        q = self._split(project(self.w_q, queries))  # (batch, heads, tgt_len, d_k)
        if self.rotary is not None:
            q = self.rotary(as_attended(q), past_len)
        heads = self._attend(q, keys_values, visible)  # (batch, heads, tgt_len, d_v)
        return project(self.w_o, heads.transpose(1, 2).flatten(2))  # (batch, tgt_len, d_model)

    def _attend(self, q: Tensor, keys_values: KeysValues, visible: Tensor | None) -> Tensor:
        """The fused form, unless somebody wants the weights: an observer, or dropout on them."""
        weights_dropped = self.training and self.dropout.p > 0  # torch's fused CPU kernel has no dropout
        dtype = keys_values.values.dtype
        with torch.autocast("cpu", enabled=False):
            q, keys_values = as_attended(q), KeysValues(*map(as_attended, keys_values))
            if self.observer is None and not weights_dropped:
                return fused_attention(q, *keys_values, visible, self.temperature).to(dtype)
            heads, record = explicit_attention(q, *keys_values, visible, self.temperature, self.dropout)
        if self.observer is not None:
            self.observer(record)
        return heads.to(dtype)

    def _split(self, x: Tensor) -> Tensor:
        """Columns to heads."""
        return x.view(*x.shape[:-1], self.num_heads, -1).transpose(1, 2)  # (batch, heads, len, d_k)

    if TYPE_CHECKING:
        __call__ = forward
