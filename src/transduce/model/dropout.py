"""Dropout whose random numbers cost little (paper, section 5.4).

torch's CPU dropout draws one random float per element, which is 8 % of a training step; this one
draws 64 random bits for four elements. The share dropped is exact to 1/65536, and the kept
elements are scaled by the reciprocal of the share really kept, so that the expectation is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int16
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Dropout", "dropout_from"]

_LEVELS = 1 << 16  # values of 16 random bits
_LOWEST = -(1 << 15)  # the smallest of them, read as a signed number

_generator: ContextVar[torch.Generator | None] = ContextVar("dropout generator", default=None)


@contextmanager
def dropout_from(generator: torch.Generator) -> Iterator[None]:
    """Let dropout on the CPU draw from `generator`, in this thread; otherwise it is torch's own."""
    token = _generator.set(generator)
    try:
        yield
    finally:
        _generator.reset(token)


class Dropout(nn.Module):
    """y = x · m / P(m = 1), with m = 0 for a share `p` of the elements; identity outside training."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.threshold = min(round(p * _LEVELS), _LEVELS - 1)

    def forward(self, x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        """Drop elements of `x`; any shape, same shape back."""
        if not self.training or self.threshold == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        dropped: Tensor = _BitDropout.apply(x, self.threshold)  # type: ignore[no-untyped-call]
        return dropped

    def extra_repr(self) -> str:
        """The share dropped, as torch prints it."""
        return f"p={self.p}"

    if TYPE_CHECKING:
        __call__ = forward


class _BitDropout(torch.autograd.Function):
    """Keep an element where its 16 random bits, as a number, are not below the threshold."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        """Draw, keep the mask for the way back, and scale."""
        keep = _random_bits(x.numel()).view(x.shape) >= threshold + _LOWEST
        ctx.save_for_backward(keep)
        ctx.scale = _LEVELS / (_LEVELS - threshold)
        return (x * keep).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:
        """The same mask, the same scale."""
        (keep,) = ctx.saved_tensors
        return (grads[0] * keep).mul_(ctx.scale), None


def _random_bits(count: int) -> Int16[Tensor, " count"]:
    """`count` uniform 16-bit numbers."""
    # The explicit lower bound asks for all 64 bits: plain random_() leaves the sign bit zero.
    words = torch.empty((count + 3) // 4, dtype=torch.int64)
    words.random_(-(2**63), None, generator=_generator.get())
    return words.view(torch.int16)[:count]
