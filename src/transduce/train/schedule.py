"""The learning rate (paper, eq. 3) and the number of batches at every update.

Steps count updates, from 1; never micro-batches.
"""

from __future__ import annotations

import math

from transduce.train.config import TrainConfig

__all__ = ["learning_rate", "num_batches", "peak_rate"]


def peak_rate(config: TrainConfig, d_model: int) -> float:
    """The configured peak, or the paper's: (d_model · warmup_steps)^-0.5."""
    return config.learning_rate or (d_model * config.warmup_steps) ** -0.5


def learning_rate(step: int, done: float, config: TrainConfig, d_model: int) -> float:
    """The rate of update `step`: peak · min(1, step / warmup_steps) · decay.

        inverse_sqrt   decay = √(warmup_steps / step) after warm-up; with learning_rate 0 this is the
                       paper's d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5)
        linear         decay = 1 - done
        cosine         decay = (1 + cos(π · done)) / 2
        constant       decay = 1

    Args:
        step: 1 is the first.
        done: share of the run that lies behind it, 0 to 1, by the limit that comes first. When that
            limit is max_minutes, the rate depends on the machine's speed, as the end does.
        config: peak, warm-up and schedule.
        d_model: for the paper's peak.
    """
    warmup = config.warmup_steps
    rate = peak_rate(config, d_model) * (min(1.0, step / warmup) if warmup else 1.0)
    if config.schedule == "inverse_sqrt":
        return rate * math.sqrt(min(1.0, max(warmup, 1) / step))
    if config.schedule == "linear":
        return rate * (1.0 - done)
    if config.schedule == "cosine":
        return rate * 0.5 * (1.0 + math.cos(math.pi * done))
    return rate


def num_batches(done: float, config: TrainConfig) -> int:
    """Batches of the next update: from `accumulate` to `accumulate_final`, each number for an equal share.

    More text for an update does to its noise what a lower rate does (Smith et al. 2018, arXiv 1711.00489),
    and the first updates, which any text improves, come sooner.

    Args:
        done: as in `learning_rate`.
        config: both ends.
    """
    first, last = config.accumulate, max(config.accumulate, config.accumulate_final)
    return min(last, first + int(done * (last + 1 - first)))
