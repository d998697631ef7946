"""In which numbers a model is trained: float32, or matrix products in bfloat16.

With bfloat16 the weights, the optimizer's state, softmax, norms, residual sums and the loss stay
float32; only the linear layers, and Muon, multiply in it (automatic mixed precision). A CPU with
units for it halves their time; one without imitates them, ten times slower than float32: so it is
measured, not guessed.
"""

from __future__ import annotations

import statistics
import time

import torch

from transduce.train.config import Precision

__all__ = ["autocast", "choose_precision", "half_precision_gain"]

_LEAST_GAIN = 1.3  # below it the casts eat what the products win
_ROWS, _COLUMNS = 1024, 512  # of the measured product: a slow CPU needs a tenth of a second for it
_ROUNDS = 5


def choose_precision(wanted: Precision, device: torch.device) -> Precision:
    """`auto` becomes `bfloat16` where its matrix products are at least 1.3 times as fast, else `float32`."""
    if wanted != "auto":
        return wanted
    return "bfloat16" if half_precision_gain(device) >= _LEAST_GAIN else "float32"


def half_precision_gain(device: torch.device) -> float:
    """How many times as fast as in float32 matrix products are in bfloat16 on `device`."""
    full, half = (_product_seconds(device, dtype) for dtype in (torch.float32, torch.bfloat16))
    return full / half


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """What a forward pass and an optimizer run in. Without torch's cache: threads would share it."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16", cache_enabled=False)


def _product_seconds(device: torch.device, dtype: torch.dtype) -> float:
    """Median time of one product; no random numbers are drawn, which would change a run."""
    left = torch.ones(_ROWS, _COLUMNS, dtype=dtype, device=device)
    right = torch.ones(_COLUMNS, _COLUMNS, dtype=dtype, device=device)
    seconds = []
    for _ in range(_ROUNDS + 1):  # the first warms up
        started = time.perf_counter()
        (left @ right)[0, 0].item()  # waits for the device
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])
