"""One layer of each stack (paper, section 3.1). Axes: batch, tgt_len, src_len, d_model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtyping import Bool, Float
from torch import Tensor, nn

from transduce.model.attention import KeysValues, MultiHeadAttention
from transduce.model.cache import LayerCache
from transduce.model.config import TransformerConfig
from transduce.model.feed_forward import make_feed_forward
from transduce.model.norm import AddNorm
from transduce.model.position import RotaryPosition

__all__ = ["DecoderLayer", "EncoderLayer"]


class EncoderLayer(nn.Module):
    """x → self-attention → Add & Norm → feed-forward → Add & Norm."""

    def __init__(self, config: TransformerConfig, rotary: RotaryPosition | None) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config, rotary)
        self.self_attention_add_norm = AddNorm(config)
        self.feed_forward = make_feed_forward(config)
        self.feed_forward_add_norm = AddNorm(config)

    def forward(
        self,
        x: Float[Tensor, "batch src_len d_model"],
        visible: Bool[Tensor, "#batch 1 #src_len src_len"] | None,
    ) -> Float[Tensor, "batch src_len d_model"]:
        """Mix the positions, then work on each."""
        attention = self.self_attention
        x = self.self_attention_add_norm(x, lambda y: attention(y, attention.keys_values(y), visible))
        return self.feed_forward_add_norm(x, self.feed_forward)

    if TYPE_CHECKING:
        __call__ = forward


class DecoderLayer(nn.Module):
    """x → masked self-attention → Add & Norm → cross-attention → Add & Norm → feed-forward → Add & Norm."""

    def __init__(self, config: TransformerConfig, rotary: RotaryPosition | None) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config, rotary)
        self.self_attention_add_norm = AddNorm(config)
        self.cross_attention = MultiHeadAttention(config)
        self.cross_attention_add_norm = AddNorm(config)
        self.feed_forward = make_feed_forward(config)
        self.feed_forward_add_norm = AddNorm(config)

    def forward(
        self,
        x: Float[Tensor, "rows tgt_len d_model"],
        visible: Bool[Tensor, "#rows 1 tgt_len past_and_tgt_len"] | None,
        memory: KeysValues,
        memory_visible: Bool[Tensor, "sentences 1 1 src_len"] | None,
        past: LayerCache | None = None,
    ) -> Float[Tensor, "rows tgt_len d_model"]:
        """Look at what was written, then at the source, then work on each position.

        Args:
            x: the target so far, or its newest token when `past` is given.
            visible: causal mask over past and present; None when the only query may see all.
            memory: this layer's keys and values of the encoder's output, one row a sentence.
            memory_visible: the source's padding mask.
            past: the layer's cache in step-by-step decoding.
        """

        def self_attend(y: Tensor) -> Tensor:
            past_len = past.length if past is not None else 0
            present = self.self_attention.keys_values(y, past_len)
            everything = present if past is None else past.append(present)
            return self.self_attention(y, everything, visible, past_len)

        def cross_attend(y: Tensor) -> Tensor:
            # Cross-attention treats queries one by one, so the rows of one sentence can stand side
            # by side as its queries: (sentences, group · tgt_len, d_model). No memory is copied.
            grouped = y.reshape(memory.keys.shape[0], -1, y.shape[-1])
            return self.cross_attention(grouped, memory, memory_visible).view_as(y)

        x = self.self_attention_add_norm(x, self_attend)
        x = self.cross_attention_add_norm(x, cross_attend)
        return self.feed_forward_add_norm(x, self.feed_forward)

    if TYPE_CHECKING:
        __call__ = forward
