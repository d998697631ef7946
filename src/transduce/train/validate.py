"""How good the model is on text it does not train on.

The loss is measured here. Anything else (BLEU and chrF of real translations) comes in as a
callable, so that this room knows neither search nor scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import torch

from transduce.batch.collate import Batch, halves
from transduce.model.transformer import Transformer
from transduce.train.loss import LossSums, batch_loss
from transduce.train.memory import is_out_of_memory

__all__ = ["Validator", "cut_batches", "validate", "validation_loss"]

Validator = Callable[[Transformer], Mapping[str, float]]
"""Looks at a model in evaluation mode and returns named figures."""


@torch.inference_mode()
def validation_loss(model: Transformer, batches: Iterable[Batch], label_smoothing: float) -> dict[str, float]:
    """Means per label: `loss` (smoothed, comparable with training), `nll`, and `perplexity` = exp(nll).

    A batch that does not fit into memory is measured in halves.
    """
    loss = nll = 0.0
    num_labels = 0
    waiting = list(batches)[::-1]
    while waiting:
        batch = waiting.pop()
        sums = _sums_if_they_fit(model, batch, label_smoothing)
        if sums is None:
            waiting += halves(batch, model.config.pad_id)[::-1]
            continue
        loss += sums.loss.item()
        nll += sums.nll.item()
        num_labels += batch.num_target_tokens
    return {
        "loss": loss / num_labels,
        "nll": nll / num_labels,
        "perplexity": math.exp(min(nll / num_labels, 100.0)),
    }


def cut_batches(batches: Iterable[Batch], part_tokens: int, pad_id: int) -> list[Batch]:
    """The batches, halved until each has at most `part_tokens` cells on its larger side, or one row."""
    pieces: list[Batch] = []
    for batch in batches:
        width = max(batch.source.shape[1], batch.target.shape[1])
        if len(batch.rows) == 1 or len(batch.rows) * width <= part_tokens:
            pieces.append(batch)
        else:
            pieces += cut_batches(halves(batch, pad_id), part_tokens, pad_id)
    return pieces


def _sums_if_they_fit(model: Transformer, batch: Batch, label_smoothing: float) -> LossSums | None:
    """None where memory does not suffice for several rows; where it does not for one, the error."""
    try:
        return batch_loss(model, batch.source, batch.target, batch.labels, label_smoothing)
    except Exception as error:
        if not is_out_of_memory(error) or len(batch.rows) == 1:
            raise
    return None


def validate(
    model: Transformer, batches: Iterable[Batch], validator: Validator | None, label_smoothing: float
) -> dict[str, float]:
    """Loss and the validator's figures, with dropout off; the training mode is put back."""
    was_training = model.training
    model.eval()
    try:
        figures = validation_loss(model, batches, label_smoothing)
        if validator is not None and math.isfinite(figures["loss"]):  # nothing can be decoded otherwise
            figures |= validator(model)
    finally:
        model.train(was_training)
    return figures
