"""How fast this machine multiplies fp32 matrices: the ceiling that throughput is compared with.

    python benchmarks/train/sgemm.py

Prints two figures in GFLOP/s as a JSON line, each the best shape's median:

    shared   one product at a time, on all threads (what PyTorch does; the ceiling of `sgemm_share`)
    split    one product a thread, side by side (what workers with a thread each do)
"""

from __future__ import annotations

import json
import os
import statistics
import threading
import time

import torch

__all__ = ["NUM_THREADS", "sgemm_gflops"]

NUM_THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))
# (rows, in, out) of products that training does, those that were fastest in a first study.
_SHAPES = ((4096, 512, 512), (4096, 2048, 512), (4096, 512, 2048), (2048, 1024, 1024))
_SECONDS = 1.0  # a shape


def _median_gflops(rows: int, width: int, out: int, seconds: float) -> float:
    """One shape, again and again for `seconds`, in memory that is there already."""
    a, b, result = torch.randn(rows, width), torch.randn(width, out), torch.empty(rows, out)
    for _ in range(3):
        torch.mm(a, b, out=result)
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        torch.mm(a, b, out=result)
        times.append(time.perf_counter() - started)
    return 2 * rows * width * out / statistics.median(times) / 1e9


def _split_gflops(rows: int, width: int, out: int, seconds: float) -> float:
    """The same shape on every thread at once; the sum of their medians."""
    rates: list[float] = []

    def work() -> None:
        torch.set_num_threads(1)
        rates.append(_median_gflops(rows, width, out, seconds))

    threads = [threading.Thread(target=work) for _ in range(NUM_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


def sgemm_gflops(seconds: float = _SECONDS) -> dict[str, float]:
    """Both figures; `seconds` for each shape."""
    torch.set_num_threads(NUM_THREADS)
    shared = max(_median_gflops(*shape, seconds) for shape in _SHAPES)
    split = max(_split_gflops(*shape, seconds) for shape in _SHAPES)
    return {"shared": round(shared, 1), "split": round(split, 1)}


if __name__ == "__main__":
    print(json.dumps(sgemm_gflops()))
