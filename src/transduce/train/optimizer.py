"""Adam or Muon, with weight decay where it belongs (paper, section 5.3; Loshchilov & Hutter, 2019)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from transduce.train.config import TrainConfig
from transduce.train.muon import MuonAdam

__all__ = ["make_optimizer", "set_rate"]


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """The optimizer of `train.optimizer`, at a rate of 0.

    The projection matrices `w_*` are those that decay, and that Muon takes; embeddings, the output
    matrix, positions, biases and norms are always Adam's: one fused pass.
    """
    projections: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_projection = parameter.dim() == 2 and name.rsplit(".", 2)[-2].startswith("w_")
        (projections if is_projection else plain).append(parameter)
    adam: dict[str, Any] = {
        "betas": (config.adam_beta_1, config.adam_beta_2),
        "eps": config.adam_epsilon,
        "fused": True,
    }
    if config.optimizer == "muon":
        return MuonAdam(
            projections,
            plain,
            momentum=config.muon_momentum,
            scale=config.muon_scale,
            weight_decay=config.weight_decay,
            adam=adam,
            adam_rate_factor=config.adam_rate_factor,
        )
    groups = [
        {"params": projections, "weight_decay": config.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, **adam)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of the next update; a group with a `rate_factor` has its share of it."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("rate_factor", 1.0)
