"""How a model is trained (paper, section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from transduce.errors import RecipeError
from transduce.train.memory import parse_size

__all__ = ["AverageOf", "OptimizerKind", "Precision", "ScheduleKind", "TrainConfig"]

OptimizerKind = Literal["adam", "muon"]
Precision = Literal["float32", "bfloat16", "auto"]
ScheduleKind = Literal["inverse_sqrt", "linear", "cosine", "constant"]
AverageOf = Literal["last", "best", "ema", "none"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything about the road from random weights to a finished model.

    Raises:
        RecipeError: no limit is set, or a value is out of range.
    """

    seed: int = 1
    """Decides initial weights, dropout and the order of batches."""
    max_steps: int = 100_000
    """Updates of the weights; 0 means no limit."""
    max_epochs: int = 0
    """Passes over the text; 0 means no limit."""
    max_minutes: float = 0.0
    """Training time, interruptions not counted; 0 means no limit."""
    accumulate: int = 1
    """Batches whose gradients are summed for one update."""
    accumulate_final: int = 0
    """What `accumulate` has grown to at the end, one batch more at a time, by the share of the run
    that is done (steps, epochs or minutes, as in `schedule`); 0 means it stays."""
    workers: int = 0
    """Threads that share an update, each computing a part of it on cores of its own; 0: one a core while
    parts have 1,024 tokens. Another number draws other dropout."""
    precision: Precision = "float32"
    """Of matrix products: `float32`; `bfloat16`, with weights, sums, norms and loss in float32 all the same;
    `auto`, whichever is faster on this machine, measured once at the beginning of a run."""
    memory: str = ""
    """Most memory that training takes, such as `8GB`, `500MB` or `2GiB`: of this process, or of the GPU
    that it trains on. Batches are cut into smaller parts to stay within it; an update sees the same
    pairs. Empty: four fifths of what is free at the start."""

    learning_rate: float = 0.0
    """The peak rate; 0 means the paper's: (d_model · warmup_steps)^-0.5."""
    warmup_steps: int = 4000
    """Updates over which the rate rises to its peak in a straight line."""
    schedule: ScheduleKind = "inverse_sqrt"
    """After warm-up: `inverse_sqrt` (the paper, eq. 3), `linear` or `cosine` down to 0 at the
    first limit (steps, epochs or minutes), `constant`."""
    optimizer: OptimizerKind = "adam"
    """`adam` (section 5.3), or `muon` for the projection matrices and Adam for the rest."""
    adam_beta_1: float = 0.9
    """Decay of the mean of gradients."""
    adam_beta_2: float = 0.98
    """Decay of the mean of their squares."""
    adam_epsilon: float = 1e-9
    """Added to the root of the latter."""
    adam_rate_factor: float = 1.0
    """With `muon`: the rate of what stays Adam's (embeddings, positions, biases, norms), as a share of
    the matrices' rate."""
    muon_momentum: float = 0.95
    """Decay of the mean of gradients that Muon turns into an update (Nesterov's form)."""
    muon_scale: float = 0.2
    """Size of Muon's updates: about the root mean square of a matrix's update at a rate of 1; at 0.2
    Adam's learning rates fit (Liu et al., 2025)."""
    weight_decay: float = 0.0
    """Decoupled decay of the projection matrices, Adam's or Muon's; embeddings, norms and biases: none."""
    clip_norm: float = 1.0
    """Longest gradient (Euclidean norm over all parameters); 0 means any."""
    label_smoothing: float = 0.1
    """Share of the truth that is spread evenly over all vocab classes (section 5.4)."""
    r_drop: float = 0.0
    """R-Drop's α (its paper: 5 for translation): every batch runs twice, with different dropout, and
    both predictions are drawn together; an update costs about twice as much. 0 is off."""

    skip_limit: int = 5
    """Updates in a row with a loss or gradient that is not finite, after which older weights are taken."""
    rollback_factor: float = 0.5
    """What the rate is multiplied by each time the run goes back."""
    max_rollbacks: int = 5
    """Times the run may go back before it has made a new checkpoint; then it ends with an error."""

    validate_every: int = 1000
    """Updates between two validations; 0 means only at the end."""
    validate_sentences: int = 500
    """Sentences that are really translated at a validation, for BLEU and chrF; 0 means none."""
    stop_metric: Literal["bleu", "chrf", "loss"] = "bleu"
    """What early stopping and `best` go by."""
    patience: int = 10
    """Validations without a better `stop_metric` after which training stops; 0 means never."""
    stop_at: float = 0.0
    """Value of `stop_metric` at which training stops, such as 36 BLEU; 0 means none."""
    checkpoint_every: int = 1000
    """Updates between two checkpoints."""
    keep_checkpoints: int = 5
    """Newest checkpoints kept (the best one is kept as well)."""
    average: AverageOf = "last"
    """The finished model: the mean of the `last` or the `best` checkpoints (section 6.1), the `ema` (a
    moving average of the weights, validated in their place) or, with `none`, the weights themselves;
    for these two at the checkpoint that validated best."""
    average_checkpoints: int = 5
    """How many checkpoints are averaged (the paper: 5 for base, 20 for big)."""
    ema_decay: float = 0.999
    """With `ema`: what stays of the average at an update t, or (1 + t) / (10 + t) while that is less."""
    log_every: int = 50
    """Updates between two log lines."""

    def __post_init__(self) -> None:
        if not (self.max_steps or self.max_epochs or self.max_minutes):
            raise RecipeError("training needs an end: set one of max_steps, max_epochs, max_minutes")
        if self.memory:
            parse_size(self.memory)
        if self.workers < 0:
            raise RecipeError(f"workers must be at least 0 (0: one a core), got {self.workers}")
        if self.accumulate < 1 or self.checkpoint_every < 1 or self.log_every < 1:
            raise RecipeError("accumulate, checkpoint_every and log_every must be at least 1")
        if self.accumulate_final and self.accumulate_final < self.accumulate:
            raise RecipeError(
                f"accumulate_final ({self.accumulate_final}) is smaller than accumulate ({self.accumulate}): "
                f"batches only grow; raise it, or set 0 to leave it off"
            )
        if not 0.0 <= self.label_smoothing < 1.0:
            raise RecipeError(f"label_smoothing must be at least 0 and below 1, got {self.label_smoothing}")
        if self.r_drop < 0.0:
            raise RecipeError(f"r_drop must not be negative, got {self.r_drop}")
        if not 0.0 <= self.muon_momentum < 1.0:
            raise RecipeError(f"muon_momentum must be at least 0 and below 1, got {self.muon_momentum}")
        if not (self.muon_scale > 0.0 and self.adam_rate_factor > 0.0):
            raise RecipeError(
                f"muon_scale ({self.muon_scale}) and adam_rate_factor ({self.adam_rate_factor}) must be "
                f"above 0: they are factors of the learning rate"
            )
        if not 0.0 <= self.ema_decay < 1.0:
            raise RecipeError(f"ema_decay must be at least 0 and below 1, got {self.ema_decay}")
        if self.average in ("last", "best") and not 1 <= self.average_checkpoints <= self.keep_checkpoints:
            raise RecipeError(
                f"average_checkpoints ({self.average_checkpoints}) must lie between 1 and keep_checkpoints "
                f"({self.keep_checkpoints}): only kept checkpoints can be averaged"
            )
        if self.stop_at < 0:
            raise RecipeError(
                f"stop_at must be a value of {self.stop_metric}, or 0 for none; got {self.stop_at}"
            )
        if self.stop_at and self.stop_metric != "loss" and not self.validate_sentences:
            raise RecipeError(
                f"stop_at = {self.stop_at:g} waits for {self.stop_metric}, which only translating shows: "
                f"set validate_sentences, or stop_metric = 'loss'"
            )
        if self.skip_limit < 1 or self.max_rollbacks < 0 or not 0.0 < self.rollback_factor <= 1.0:
            raise RecipeError(
                f"skip_limit ({self.skip_limit}) must be at least 1, max_rollbacks ({self.max_rollbacks}) at "
                f"least 0, and rollback_factor ({self.rollback_factor}) above 0 and at most 1"
            )
        if not self.learning_rate and not self.warmup_steps:
            raise RecipeError(
                "the paper's rate, (d_model · warmup_steps)^-0.5, needs warmup_steps: set one of both"
            )
