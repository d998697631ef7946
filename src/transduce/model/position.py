"""Where a token stands: sinusoidal, learned and rotary positions (paper, section 3.5).

Knows: positions, d_model, d_k. Does not know: tokens, padding (rows are padded on the right, so
the first real token is always at index 0).

    sinusoidal, learned   added to the scaled embedding, once, below the stack
    rotary                turns queries and keys inside self-attention; nothing is added

Axes: tgt_len (positions), d_model; inside attention batch, heads, tgt_len, d_k.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transduce.errors import ModelError
from transduce.model.config import SinusoidVariant

__all__ = [
    "LearnedPosition",
    "NoPosition",
    "RotaryPosition",
    "SinusoidalPosition",
    "sinusoid_table",
]

_BASE = 10000.0  # the paper's wavelengths run from 2π to 10000 · 2π


def sinusoid_table(
    length: int, d_model: int, variant: SinusoidVariant = "interleaved", offset: int = 0
) -> Float[Tensor, "length d_model"]:
    """The table of the paper's section 3.5, and the two variants found in the wild (TRAPS 3).

        interleaved     PE(pos, 2i) = sin(pos / 10000^(2i/d)),  PE(pos, 2i+1) = cos(same)
        halves          PE(pos, i) = sin(pos / 10000^(2i/d)),   PE(pos, d/2 + i) = cos(same)
        tensor2tensor   as halves, with exponent i / (d/2 - 1)

    An odd `d_model` has one sine more than cosines. Computed in float64, returned in float32.

    Args:
        length: rows.
        d_model: columns.
        variant: which formula and layout.
        offset: position number of row 0.
    """
    num_sines, num_cosines = (d_model + 1) // 2, d_model // 2
    index = torch.arange(num_sines, dtype=torch.float64)
    exponent = index / max(num_cosines - 1, 1) if variant == "tensor2tensor" else 2 * index / d_model
    positions = torch.arange(offset, offset + length, dtype=torch.float64)
    angles = positions[:, None] * torch.exp(-math.log(_BASE) * exponent)  # (length, num_sines)
    table = torch.empty(length, d_model, dtype=torch.float64)
    if variant == "interleaved":
        table[:, 0::2], table[:, 1::2] = angles.sin(), angles[:, :num_cosines].cos()
    else:
        table[:, :num_sines], table[:, num_sines:] = angles.sin(), angles[:, :num_cosines].cos()
    return table.float()


class SinusoidalPosition(nn.Module):
    """x + PE[past_len : past_len + tgt_len]; not trained, and the table grows when it must."""

    table: Tensor

    def __init__(self, d_model: int, variant: SinusoidVariant, offset: int, max_len: int) -> None:
        super().__init__()
        self.variant: SinusoidVariant = variant
        self.offset = offset
        self.register_buffer("table", sinusoid_table(max_len, d_model, variant, offset), persistent=False)

    def forward(
        self, x: Float[Tensor, "batch tgt_len d_model"], past_len: int = 0
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Add to each vector the row of its position.

        Args:
            x: embeddings.
            past_len: positions before the first of `x` (0 unless decoding with a cache).
        """
        end = past_len + x.shape[1]
        if end > len(self.table):
            grown = sinusoid_table(2 * end, x.shape[2], self.variant, self.offset)
            self.table = grown.to(self.table.device, self.table.dtype)
        return x + self.table[past_len:end]

    if TYPE_CHECKING:
        __call__ = forward


class LearnedPosition(nn.Module):
    """x + P[past_len : past_len + tgt_len], P trained (the paper's Table 3, row E)."""

    def __init__(self, d_model: int, offset: int, max_len: int) -> None:
        super().__init__()
        self.offset = offset
        self.max_len = max_len
        self.weight = nn.Parameter(torch.empty(max_len + offset, d_model))

    def forward(
        self, x: Float[Tensor, "batch tgt_len d_model"], past_len: int = 0
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Add to each vector the trained row of its position.

        Raises:
            ModelError: a position beyond `max_len`, for which nothing was learned.
        """
        end = past_len + x.shape[1]
        if end > self.max_len:
            raise ModelError(
                f"this model learned {self.max_len} positions and was given a row of {end} tokens: "
                f"split the input, or train with a larger model.max_len"
            )
        return x + self.weight[self.offset + past_len : self.offset + end]

    if TYPE_CHECKING:
        __call__ = forward


class NoPosition(nn.Module):
    """Nothing is added: rotary positions are told inside self-attention."""

    def forward(
        self, x: Float[Tensor, "batch tgt_len d_model"], past_len: int = 0
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """`x` as it came."""
        del past_len
        return x

    if TYPE_CHECKING:
        __call__ = forward


class RotaryPosition(nn.Module):
    """Turn each pair of columns (2i, 2i+1) by the angle pos / 10000^(2i/d_k) (Su et al., 2021, eq. 34).

    The product of a turned query and a turned key depends on the distance of their positions alone.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, d_k: int, offset: int, max_len: int) -> None:
        super().__init__()
        self.d_k = d_k
        self.offset = offset
        self._make_tables(max_len)

    @torch.inference_mode(False)  # tables that grew in inference must still serve training
    def _make_tables(self, length: int, device: torch.device | None = None) -> None:
        table = sinusoid_table(length, self.d_k, "interleaved", self.offset).to(device=device)
        self.register_buffer("sin", table[:, 0::2].contiguous(), persistent=False)  # (length, d_k / 2)
        self.register_buffer("cos", table[:, 1::2].contiguous(), persistent=False)

    def forward(
        self, x: Float[Tensor, "batch heads tgt_len d_k"], past_len: int = 0
    ) -> Float[Tensor, "batch heads tgt_len d_k"]:
        """Turn queries or keys that stand at positions past_len, past_len + 1, …"""
        end = past_len + x.shape[2]
        if end > len(self.cos):
            self._make_tables(2 * end, self.cos.device)
        exact = torch.promote_types(x.dtype, torch.float32)
        cos, sin = self.cos[past_len:end].to(exact), self.sin[past_len:end].to(exact)
        turn = _turn_at_once if x.requires_grad else _turn
        return turn(x.to(exact), cos, sin).to(x.dtype)

    if TYPE_CHECKING:
        __call__ = forward


def _turn(
    x: Float[Tensor, "batch heads tgt_len d_k"],
    cos: Float[Tensor, "tgt_len pairs"],
    sin: Float[Tensor, "tgt_len pairs"],
) -> Float[Tensor, "batch heads tgt_len d_k"]:
    """The same bits however many positions are turned together, and eight passes over memory."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def _turn_at_once(
    x: Float[Tensor, "batch heads tgt_len d_k"],
    cos: Float[Tensor, "tgt_len pairs"],
    sin: Float[Tensor, "tgt_len pairs"],
) -> Float[Tensor, "batch heads tgt_len d_k"]:
    """(a + b i) · (cos θ + i sin θ) in one pass, and one for the gradient; the last bit may differ."""
    apart = x.stride(-1) != 1 or any(step % 2 for step in (*x.stride()[:-1], x.storage_offset()))
    pairs = torch.view_as_complex((x.contiguous() if apart else x).view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)
