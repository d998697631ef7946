"""Token ids to vectors and vectors to logits (paper, section 3.4).

Axes: batch, tgt_len, d_model, vocab.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Embedding", "OutputProjection"]


class Embedding(nn.Module):
    """E[ids] · √d_model. (One of our source documents scales by √seq_len: a bug.)

    The scale brings the rows, drawn from N(0, 1/√d_model), to the size of the position table.
    """

    def __init__(self, vocab_size: int, d_model: int, pad_id: int) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.scale = math.sqrt(d_model)
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))

    def forward(self, ids: Int[Tensor, "batch tgt_len"]) -> Float[Tensor, "batch tgt_len d_model"]:
        """Look the rows up and scale them; the padding row takes no gradient from here."""
        rows: Tensor = F.embedding(ids, self.weight, self.pad_id)
        return rows * self.scale

    if TYPE_CHECKING:
        __call__ = forward


class OutputProjection(nn.Module):
    """logits = x W^T (+ b), W [vocab, d_model] being an embedding's matrix when tied."""

    def __init__(self, weight: nn.Parameter, *, bias: bool) -> None:
        super().__init__()
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(len(weight))) if bias else None

    def forward(self, x: Float[Tensor, "*axes d_model"]) -> Float[Tensor, "*axes vocab"]:
        """Unnormalised log-probabilities of the next token."""
        return F.linear(x, self.weight, self.bias)

    if TYPE_CHECKING:
        __call__ = forward
