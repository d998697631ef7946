"""How many threads are worth starting here: physical cores that this process may use.

Does not know: torch, CTranslate2.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

__all__ = ["available_threads", "idle_threads"]

_CPUINFO = Path("/proc/cpuinfo")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # cgroup v2: "max 100000" or "150000 100000"


def available_threads(cpuinfo: Path = _CPUINFO, quota: Path = _QUOTA) -> int:
    """Physical cores that the process may run on, within its container's share; `OMP_NUM_THREADS` wins.

    Two threads of one core wait for the same multipliers, so they are counted once.

    Args:
        cpuinfo: where Linux describes the processors.
        quota: where Linux tells the share.
    """
    wish = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if wish.isdigit() and int(wish):
        return int(wish)
    try:
        usable = os.sched_getaffinity(0)
    except AttributeError:  # macOS, Windows
        return max(1, (os.cpu_count() or 2) // 2)
    cores = len({core for processor, core in _cores(cpuinfo).items() if processor in usable})
    return max(1, min(cores or len(usable), _share(quota) or len(usable)))


def idle_threads(threads: int) -> int:
    """Of so many threads those that other work leaves alone just now, 1 at least."""
    try:
        busy = os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows
        return threads
    return max(1, min(threads, math.floor((os.cpu_count() or threads) - busy + 0.5)))


def _cores(cpuinfo: Path) -> dict[int, tuple[str, str]]:
    """Each processor's package and core."""
    found: dict[int, tuple[str, str]] = {}
    try:
        blocks = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n\n")
    except OSError:
        return found
    for block in blocks:
        fields = {
            name.strip(): value.strip()
            for name, _, value in (line.partition(":") for line in block.split("\n"))
        }
        if {"processor", "physical id", "core id"} <= fields.keys():
            found[int(fields["processor"])] = (fields["physical id"], fields["core id"])
    return found


def _share(quota: Path) -> int:
    """Processors that the container's share amounts to, rounded up; 0: no limit."""
    try:
        most, _, period = quota.read_text(encoding="ascii").strip().partition(" ")
        return 0 if most == "max" else math.ceil(int(most) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return 0
