"""What the losses share that form their gradients on the way forward, a chunk of logits at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["add_product", "in_type_of", "logits_into", "scaled_gradients"]


def in_type_of(states: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The output projection in the type that it is multiplied in: that of `states`."""
    return weight.to(states.dtype), None if bias is None else bias.to(states.dtype)


def logits_into(room: Tensor, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Write states · weightᵀ + bias into the first rows of `room`, and return them.

    One room for all chunks: with a new tensor for each, a step pays for their page faults.
    """
    logits = room[: len(states)]
    if states.dtype != room.dtype:
        return logits.copy_(F.linear(states, weight, bias))
    if bias is None:
        return torch.mm(states, weight.t(), out=logits)
    return torch.addmm(bias, states, weight.t(), out=logits)


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Total += left · right; chunks add up in the type of `total`, however coarse the factors are."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def scaled_gradients(ctx: Any, scale: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """The way back: the gradients of states, weight and bias that forward kept, times the loss's own."""
    grad_states, grad_weight, grad_bias = ctx.saved_tensors
    return grad_states * scale, grad_weight * scale, None if grad_bias is None else grad_bias * scale
