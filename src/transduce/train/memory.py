"""The process's memory: how much there is, how much work needs, how it is kept and given back.

A training step makes and frees tensors of many megabytes. glibc gives each of them fresh pages from
the system and takes them back, so that every step pays for its page faults again; told to keep
them, it saves a few per cent of a step (benchmarks/LOG.md).
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from transduce.errors import RecipeError

__all__ = [
    "format_bytes",
    "free_bytes",
    "give_back_freed_memory",
    "is_out_of_memory",
    "keep_freed_memory",
    "parse_size",
    "peak_bytes_of",
    "resident_bytes",
]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_LARGEST = 2**31 - 1
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_EXHAUSTED = ("can't allocate memory", "not enough memory", "out of memory", "std::bad_alloc")


def keep_freed_memory() -> bool:
    """Let freed blocks be used again instead of returned. True where the allocator is glibc's.

    With one arena for all threads: others are made of pieces of 64 MiB, which go back when they are empty.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # musl and others
        return False
    settings = ((_M_MMAP_THRESHOLD, 1 << 30), (_M_TRIM_THRESHOLD, _LARGEST), (_M_ARENA_MAX, 1))
    return all(mallopt(name, value) for name, value in settings)


def resident_bytes() -> int:
    """Resident memory of this process, in bytes; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def give_back_freed_memory() -> None:
    """Return to the system what was freed and kept, where the allocator is glibc's."""
    if sys.platform.startswith("linux"):
        try:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        except (OSError, AttributeError):
            return


def parse_size(text: str) -> int:
    """Bytes of `8GB`, `500 MB` (powers of 1,000) or `2GiB` (powers of 1,024).

    Raises:
        RecipeError: it is no size, or zero.
    """
    found = _SIZE.fullmatch(text)
    if found is None or (found[3] and not found[2]):
        raise RecipeError(f"memory is a number and a unit, such as 8GB, 500MB or 2GiB; got {text!r}")
    number, unit, binary = found.groups()
    size = int(float(number) * (_BINARY_UNITS if binary else _UNITS)[unit.lower()])
    if size < _UNITS["m"]:
        raise RecipeError(f"memory must be at least 1MB, got {text!r}: was the unit, such as GB, forgotten?")
    return size


def format_bytes(size: float) -> str:
    """`3.0 GB`, `512 MB`: powers of 1,000."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def free_bytes(root: Path = Path("/")) -> int | None:
    """Memory that this process may still take: the least of what the machine has and its groups allow.

    Pages of files that the system can drop count as free. None where the system does not tell.

    Args:
        root: of the file system, for tests.
    """
    found = [*_free_in_machine(root), *_free_in_groups(root)]
    return min(found) if found else None


def peak_bytes_of(work: Callable[[], object]) -> int | None:
    """Most resident memory, in bytes, that `work` has above what there is before it; None if unknown."""
    gc.collect()
    give_back_freed_memory()
    before = resident_bytes()
    reset = _reset_high_water()
    work()
    if before == 0:
        return None
    # Without the kernel's mark: freed memory is kept, so that what is resident after the work was needed.
    return max(0, (_high_water() if reset else resident_bytes()) - before)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed: Python's, torch's on the CPU, or a device's."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _EXHAUSTED)


def _reset_high_water() -> bool:
    """Let the kernel's mark begin at what is resident now. True where it did."""
    before = _high_water()
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return 0 < _high_water() <= min(before, resident_bytes() + (16 << 20))


def _high_water() -> int:
    """Most that was resident since the last reset, in bytes; 0 where the system does not tell."""
    return 1024 * _number_after("VmHWM:", Path("/proc/self/status"), 0)


def _free_in_machine(root: Path) -> Iterator[int]:
    kibibytes = _number_after("MemAvailable:", root / "proc/meminfo", -1)
    if kibibytes >= 0:
        yield 1024 * kibibytes


def _free_in_groups(root: Path) -> Iterator[int]:
    """What each control group that this process is in has left, of both versions of the interface."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            top, limit, used, cache = "", "memory.max", "memory.current", "inactive_file "
        elif "memory" in controllers.split(","):
            top, limit, used = "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cache = "total_inactive_file "
        else:
            continue
        # A limit of any group above counts too. In a container the path may be the host's: the group is
        # then the root of what can be seen.
        place = Path(path.lstrip("/"))
        for group in {root / "sys/fs/cgroup" / top / part for part in (place, *place.parents)}:
            most = _number_after("", group / limit, -1)
            if most >= 0:
                taken = _number_after("", group / used, 0) - _number_after(cache, group / "memory.stat", 0)
                yield max(0, most - taken)


def _number_after(label: str, file: Path, otherwise: int) -> int:
    """The number that follows `label` at the beginning of a line of `file`."""
    try:
        found = re.search(rf"^{re.escape(label)}\s*(\d+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        return otherwise
    return int(found[1]) if found else otherwise
