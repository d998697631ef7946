"""Adam, with decoupled weight decay where it belongs (paper, section 5.3; Loshchilov & Hutter, 2019)."""

from __future__ import annotations

import torch
from torch import nn

from transduce.train.config import TrainConfig

__all__ = ["make_optimizer", "set_rate"]


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """One fused pass over all parameters; only the projection matrices `w_*` decay."""
    decayed: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_projection = parameter.dim() == 2 and name.rsplit(".", 2)[-2].startswith("w_")
        (decayed if is_projection else plain).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=0.0,
        betas=(config.adam_beta_1, config.adam_beta_2),
        eps=config.adam_epsilon,
        fused=True,
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of the next update."""
    for group in optimizer.param_groups:
        group["lr"] = rate
