"""One update of the weights, with true maths (contract 5).

One big batch, k micro-batches or a different padding give the same gradient: the losses are
summed, and divided once by all the labels of the update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transduce.batch.collate import Batch
from transduce.model.dropout import dropout_from
from transduce.model.transformer import Transformer
from transduce.train.config import Precision, TrainConfig
from transduce.train.loss import batch_loss
from transduce.train.memory import is_out_of_memory
from transduce.train.parallel import Workers
from transduce.train.parts import PartsTooLargeError
from transduce.train.precision import autocast

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
    """The loss or the gradient was not finite and the weights were left alone."""


def accumulate_gradients(
    model: Transformer,
    batches: Sequence[Batch],
    label_smoothing: float,
    r_drop: float = 0.0,
    *,
    draw: Sequence[int] = (0,),
    precision: Precision = "float32",
    workers: Workers | None = None,
) -> tuple[float, float]:
    """Set every `.grad` to d (Σ loss / Σ labels); return the sums of loss and NLL.

    Args:
        model: in training mode.
        batches: parts of one update.
        label_smoothing: ε.
        r_drop: α of R-Drop; 0 is off.
        draw: numbers that decide this update's dropout, together with a part's place.
        precision: of matrix products.
        workers: who computes the parts; without them, the calling thread.
    """
    num_labels = sum(batch.num_target_tokens for batch in batches)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def part(place_and_batch: tuple[int, Batch]) -> tuple[tuple[Tensor, ...], float, float]:
        place, batch = place_and_batch
        with dropout_from(_generator(*draw, place)), autocast(batch.source.device, precision):
            sums = batch_loss(model, batch.source, batch.target, batch.labels, label_smoothing, r_drop)
        # Not .backward(): the threads would add to one .grad in the order in which they happen to end.
        grads = torch.autograd.grad(sums.loss / num_labels, parameters)
        return grads, sums.loss.item(), sums.nll.item()

    loss = nll = 0.0
    total: tuple[Tensor, ...] | None = None
    for grads, part_loss, part_nll in (workers or Workers()).map(part, enumerate(batches)):
        if total is None:
            total = grads
        else:
            torch._foreach_add_(total, grads)
        loss += part_loss
        nll += part_nll
    assert total is not None, "an update needs at least one batch"
    for parameter, grad in zip(parameters, total, strict=True):
        parameter.grad = grad
    return loss, nll


def train_step(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Batch],
    config: TrainConfig,
    *,
    step: int,
    precision: Precision = "float32",
    workers: Workers | None = None,
) -> StepResult:
    """Gradients of all `batches`, clipped once, one update. A loss or gradient not finite changes nothing.

    Args:
        model: in training mode.
        optimizer: over its parameters.
        batches: parts of one update, of any sizes.
        config: smoothing, clipping and the seed of dropout.
        step: number of this update; with the seed and a batch's place it decides what is dropped.
        precision: of matrix products; `config`'s, but for `auto`.
        workers: who computes the batches; without them, the calling thread.

    Raises:
        PartsTooLargeError: the gradients did not fit into memory; nothing was changed.
    """
    sums = None
    try:
        sums = accumulate_gradients(
            model,
            batches,
            config.label_smoothing,
            config.r_drop,
            draw=(config.seed, step),
            precision=precision,
            workers=workers,
        )
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    if sums is None:  # raised out here, where the failed pass and its tensors are gone
        optimizer.zero_grad(set_to_none=True)
        raise PartsTooLargeError
    loss, nll = sums
    limit = config.clip_norm or math.inf
    grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit).item()
    finite = math.isfinite(loss) and math.isfinite(grad_norm)
    if finite:
        with autocast(batches[0].source.device, precision):  # Muon multiplies matrices too
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


def _generator(*numbers: int) -> torch.Generator:
    """Random numbers that depend on nothing but `numbers` (torch alone would use 32 bits of a seed)."""
    return torch.Generator().manual_seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))
