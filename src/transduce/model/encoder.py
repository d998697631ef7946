"""The encoder: N layers over the whole source at once. Axes: batch, src_len, d_model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtyping import Bool, Float
from torch import Tensor, nn

from transduce.model.config import TransformerConfig
from transduce.model.layers import EncoderLayer
from transduce.model.norm import final_norm
from transduce.model.position import RotaryPosition

__all__ = ["Encoder"]


class Encoder(nn.Module):
    """Embedded source in, `memory` out: one vector a source token, each of which has seen all others."""

    def __init__(self, config: TransformerConfig, rotary: RotaryPosition | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config, rotary) for _ in range(config.num_encoder_layers))
        self.norm = final_norm(config)

    def forward(
        self,
        x: Float[Tensor, "batch src_len d_model"],
        visible: Bool[Tensor, "#batch 1 #src_len src_len"] | None,
    ) -> Float[Tensor, "batch src_len d_model"]:
        """Run the stack."""
        for layer in self.layers:
            x = layer(x, visible)
        out: Tensor = self.norm(x)
        return out

    if TYPE_CHECKING:
        __call__ = forward
