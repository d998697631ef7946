"""The learning rate at every update (paper, eq. 3). Steps count updates, from 1; never micro-batches."""

from __future__ import annotations

import math

from transduce.train.config import TrainConfig

__all__ = ["learning_rate", "peak_rate"]


def peak_rate(config: TrainConfig, d_model: int) -> float:
    """The rate at the end of warm-up: the configured one, or the paper's (d_model · warmup_steps)^-0.5."""
    return config.learning_rate or (d_model * config.warmup_steps) ** -0.5


def learning_rate(step: int, config: TrainConfig, d_model: int) -> float:
    """The rate of update `step` (1 is the first).

    With schedule `inverse_sqrt` and learning_rate 0 this is the paper's
    d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5).
    """
    peak, warmup = peak_rate(config, d_model), config.warmup_steps
    if step < warmup:
        return peak * step / warmup
    if config.schedule == "inverse_sqrt":
        return peak * math.sqrt(max(warmup, 1) / step)
    if config.schedule == "constant":
        return peak
    # One step beyond the last, so that the last update still moves.
    done = min(1.0, (step - warmup) / max(1, config.max_steps + 1 - warmup))
    if config.schedule == "linear":
        return peak * (1.0 - done)
    return peak * 0.5 * (1.0 + math.cos(math.pi * done))
