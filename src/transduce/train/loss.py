"""Label-smoothed cross-entropy without the full logits (paper, section 5.4).

    loss = (1 - ε) · NLL + ε · mean over classes of -log p,   NLL = -log p(label)

The mean runs over all `vocab` classes, the padding class among them (as in torch's cross_entropy;
fairseq divides by vocab - 1). Padding *positions* count nowhere. Sums are returned, not means:
whoever adds up micro-batches or ranks divides once, by the number of labels (TRAPS 17).
Perplexity is exp(NLL / labels), from the plain NLL.

The logits of all positions would be the largest tensor of the step. They are made, used for loss
and gradient, and forgotten, a chunk of rows at a time.
Axes: tokens (label positions of the batch), d_model, vocab.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.model.projection import multiply
from transduce.model.transformer import Transformer
from transduce.train.chunked import add_product, in_type_of, logits_into, scaled_gradients
from transduce.train.r_drop import r_drop_sums

__all__ = ["LossSums", "batch_loss", "smoothed_loss"]

_CHUNK_CELLS = 1 << 22  # logits held at once: 16 MiB in fp32, about the size of a shared cache
_BLOCK_CELLS = 1 << 18  # of these, worked on at once: 1 MiB in fp32, about the size of a core's own cache


@dataclass(frozen=True)
class LossSums:
    """Sums over the labels of one batch; `loss` carries the gradient."""

    loss: Float[Tensor, ""]
    nll: Float[Tensor, ""]


def batch_loss(
    model: Transformer,
    source: Int[Tensor, "batch src_len"],
    target: Int[Tensor, "batch tgt_len"],
    labels: Int[Tensor, "batch tgt_len"],
    label_smoothing: float,
    r_drop: float = 0.0,
) -> LossSums:
    """Run the model with teacher forcing and sum the loss over the real labels.

    Args:
        model: training or evaluating.
        source: padded source ids.
        target: decoder input, one place behind the labels.
        labels: ids to predict; the model's pad_id counts nowhere.
        label_smoothing: ε.
        r_drop: α of `r_drop.py`; above 0 the model runs every row twice, with dropout of its own.
    """
    if r_drop:
        source, target = source.repeat(2, 1), target.repeat(2, 1)
    states = model.decode(target, model.encode(source)).flatten(0, 1)  # (batch · tgt_len, d_model)
    real = (labels != model.config.pad_id).flatten().nonzero()[:, 0]  # (tokens,)
    real_labels = labels.flatten()[real]
    weight, bias = model.output.weight, model.output.bias
    chosen = torch.cat([real, real + labels.numel()]) if r_drop else real
    states = states.index_select(0, chosen)  # (tokens, d_model), or twice as many rows
    device = states.device.type
    if torch.is_autocast_enabled(device):
        states = states.to(torch.get_autocast_dtype(device))
    with torch.autocast(device, enabled=False):  # which sums are float32 is said below, line by line
        if r_drop:
            sums = r_drop_sums(states, weight, bias, real_labels, label_smoothing, r_drop, _CHUNK_CELLS)
            return LossSums(*sums)
        return smoothed_loss(states, weight, bias, real_labels, label_smoothing)


def smoothed_loss(
    states: Float[Tensor, "tokens d_model"],
    weight: Float[Tensor, "vocab d_model"],
    bias: Float[Tensor, " vocab"] | None,
    labels: Int[Tensor, " tokens"],
    label_smoothing: float,
    chunk_cells: int = _CHUNK_CELLS,
) -> LossSums:
    """The formula above, logits = states · weightᵀ + bias, in chunks of chunk_cells / vocab rows."""
    chunk = max(1, chunk_cells // len(weight))
    loss, nll = _ChunkedLoss.apply(states, weight, bias, labels, label_smoothing, chunk)  # type: ignore[no-untyped-call]
    return LossSums(loss, nll)


class _ChunkedLoss(torch.autograd.Function):
    """Forms the gradients on the way forward, while a chunk's logits are there."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        chunk: int,
    ) -> tuple[Tensor, Tensor]:
        """Sums of loss and NLL; keeps d loss / d (states, weight, bias)."""
        grads = None
        if any(ctx.needs_input_grad[:3]):
            grad_bias = None if bias is None else torch.zeros_like(bias)
            grads = (torch.empty_like(states), torch.zeros_like(weight), grad_bias)
        used_weight, used_bias = in_type_of(states, weight, bias)
        exact = torch.promote_types(states.dtype, torch.float32)
        picked, log_norm = states.new_empty((2, len(states)), dtype=exact)  # (tokens,) each
        room = states.new_empty((min(chunk, len(states)), len(weight)))
        for start in range(0, len(states), chunk):
            rows = slice(start, start + chunk)
            logits = logits_into(room, states[rows], used_weight, used_bias)
            picked[rows] = logits.gather(1, labels[rows, None])[:, 0]
            _to_gradient(logits, labels[rows], smoothing, log_norm[rows])
            if grads is not None:
                _add_gradients(logits, states[rows], used_weight, grads, rows)
        if grads is not None:
            ctx.save_for_backward(*grads)
        nll = (log_norm - picked).sum(dtype=torch.float64)
        # mean over classes of -log p is log_norm - mean of the logits
        mean = states.to(exact) @ weight.to(exact).mean(0) + (0.0 if bias is None else bias.mean())
        loss = nll + smoothing * (picked - mean).sum(dtype=torch.float64)
        total_loss, total_nll = loss.float(), nll.float()
        ctx.mark_non_differentiable(total_nll)
        return total_loss, total_nll

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        """Scale what forward kept."""
        return *scaled_gradients(ctx, grads[0]), None, None, None


def _to_gradient(logits: Tensor, labels: Tensor, smoothing: float, log_norm: Tensor) -> None:
    """Write d loss / d logits = probs - (1 - ε) · onehot - ε / vocab over `logits`; fill in `log_norm`.

    A few rows at a time, so that they come from memory once and stay in the core's own cache for all that is
    done with them. A GPU takes all at once.
    """
    exact = log_norm.dtype
    block = max(1, _BLOCK_CELLS // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
    for start in range(0, len(logits), block):
        rows = slice(start, start + block)
        cells = logits[rows].to(exact)  # the logits themselves, unless they are of half precision
        highest = cells.amax(1)
        torch.softmax(cells, 1, out=cells)
        log_norm[rows] = highest - cells.amax(1).log()  # the largest is never 0; the label's may be
        cells.sub_(smoothing / logits.shape[1])
        label = labels[rows, None]
        cells.scatter_add_(1, label, cells.new_full(label.shape, smoothing - 1))
        if cells.dtype != logits.dtype:
            logits[rows] = cells


def _add_gradients(
    grad_logits: Tensor,
    states: Tensor,
    weight: Tensor,
    grads: tuple[Tensor, Tensor, Tensor | None],
    rows: slice,
) -> None:
    """What a chunk's d loss / d logits means for its states, and adds to weight and bias."""
    grad_states, grad_weight, grad_bias = grads
    grad_states[rows] = multiply(grad_logits, weight.t())
    add_product(grad_weight, grad_logits.t(), states)
    if grad_bias is not None:
        grad_bias += grad_logits.sum(0, dtype=grad_bias.dtype)
