"""Sizes in words, free memory of machines and control groups, and what work takes at most."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from transduce.errors import RecipeError
from transduce.train.config import TrainConfig
from transduce.train.memory import (
    format_bytes,
    free_bytes,
    is_out_of_memory,
    parse_size,
    peak_bytes_of,
    resident_bytes,
)

GIB = 2**30


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GB", 8 * 10**9),
        ("500 mb", 5 * 10**8),
        ("2GiB", 2 * GIB),
        ("1.5g", 15 * 10**8),
        ("3000000", 3_000_000),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "lots", "-3GB", "3 GB free", "3iB", "GB"])
def test_what_is_no_size_is_told(text):
    with pytest.raises(RecipeError, match=r"such as 8GB, 500MB or 2GiB; got"):
        parse_size(text)


def test_a_forgotten_unit_is_told_before_anything_is_read():
    with pytest.raises(RecipeError, match="at least 1MB, got '8': was the unit, such as GB, forgotten"):
        TrainConfig(memory="8")


def test_sizes_in_words():
    assert [format_bytes(n) for n in (3_040_000_000, 512_300_000)] == ["3.0 GB", "512 MB"]


def machine(root, available=16 * GIB, groups="", **files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable:  {available // 1024} kB\n")
    (root / "proc/self/cgroup").write_text(groups)
    for name, content in files.items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(content))
    return free_bytes(root)


def test_a_machine_without_groups(tmp_path):
    assert machine(tmp_path / "a") == 16 * GIB
    assert free_bytes(tmp_path / "nothing") is None


def test_version_2_groups_and_those_above_them_limit(tmp_path):
    files = {
        "a/b/memory.max": "max\n",
        "a/b/memory.current": GIB,
        "a/memory.max": 4 * GIB,
        "a/memory.current": 3 * GIB,
        "a/memory.stat": f"anon 1\nfile 9\ninactive_file {GIB}\n",
    }
    assert machine(tmp_path, groups="0::/a/b\n", **files) == 2 * GIB


def test_version_1_groups_limit(tmp_path):
    files = {
        "memory/a/memory.limit_in_bytes": 3 * GIB,
        "memory/a/memory.usage_in_bytes": GIB,
        "memory/a/memory.stat": "cache 7\ntotal_inactive_file 1024\n",
        "memory/memory.limit_in_bytes": 2**63 - 4096,
        "memory/memory.usage_in_bytes": 5 * GIB,
    }
    groups = "9:name=systemd:/\n4:cpu,memory:/a\n"
    assert machine(tmp_path, groups=groups, **files) == 2 * GIB + 1024


def test_in_a_container_the_group_that_can_be_seen_counts(tmp_path):
    """The path is the host's; only the container's own root is there."""
    files = {"memory.max": 2 * GIB, "memory.current": 3 * GIB}
    assert machine(tmp_path, groups="0::/docker/0123\n", **files) == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_peak_of_work_is_seen_though_it_is_freed():
    def work(mebibytes):
        return lambda: np.ones(mebibytes << 17).sum()

    large, small = peak_bytes_of(work(64)), peak_bytes_of(work(16))
    assert 60 << 20 < large < 100 << 20
    assert 14 << 20 < small < 40 << 20, "what an earlier piece of work took does not count"
    assert resident_bytes() > 0


def test_what_running_out_of_memory_looks_like():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("shapes do not match"))
    assert not is_out_of_memory(ValueError("not enough memory"))
