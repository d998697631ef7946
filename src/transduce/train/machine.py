"""The machine under a run: what it is, how fast it multiplies, how much energy it takes.

Nothing here touches a run's weights: torch's random generators are not drawn from.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from transduce.processor import processor_name
from transduce.train.parallel import Workers

__all__ = ["EnergyMeter", "machine_name", "matmul_peak", "peak_resident_bytes"]

_SHAPES = ((1024, 1024, 1024), (2048, 512, 2048), (4096, 512, 512))  # (rows, inner, columns)
_SECONDS_PER_SHAPE = 0.12


def machine_name(device: torch.device) -> str:
    """The processor with the threads in use, or the GPU: `AMD EPYC 7763, 2 threads`."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{processor_name()}, {threads} thread{'s' if threads > 1 else ''}"


def matmul_peak(device: torch.device, dtype: torch.dtype, workers: Workers) -> float:
    """FLOP/s of plain matrix products, measured: the best median among a few shapes.

    Takes half a second, with the precision and the threads that training has: all workers multiply
    at once, and their speeds are added. Other work on the machine lowers the result, as it lowers
    the speed of training.
    """

    def speed(shape: tuple[int, int, int]) -> float:
        return _matmul_speed(shape, device, dtype)

    return max(sum(workers.map(speed, [shape] * workers.num_workers)) for shape in _SHAPES)


def _matmul_speed(shape: tuple[int, int, int], device: torch.device, dtype: torch.dtype) -> float:
    rows, inner, columns = shape
    generator = torch.Generator().manual_seed(0)  # not torch's own, which dropout draws from
    left = torch.rand(rows, inner, generator=generator).to(device, dtype)
    right = torch.rand(inner, columns, generator=generator).to(device, dtype)
    out = torch.empty(rows, columns, device=device, dtype=dtype)

    def seconds() -> float:
        started = time.perf_counter()
        torch.mm(left, right, out=out)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - started

    first = seconds()  # starts threads, chooses kernels
    times, deadline = [seconds()], time.perf_counter() + _SECONDS_PER_SHAPE - first
    while time.perf_counter() < deadline:
        times.append(seconds())
    return 2 * rows * inner * columns / statistics.median(times)


def peak_resident_bytes() -> int:
    """Most memory this process ever held, in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class EnergyMeter:
    """Joules since the last look, from Linux' RAPL counters and NVIDIA's NVML where they tell.

    They count for the whole machine: other work on it is in the figure.
    """

    def __init__(self, device: torch.device, powercap: Path = Path("/sys/class/powercap")) -> None:
        """Begin to count.

        Args:
            device: where the model is; a GPU's energy counts when it is one.
            powercap: where Linux shows the counters; they are often readable by root only.
        """
        self._zones = [zone for zone in _zones(powercap) if _read(zone / "energy_uj") is not None]
        self._last = {zone: _read(zone / "energy_uj") or 0 for zone in self._zones}
        self._gpu = _gpu_counter(device) if device.type == "cuda" else None
        self._last_gpu = self._gpu() if self._gpu else 0.0

    @property
    def source(self) -> str:
        """What is counted: `processor`, `processor and GPU`, `GPU`; empty when the machine does not tell."""
        return " and ".join(["processor"] * bool(self._zones) + ["GPU"] * (self._gpu is not None))

    def joules(self) -> float:
        """Energy since the last call, or since the beginning."""
        total = 0.0
        for zone in self._zones:
            now, last = _read(zone / "energy_uj"), self._last[zone]
            if now is None:
                continue
            if now < last:  # the counter went round
                last -= _read(zone / "max_energy_range_uj") or last
            total += (now - last) / 1e6
            self._last[zone] = now
        if self._gpu is not None:
            now_gpu = self._gpu()
            total += max(0.0, now_gpu - self._last_gpu)
            self._last_gpu = now_gpu
        return total


def _zones(powercap: Path) -> list[Path]:
    """Packages, and memory beside them; a package's cores and the platform's sum would count twice."""
    zones = []
    for zone in sorted(powercap.glob("intel-rapl:*")):  # AMD's counters have the same name
        try:
            name = (zone / "name").read_text(encoding="ascii").strip()
        except OSError:
            continue
        if name.startswith("package") or name == "dram":
            zones.append(zone)
    return zones


def _read(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _gpu_counter(device: torch.device) -> Callable[[], float] | None:
    """A function that gives the GPU's joules since its driver was loaded; None where nobody tells."""
    try:
        import pynvml  # not a dependency: used where somebody installed it
    except ImportError:
        return None
    nvml: Any = pynvml
    try:
        nvml.nvmlInit()
        uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except (nvml.NVMLError, AttributeError):  # an old card, driver or torch
        return None
    return lambda: float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1e3
