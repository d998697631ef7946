"""How many threads are worth starting, from files as Linux shows them."""

from __future__ import annotations

import os

import pytest

from transduce.translate.threads import available_threads

CPUINFO = "".join(
    f"processor\t: {i}\nphysical id\t: {i // 8}\ncore id\t\t: {i % 4}\nmodel name\t: x\n\n" for i in range(16)
)


@pytest.fixture(autouse=True)
def _sixteen_processors(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


@pytest.mark.parametrize(
    ("share", "threads"), [("max 100000", 8), ("300000 100000", 3), ("150000 100000", 2), ("broken", 8)]
)
def test_physical_cores_within_the_containers_share(tmp_path, share, threads):
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    (tmp_path / "cpu.max").write_text(share + "\n")
    assert available_threads(tmp_path / "cpuinfo", tmp_path / "cpu.max") == threads


def test_the_processes_own_processors_count(tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 4, 1}, raising=False)  # 0 and 4: one core
    assert available_threads(tmp_path / "cpuinfo", tmp_path / "none") == 2


def test_without_files_every_processor_counts(tmp_path):
    assert available_threads(tmp_path / "none", tmp_path / "none") == 16


@pytest.mark.parametrize(("wish", "threads"), [("3", 3), ("2,1", 2), ("0", 16), ("many", 16)])
def test_a_persons_wish_wins(tmp_path, monkeypatch, wish, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", wish)
    assert available_threads(tmp_path / "none", tmp_path / "none") == threads
