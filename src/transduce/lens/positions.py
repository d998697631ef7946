"""The model's own positions: the formula's table, the learned one, or the angles of rotation.

In:  a model, a number of positions. Out: `Positions`.
Does not know: text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from transduce.lens.interventions import NoSuchPart
from transduce.lens.tensors import Arrays
from transduce.model.position import LearnedPosition, RotaryPosition, SinusoidalPosition
from transduce.model.transformer import Transformer

__all__ = ["positions"]

_BASE = 10000


def positions(model: Transformer, length: int) -> tuple[dict[str, Any], Arrays]:
    """The rows of the first `length` positions, as the model adds them or turns by them.

    Returns:
        What they are, and the arrays: `table` (length, d_model), or of rotary positions `angles`, `cos`
        and `sin` (length, d_k / 2).

    Raises:
        NoSuchPart: the model learned fewer positions.
    """
    config, module = model.config, model.source_position
    about: dict[str, Any] = {
        "kind": config.position,
        "variant": config.sinusoid if config.position == "sinusoidal" else None,
        "offset": config.position_offset,
        "length": length,
        "width": config.key_width if config.position == "rotary" else config.d_model,
        "trained": config.position == "learned",
        "base": _BASE if config.position != "learned" else None,
        "max_len": config.max_len if config.position == "learned" else None,
    }
    with torch.inference_mode():
        if isinstance(module, LearnedPosition):
            if length > config.max_len:
                raise NoSuchPart(f"the model learned {config.max_len} positions, not {length}: ask for fewer")
            return about, Arrays(
                {"table": _array(module.weight[module.offset : module.offset + length])}, about
            )
        if isinstance(module, SinusoidalPosition):
            # Through the module itself, whose table grows when it must: what it adds to nothing.
            nothing = torch.zeros(1, length, config.d_model, device=module.table.device)
            return about, Arrays({"table": _array(module(nothing)[0])}, about)
        return about, Arrays(_turns(model, length), about)


def _turns(model: Transformer, length: int) -> dict[str, Any]:
    """Rotary positions: what turning the vector (1, 0) of each pair of columns gives."""
    rotary = next((module for module in model.modules() if isinstance(module, RotaryPosition)), None)
    if rotary is None:
        raise NoSuchPart("the model has rotary positions and no self-attention that could use them")
    ones = torch.zeros(1, 1, length, rotary.d_k, device=rotary.cos.device)
    ones[..., 0::2] = 1
    turned = rotary(ones)[0, 0]
    numbers = torch.arange(rotary.offset, rotary.offset + length, dtype=torch.float64)
    rates = _BASE ** (-2 * torch.arange(rotary.d_k // 2, dtype=torch.float64) / rotary.d_k)
    return {
        "angles": _array(numbers[:, None] * rates),
        "cos": _array(turned[:, 0::2]),
        "sin": _array(turned[:, 1::2]),
    }


def _array(tensor: Tensor) -> Any:
    return tensor.float().cpu().numpy().astype(np.float32)
