"""The processor's name, for results and for what was measured on it."""

from __future__ import annotations

import platform
from pathlib import Path

__all__ = ["processor_name"]


def processor_name() -> str:
    """The processor's model name."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown processor"
