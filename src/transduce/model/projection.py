"""x Wᵀ + b in training, by the fastest product that the processor has.

torch multiplies float32 matrices on a CPU by MKL, which on processors that Intel did not make leaves the
wide units (AVX-512) unused. oneDNN, which torch brings along as well, uses them: x Wᵀ + b and the gradient
of x take a tenth less time there; the gradient of W does not (benchmarks/LOG.md). Without AVX-512 both are
as fast, and everything stays torch's own.

The mathematics is `nn.Linear`'s; sums are added in another order, so results differ by rounding.
Axes: rows (any number of axes), in_width, out_width.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

__all__ = ["multiply", "plain_products", "project"]


def _find_kernel() -> Any:
    """The product of oneDNN where it is the faster one; else None."""
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    if wide and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return getattr(torch.ops.mkldnn, "_linear_pointwise", None)  # a torch may come without it
    return None


_kernel = _find_kernel()


@contextmanager
def plain_products() -> Iterator[None]:
    """Everything by torch's own products, in all threads: to compare with, and to measure."""
    global _kernel
    found, _kernel = _kernel, None
    try:
        yield
    finally:
        _kernel = found


def project(
    linear: nn.Linear, x: Float[Tensor, "*rows in_width"], *, relu: bool = False
) -> Float[Tensor, "*rows out_width"]:
    """What `linear(x)` is, or its positive part with `relu`; in training possibly by another product."""
    weight = linear.weight
    if linear.training and torch.is_grad_enabled() and _applies(x, weight):
        out: Tensor = _Projection.apply(x, weight, linear.bias, relu)  # type: ignore[no-untyped-call]
        return out
    plain: Tensor = linear(x)
    return F.relu(plain) if relu else plain


def multiply(
    x: Float[Tensor, "*rows in_width"],
    weight: Float[Tensor, "out_width in_width"],
    bias: Float[Tensor, " out_width"] | None = None,
    *,
    relu: bool = False,
) -> Float[Tensor, "*rows out_width"]:
    """Just x · weightᵀ + bias, or its positive part; no way back. `weight` may be a transposed view."""
    if _applies(x, weight):
        out: Tensor = _kernel(x, weight, bias, "relu" if relu else "none", [], "")
        return out
    plain = F.linear(x, weight, bias)
    return plain.relu_() if relu else plain


def _applies(x: Tensor, weight: Tensor) -> bool:
    return (
        _kernel is not None
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and x.numel() > 0
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


class _Projection(torch.autograd.Function):
    """ReLU(x Wᵀ + b), or without ReLU, and its gradients, each by the product that is faster for it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
        """Keeps x and W, and what came out if ReLU cut it."""
        out = multiply(x, weight, bias, relu=relu)
        ctx.save_for_backward(x, weight, out if relu else None)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        """Of x: grad · W. Of W: gradᵀ · x. Of b: grad summed over rows."""
        x, weight, positive = ctx.saved_tensors
        wants_x, wants_weight, wants_bias, _ = ctx.needs_input_grad
        if positive is not None:
            grad = torch.ops.aten.threshold_backward(grad, positive, 0)
        rows = grad.flatten(0, -2)  # (rows, out_width)
        return (
            multiply(grad, weight.t()) if wants_x else None,
            rows.t() @ x.flatten(0, -2) if wants_weight else None,
            rows.sum(0) if wants_bias else None,
            None,
        )
