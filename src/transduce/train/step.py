"""One update of the weights, with true maths (contract 5).

One big batch, k micro-batches or a different padding give the same gradient: the losses are
summed, and divided once by all the labels of the update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from transduce.batch.collate import Batch
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.loss import batch_loss

__all__ = ["StepResult", "accumulate_gradients", "train_step"]


@dataclass(frozen=True)
class StepResult:
    """What one update did; sums over its labels, so that results can be added up."""

    loss: float
    """Smoothed loss, summed over labels."""
    nll: float
    """Plain negative log-likelihood, summed over labels."""
    num_source_tokens: int
    num_target_tokens: int
    num_cells: int
    """Token positions computed, padding counted."""
    grad_norm: float
    """Length of the whole gradient before clipping."""
    skipped: bool
    """The gradient was not finite and the weights were left alone."""


def accumulate_gradients(
    model: Transformer, batches: Sequence[Batch], label_smoothing: float
) -> tuple[float, float]:
    """Add d (Σ loss / Σ labels) to every `.grad`; return the sums of loss and NLL."""
    num_labels = sum(batch.num_target_tokens for batch in batches)
    loss = nll = 0.0
    for batch in batches:
        sums = batch_loss(model, batch.source, batch.target, batch.labels, label_smoothing)
        (sums.loss / num_labels).backward()  # type: ignore[no-untyped-call]
        loss += sums.loss.item()
        nll += sums.nll.item()
    return loss, nll


def train_step(
    model: Transformer, optimizer: torch.optim.Optimizer, batches: Sequence[Batch], config: TrainConfig
) -> StepResult:
    """Gradients of all `batches`, clipped once, one update. A gradient that is not finite changes nothing."""
    optimizer.zero_grad(set_to_none=True)
    loss, nll = accumulate_gradients(model, batches, config.label_smoothing)
    limit = config.clip_norm or math.inf
    grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit).item()
    finite = math.isfinite(grad_norm)
    if finite:
        optimizer.step()
    return StepResult(
        loss=loss,
        nll=nll,
        num_source_tokens=sum(batch.num_source_tokens for batch in batches),
        num_target_tokens=sum(batch.num_target_tokens for batch in batches),
        num_cells=sum(batch.num_cells for batch in batches),
        grad_norm=grad_norm,
        skipped=not finite,
    )
