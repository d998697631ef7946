"""R-Drop: two passes with different dropout must agree (Liang et al. 2021, arXiv 2106.14448).

Each label position has the logits a of the first pass and b of the second; p and q are their softmax.

    loss = ½ · (CE(p) + CE(q)) + α/4 · (KL(p‖q) + KL(q‖p)),   CE the label-smoothed cross-entropy

This is half of the paper's CE(p) + CE(q) + α · ½ · (KL(p‖q) + KL(q‖p)), which its fairseq code divides
by the labels of one pass: the same α therefore means the same here (the paper: 5 for IWSLT and WMT
translation), and the loss of two equal passes is the plain loss. Sums over the label positions are
returned, each position counted once; NLL is the mean of both passes.

With u = a - b, both divergences together are E_p[u] - E_q[u], and their gradients

    d / da = p · (u - E_p[u]) + p - q        d / db = q · (E_q[u] - u) + q - p

As in `loss.py` the logits are made, used for loss and gradient, and forgotten, a chunk at a time.
Axes: rows (label positions of the first pass, then the same of the second), pairs (of rows), d_model, vocab.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.model.projection import multiply
from transduce.train.chunked import add_product, in_type_of, logits_into, scaled_gradients

__all__ = ["r_drop_sums"]


def r_drop_sums(
    states: Float[Tensor, "rows d_model"],
    weight: Float[Tensor, "vocab d_model"],
    bias: Float[Tensor, " vocab"] | None,
    labels: Int[Tensor, " pairs"],
    label_smoothing: float,
    alpha: float,
    chunk_cells: int,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sums of the loss above, which carries the gradient, and of the NLL.

    Args:
        states: row i and row i + pairs predict the same label.
        weight: of the output projection.
        bias: of the output projection.
        labels: of either pass.
        label_smoothing: of CE.
        alpha: α.
        chunk_cells: logits of both passes that are held at once.
    """
    chunk = max(1, chunk_cells // (2 * len(weight)))
    loss, nll = _ChunkedRDrop.apply(states, weight, bias, labels, label_smoothing, alpha, chunk)  # type: ignore[no-untyped-call]
    return loss, nll


class _ChunkedRDrop(torch.autograd.Function):
    """Forms the gradients on the way forward, while a chunk's logits are there."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        alpha: float,
        chunk: int,
    ) -> tuple[Tensor, Tensor]:
        """Sums of loss and NLL; keeps d loss / d (states, weight, bias)."""
        passes = states.view(2, len(labels), -1)  # (2, pairs, d_model)
        grad_passes = torch.empty_like(passes)
        grad_weight = torch.zeros_like(weight)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        wanted = any(ctx.needs_input_grad[:3])
        loss = states.new_zeros((), dtype=torch.float64)
        nll = states.new_zeros((), dtype=torch.float64)
        used_weight, used_bias = in_type_of(states, weight, bias)
        exact = torch.promote_types(states.dtype, torch.float32)
        room = states.new_empty((2 * min(chunk, len(labels)), len(weight)), dtype=exact)
        for start in range(0, len(labels), chunk):
            rows = passes[:, start : start + chunk].flatten(0, 1)  # (2 · chunk, d_model)
            label = labels[start : start + chunk].repeat(2)[:, None]
            logits = logits_into(room, rows, used_weight, used_bias)
            logits.sub_(logits.amax(1, keepdim=True))  # the shift changes neither loss nor gradient
            picked, mean = logits.gather(1, label)[:, 0], logits.mean(1)
            probs = logits.exp()
            norm = probs.sum(1, keepdim=True)
            probs.div_(norm)
            log_norm = norm.log()[:, 0]
            nll += 0.5 * (log_norm - picked).sum(dtype=torch.float64)
            loss += 0.5 * (log_norm - (1 - smoothing) * picked - smoothing * mean).sum(dtype=torch.float64)
            gap_means = _gap(logits, probs)
            loss += 0.25 * alpha * (gap_means[0] - gap_means[1]).sum(dtype=torch.float64)
            if wanted:
                _to_gradient(logits, probs, gap_means, alpha)
                logits.sub_(0.5 * smoothing / len(weight))
                logits.scatter_add_(1, label, logits.new_full(label.shape, 0.5 * (smoothing - 1)))
                grad_logits = logits.to(states.dtype)
                grad_rows = multiply(grad_logits, used_weight.t())
                grad_passes[:, start : start + chunk] = grad_rows.view(2, -1, weight.shape[1])
                add_product(grad_weight, grad_logits.t(), rows)
                if grad_bias is not None:
                    grad_bias += logits.sum(0)
        if wanted:
            ctx.save_for_backward(grad_passes.flatten(0, 1), grad_weight, grad_bias)
        total_loss, total_nll = loss.to(exact), nll.to(exact)
        ctx.mark_non_differentiable(total_nll)
        return total_loss, total_nll

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        """Scale what forward kept."""
        return *scaled_gradients(ctx, grads[0]), None, None, None, None


def _gap(logits: Tensor, probs: Tensor) -> Tensor:
    """Put u = a - b in the place of b; return E_p[u] and E_q[u], one row each."""
    first, second = logits.chunk(2)
    torch.sub(first, second, out=second)
    return torch.einsum("pnv,nv->pn", probs.view(2, *second.shape), second)


def _to_gradient(logits: Tensor, probs: Tensor, gap_means: Tensor, alpha: float) -> None:
    """½ · softmax, of CE, and α/4 · the gradients above, written over `logits`, which held a and u."""
    share = 0.25 * alpha
    (first, gap), (p, q) = logits.chunk(2), probs.chunk(2)
    torch.add((0.5 + share - share * gap_means[0])[:, None], gap, alpha=share, out=first)
    first.mul_(p).sub_(q, alpha=share)
    torch.add((0.5 + share + share * gap_means[1])[:, None], gap, alpha=-share, out=gap)
    gap.mul_(q).sub_(p, alpha=share)
