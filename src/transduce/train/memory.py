"""The process's memory: how it is given back, and how much there is of it.

A training step makes and frees tensors of many megabytes. glibc gives each of them fresh pages from
the system and takes them back, so that every step pays for its page faults again; told to keep
them, it saves a few per cent of a step (benchmarks/LOG.md).
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

__all__ = ["keep_freed_memory", "resident_bytes"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_LARGEST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let freed blocks be used again instead of returned. True where the allocator is glibc's."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # musl and others
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, 1 << 30) and mallopt(_M_TRIM_THRESHOLD, _LARGEST))


def resident_bytes() -> int:
    """Resident memory of this process, in bytes; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
