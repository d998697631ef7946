"""The position-wise feed-forward layer (paper, section 3.3). Axes: batch, tgt_len, d_model, d_ff."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model.config import TransformerConfig
from transduce.model.dropout import Dropout
from transduce.model.projection import project

__all__ = ["FeedForward", "GatedFeedForward", "make_feed_forward"]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}


class FeedForward(nn.Module):
    """FFN(x) = activation(x W_1 + b_1) W_2 + b_2, activation ReLU (the paper, eq. 2), GELU or swish."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.activation = _ACTIVATIONS[config.activation]
        self.w_1 = nn.Linear(config.d_model, config.d_ff)
        self.w_2 = nn.Linear(config.d_ff, config.d_model)
        self.dropout = Dropout(config.activation_dropout)

    def forward(self, x: Float[Tensor, "batch tgt_len d_model"]) -> Float[Tensor, "batch tgt_len d_model"]:
        """Widen, bend, narrow: each position by itself."""
        if self.activation is F.relu:
            hidden = project(self.w_1, x, relu=True)
        else:
            hidden = self.activation(project(self.w_1, x))
        return project(self.w_2, self.dropout(hidden))

    if TYPE_CHECKING:
        __call__ = forward


class GatedFeedForward(nn.Module):
    """FFN(x) = (SiLU(x W_g + b_g) ⊙ (x W_1 + b_1)) W_2 + b_2 (SwiGLU: Shazeer, 2020)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.w_g = nn.Linear(config.d_model, config.d_ff)
        self.w_1 = nn.Linear(config.d_model, config.d_ff)
        self.w_2 = nn.Linear(config.d_ff, config.d_model)
        self.dropout = Dropout(config.activation_dropout)

    def forward(self, x: Float[Tensor, "batch tgt_len d_model"]) -> Float[Tensor, "batch tgt_len d_model"]:
        """Widen twice, let one gate the other, narrow."""
        return project(self.w_2, self.dropout(F.silu(project(self.w_g, x)) * project(self.w_1, x)))

    if TYPE_CHECKING:
        __call__ = forward


def make_feed_forward(config: TransformerConfig) -> FeedForward | GatedFeedForward:
    """The layer that the configuration's `activation` asks for."""
    return GatedFeedForward(config) if config.activation == "swiglu" else FeedForward(config)
