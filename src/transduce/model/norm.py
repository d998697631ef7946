"""Add & Norm: the residual path around every sub-layer (paper, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor, nn

from transduce.model.config import TransformerConfig
from transduce.model.dropout import Dropout

__all__ = ["AddNorm", "final_norm"]


class AddNorm(nn.Module):
    """post: LayerNorm(x + Dropout(Sublayer(x))), the paper.  pre: x + Dropout(Sublayer(LayerNorm(x)))."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Float[Tensor, "batch tgt_len d_model"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Run `sublayer` (attention or feed-forward) around a residual connection."""
        if self.pre:
            return x + self.dropout(sublayer(self.norm(x)))
        out: Tensor = self.norm(x + self.dropout(sublayer(x)))
        return out

    if TYPE_CHECKING:
        __call__ = forward


def final_norm(config: TransformerConfig) -> nn.Module:
    """The LayerNorm on top of a pre-norm stack, whose residual sum nobody normalised; else nothing.

    `nn.Transformer` adds it to post-norm stacks as well; the paper does not (TRAPS 12).
    """
    if config.norm == "pre":
        return nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
    return nn.Identity()
