"""A run's bill, kept in its `RunState`: arithmetic, time, energy, memory, and on which machines.

Nothing here decides an update: a run with other costs has the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from transduce.batch.collate import Batch
from transduce.model.transformer import Transformer
from transduce.train.checkpoint import RunState
from transduce.train.config import Precision, TrainConfig
from transduce.train.flops import training_flops, work_of
from transduce.train.machine import EnergyMeter, machine_name, matmul_peak, peak_resident_bytes
from transduce.train.memory import resident_bytes
from transduce.train.parallel import Workers

__all__ = ["Costs"]

_PEAK_AFTER = 60.0  # seconds of updates: then half a second for measuring the peak is under a per cent
_MEASURE_AT_MOST = 5  # times in a process, should training be faster than the measured peak


class Costs:
    """Counts what this process spends on a run.

    The machine's peak is measured between two updates, when a process has trained for a minute:
    short runs are spared it, and what it shares the machine with by then is at work. Where training
    proves faster than that, something disturbed the measuring: it is done again, and the best counts.
    """

    def __init__(self, model: Transformer, config: TrainConfig, pad_id: int) -> None:
        """Nothing is counted before `begin`.

        Args:
            model: tells sizes, device and number format.
            config: tells how often an update runs a batch.
            pad_id: fills up short rows.
        """
        self._model, self._pad_id = model, pad_id
        self._num_passes = 2 if config.r_drop else 1
        self._device = model.source_embedding.weight.device
        self._seconds = 0.0
        self._measured = 0

    def begin(self, state: RunState, precision: Precision, workers: Workers) -> None:
        """The run starts, or goes on, on this machine, with matrix products in `precision`, by `workers`."""
        self._workers = workers
        self._dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        machine = f"{machine_name(self._device)}, {precision}"
        if state.machines[-1:] != [machine]:
            state.machines.append(machine)
            state.peak_flops = 0.0
        self._meter = EnergyMeter(self._device)
        state.energy_source = self._meter.source or state.energy_source

    def count(self, state: RunState, batches: Sequence[Batch], seconds: float) -> None:
        """One update."""
        work = work_of(batches, self._pad_id)
        flops = self._num_passes * training_flops(self._model.config, work)
        state.flops += flops
        state.window.flops += flops
        state.update_seconds += seconds
        self._seconds += seconds

    def look(self, state: RunState) -> None:
        """Read the meters; before every save, so that a continued run adds up."""
        state.energy_joules += self._meter.joules()
        state.peak_memory_mb = max(state.peak_memory_mb, round(peak_resident_bytes() / 2**20))

    def figures(self, state: RunState) -> dict[str, float | str]:
        """For the training event; speeds are means over the window."""
        self.look(state)
        speed = state.window.flops / state.window.seconds
        self._find_peak(state, speed)
        figures: dict[str, float | str] = {"flops": state.flops, "memory_mb": round(resident_bytes() / 2**20)}
        if state.peak_flops:
            figures["mfu"] = speed / state.peak_flops
        if self._device.type == "cuda":
            figures["gpu_memory_mb"] = round(torch.cuda.max_memory_allocated(self._device) / 2**20)
        if state.energy_source:
            figures["energy_joules"] = round(state.energy_joules, 1)
        return figures

    def _find_peak(self, state: RunState, speed: float) -> None:
        """Measure the machine's peak when it is time, and again while training at `speed` FLOP/s beats it."""
        if not self._measured:
            if self._seconds < _PEAK_AFTER:
                return
            state.peak_flops = 0.0  # an earlier process's: the machine may have other company now
        while speed > state.peak_flops and self._measured < _MEASURE_AT_MOST:
            measured = matmul_peak(self._device, self._dtype, self._workers)
            state.peak_flops = max(state.peak_flops, measured)
            self._measured += 1
        if state.peak_flops:
            state.peak_flops = max(state.peak_flops, speed)
