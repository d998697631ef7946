"""The machine's figures: read without touching the run, honest where there is nothing to read."""

from __future__ import annotations

import sys
import types

import pytest
import torch

from transduce.train import machine
from transduce.train.machine import EnergyMeter, machine_name, matmul_peak, peak_resident_bytes
from transduce.train.parallel import Workers

CPU = torch.device("cpu")


def zone(powercap, number, name, microjoules, span=1_000_000_000):
    directory = powercap / f"intel-rapl:{number}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "name").write_text(f"{name}\n")
    (directory / "energy_uj").write_text(f"{microjoules}\n")
    (directory / "max_energy_range_uj").write_text(f"{span}\n")
    return directory


def test_packages_and_memory_are_added_up_and_nothing_twice(tmp_path):
    zones = {"0": "package-0", "0:0": "core", "0:1": "dram", "1": "package-1", "2": "psys"}
    for number, name in zones.items():
        zone(tmp_path, number, name, 5_000_000)
    meter = EnergyMeter(CPU, tmp_path)
    assert meter.source == "processor"
    assert meter.joules() == 0
    for number, name in zones.items():
        zone(tmp_path, number, name, 7_000_000)
    assert meter.joules() == pytest.approx(3 * 2.0)
    assert meter.joules() == 0


def test_a_counter_that_went_round(tmp_path):
    zone(tmp_path, "0", "package-0", 999_000_000)
    meter = EnergyMeter(CPU, tmp_path)
    zone(tmp_path, "0", "package-0", 500_000)
    assert meter.joules() == pytest.approx(1.5)
    zone(tmp_path, "0", "package-0", 1_500_000)
    assert meter.joules() == pytest.approx(1.0)


def test_a_machine_that_does_not_tell(tmp_path):
    (zone(tmp_path, "0", "package-0", 5) / "energy_uj").unlink()  # as for root only
    for powercap in (tmp_path, tmp_path / "absent"):
        meter = EnergyMeter(CPU, powercap)
        assert meter.source == ""
        assert meter.joules() == 0


def test_a_gpu_tells_through_nvml(tmp_path, monkeypatch):
    """Against a stand-in: there is no GPU where the tests run."""
    millijoules = iter([1_000, 2_000, 4_500])
    nvml = types.SimpleNamespace(
        NVMLError=RuntimeError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID={"GPU-x": "handle"}.__getitem__,
        nvmlDeviceGetTotalEnergyConsumption=lambda handle: next(millijoules),
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: types.SimpleNamespace(uuid="x"))
    zone(tmp_path, "0", "package-0", 0)
    meter = EnergyMeter(torch.device("cuda"), tmp_path)
    zone(tmp_path, "0", "package-0", 1_000_000)
    assert meter.source == "processor and GPU"
    assert meter.joules() == pytest.approx(1.0 + 2.5)


@pytest.mark.parametrize("error", [RuntimeError, AttributeError])
def test_a_gpu_whose_driver_does_not_tell(tmp_path, monkeypatch, error):
    def refuse():
        raise error

    monkeypatch.setitem(sys.modules, "pynvml", types.SimpleNamespace(NVMLError=RuntimeError, nvmlInit=refuse))
    assert EnergyMeter(torch.device("cuda"), tmp_path).source == ""


def test_the_peak_is_found_without_drawing_random_numbers(monkeypatch):
    monkeypatch.setattr(machine, "_SECONDS_PER_SHAPE", 0.01)
    before = torch.get_rng_state()
    peak = matmul_peak(CPU, torch.float32, Workers())
    assert torch.equal(torch.get_rng_state(), before)
    assert 1e8 < peak < 1e15


def test_the_peak_is_the_best_median(monkeypatch):
    """Two FLOPs a multiply-add; a slow product now and then does not count."""
    clock = {"now": 0.0}
    durations = iter([9.0, 1.0, 1.0, 50.0] + [9.0, 2.0] * 2)

    def mm(left, right, out):
        clock["now"] += next(durations)

    monkeypatch.setattr(machine, "_SHAPES", ((2, 3, 5), (7, 3, 5)))
    monkeypatch.setattr(machine, "_SECONDS_PER_SHAPE", 12.0)
    monkeypatch.setattr(machine.time, "perf_counter", lambda: clock["now"])
    monkeypatch.setattr(machine.torch, "mm", mm)
    assert matmul_peak(CPU, torch.float32, Workers()) == pytest.approx(2 * 2 * 3 * 5 / 1.0)


def test_workers_speeds_are_added(monkeypatch):
    monkeypatch.setattr(machine, "_SHAPES", ((2, 3, 5), (7, 3, 5)))
    monkeypatch.setattr(machine, "_matmul_speed", lambda shape, device, dtype: float(shape[0]))
    with Workers(3) as workers:
        assert matmul_peak(CPU, torch.float32, workers) == 3 * 7.0


@pytest.mark.parametrize(("number", "words"), [(1, "1 thread"), (2, "2 threads")])
def test_the_machine_has_a_name_and_its_threads(monkeypatch, number, words):
    monkeypatch.setattr(torch, "get_num_threads", lambda: number)
    name, _, threads = machine_name(CPU).rpartition(", ")
    assert name
    assert threads == words


def test_peak_memory_is_at_least_todays():
    from transduce.train.memory import resident_bytes

    assert peak_resident_bytes() >= 0.9 * resident_bytes()
    assert peak_resident_bytes() < 1 << 40
