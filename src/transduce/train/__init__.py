"""Batches to weights: loss, schedule, optimiser, the loop, checkpoints, the log.

Knows: models, batches, callables that validate. Does not know: text, search, BLEU, HTTP.
"""

from transduce.train.checkpoint import average_checkpoints, list_checkpoints
from transduce.train.config import TrainConfig
from transduce.train.log import Display, RunLog, format_seconds, make_display
from transduce.train.loop import Outcome, Trainer
from transduce.train.loss import batch_loss, smoothed_loss
from transduce.train.memory import keep_freed_memory
from transduce.train.schedule import learning_rate
from transduce.train.step import accumulate_gradients, train_step
from transduce.train.validate import Validator

__all__ = [
    "Display",
    "Outcome",
    "RunLog",
    "TrainConfig",
    "Trainer",
    "Validator",
    "accumulate_gradients",
    "average_checkpoints",
    "batch_loss",
    "format_seconds",
    "keep_freed_memory",
    "learning_rate",
    "list_checkpoints",
    "make_display",
    "smoothed_loss",
    "train_step",
]
