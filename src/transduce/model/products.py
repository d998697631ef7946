"""x Wᵀ + b for inference: in the weights' own type, or with eight-bit integers.

A `Product` is made once from a weight and a bias, and then called with rows of any number.
Axes: rows, in_width, out_width.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from transduce.errors import ModelError

__all__ = ["ComputeType", "Product", "make_product"]

ComputeType = Literal["float32", "int8"]
"""What the weights are multiplied in: as they are (float32, after training), or rounded to eight bits."""

_FEW_ROWS = 32

Product: TypeAlias = Callable[[Float[Tensor, "rows in_width"]], Float[Tensor, "rows out_width"]]


def make_product(
    weight: Float[Tensor, "out_width in_width"],
    bias: Float[Tensor, " out_width"] | None,
    compute_type: ComputeType,
    *,
    relu: bool = False,
) -> Product:
    """The function x → x Wᵀ + b, or its positive part with `relu`.

    Raises:
        ModelError: `int8` on a device or with a torch that has no such products.
    """
    weight = weight.detach()
    bias = None if bias is None else bias.detach()
    return _int8(weight, bias, relu) if compute_type == "int8" else _plain(weight, bias, relu)


def _plain(weight: Tensor, bias: Tensor | None, relu: bool) -> Product:
    """The form that a CPU is fastest with, by measurement (benchmarks/LOG.md).

    For a few rows W xᵀ takes a fourth to three fourths of `F.linear`'s time. One row is none of them: as a
    vector it goes through one thread, as two equal rows through all, so that twice the work takes half the
    time (but where it narrows). For many rows all forms are the same.
    """
    if weight.device.type != "cpu":
        return lambda x: _positive(F.linear(x, weight, bias), relu)
    narrows = weight.shape[1] > weight.shape[0]
    column = None if bias is None else bias.unsqueeze(1)

    def product(x: Tensor) -> Tensor:
        rows = len(x)
        if rows > _FEW_ROWS or (rows == 1 and narrows):
            return _positive(F.linear(x, weight, bias), relu)
        few = x.repeat(2, 1) if rows == 1 else x
        out = torch.mm(weight, few.t()) if column is None else torch.addmm(column, weight, few.t())
        return _positive(out.t()[:rows].contiguous(), relu)

    return product


def _positive(x: Tensor, relu: bool) -> Tensor:
    return x.relu_() if relu else x


def _int8(weight: Tensor, bias: Tensor | None, relu: bool) -> Product:
    """Rows of W scaled to ±127, x to its range at each call (dynamic quantization); the sums are exact.

    Without VNNI the kernel adds pairs in 16 bits, which hold the products of seven-bit inputs only.
    """
    if weight.device.type != "cpu":
        raise ModelError(f"int8 runs on a CPU, but the model is on {weight.device}: choose float32")
    try:
        scale = (weight.abs().amax(1).double() / 127).clamp(min=1e-12)
        rounded = _rounded(weight.float(), scale)
        packed = torch.ops.quantized.linear_prepack(rounded, None if bias is None else bias.float())
        name = "linear_relu_dynamic" if relu else "linear_dynamic"
        kernel = getattr(torch.ops.quantized, name).default
        kernel = getattr(kernel, "_op", kernel)  # without a check in Python that costs a fifth of a call
    except (AttributeError, NotImplementedError, RuntimeError) as error:
        raise ModelError(f"this torch ({torch.__version__}) has no int8 products: {error}") from error
    narrow = not _has_vnni()
    return lambda x: kernel(x, packed, narrow)


def _rounded(weight: Tensor, scale: Tensor) -> Tensor:
    """The weight in eight bits a number.

    torch 2.13 announces that such tensors will go. A torch without them has no int8 here; what comes in
    their place runs on oneDNN, whose kernel took 1.5 to 1.8 times as long for one row.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.quantize_per_tensor", category=UserWarning)
        zero = torch.zeros(len(weight), dtype=torch.long)
        return torch.quantize_per_channel(weight, scale, zero, 0, torch.qint8)


def _has_vnni() -> bool:
    """Whether the processor adds products of bytes in 32 bits."""
    try:
        capabilities = torch.cpu.get_capabilities()
    except (AttributeError, RuntimeError):  # older torch
        return False
    return bool(capabilities.get("avx512_vnni") or capabilities.get("avx_vnni"))
