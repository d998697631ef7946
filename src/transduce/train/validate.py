"""How good the model is on text it does not train on.

The loss is measured here. Anything else (BLEU and chrF of real translations) comes in as a
callable, so that this room knows neither search nor scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import torch

from transduce.batch.collate import Batch
from transduce.model.transformer import Transformer
from transduce.train.loss import batch_loss

__all__ = ["Validator", "validate", "validation_loss"]

Validator = Callable[[Transformer], Mapping[str, float]]
"""Looks at a model in evaluation mode and returns named figures."""


@torch.inference_mode()
def validation_loss(model: Transformer, batches: Iterable[Batch], label_smoothing: float) -> dict[str, float]:
    """Means per label: `loss` (smoothed, comparable with training), `nll`, and `perplexity` = exp(nll)."""
    loss = nll = 0.0
    num_labels = 0
    for batch in batches:
        sums = batch_loss(model, batch.source, batch.target, batch.labels, label_smoothing)
        loss += sums.loss.item()
        nll += sums.nll.item()
        num_labels += batch.num_target_tokens
    return {
        "loss": loss / num_labels,
        "nll": nll / num_labels,
        "perplexity": math.exp(min(nll / num_labels, 100.0)),
    }


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
