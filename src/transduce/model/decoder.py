"""The decoder: N layers over the target, all of it at once or one token at a time.

Both ways run the same lines; step by step, a cache supplies what the earlier tokens left.
Axes: rows (hypotheses, or training examples), sentences, tgt_len, src_len, d_model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from transduce.model.attention import KeysValues
from transduce.model.cache import DecoderCache
from transduce.model.config import TransformerConfig
from transduce.model.layers import DecoderLayer
from transduce.model.norm import final_norm
from transduce.model.position import RotaryPosition

__all__ = ["Decoder"]


class Decoder(nn.Module):
    """Embedded target and the encoder's memory in, one vector a target position out."""

    def __init__(self, config: TransformerConfig, rotary: RotaryPosition | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config, rotary) for _ in range(config.num_decoder_layers))
        self.norm = final_norm(config)

    def remember(self, memory: Float[Tensor, "sentences src_len d_model"]) -> list[KeysValues]:
        """Each layer's cross-attention keys and values: made once a source, whatever the target."""
        return [cast(DecoderLayer, layer).cross_attention.keys_values(memory) for layer in self.layers]

    def forward(
        self,
        x: Float[Tensor, "rows tgt_len d_model"],
        visible: Bool[Tensor, "#rows 1 tgt_len past_and_tgt_len"] | None,
        memory: list[KeysValues],
        memory_visible: Bool[Tensor, "sentences 1 1 src_len"] | None,
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "rows tgt_len d_model"]:
        """Run the stack; with a `cache`, `x` is what follows the tokens already in it."""
        for index, layer in enumerate(self.layers):
            past = cache.layers[index] if cache is not None else None
            x = layer(x, visible, memory[index], memory_visible, past)
        out: Tensor = self.norm(x)
        return out

    if TYPE_CHECKING:
        __call__ = forward
