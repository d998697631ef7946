"""A result as one JSON line: what was measured, of which version, on what, when."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "append_line", "commit", "cpu_seconds", "hardware", "resident_mb", "today"]

ROOT = Path(__file__).resolve().parents[2]


def append_line(results: Path, line: dict[str, Any]) -> None:
    """Print `line`, and add it to the file."""
    text = json.dumps(line, ensure_ascii=False)
    print(text, flush=True)
    results.parent.mkdir(parents=True, exist_ok=True)
    with results.open("a", encoding="utf-8") as file:
        file.write(text + "\n")


def today() -> str:
    """Such as 2026-11-29."""
    return date.today().isoformat()


def hardware() -> str:
    """Cores, processor and memory, in words."""
    processor = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n"):
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores {processor}, {gib:.0f} GiB"


def resident_mb(pid: int) -> float:
    """Resident memory of a process; 0 when it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def cpu_seconds(pid: int) -> float:
    """Time of a core that a process has taken so far, all its threads; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # of the user, of the system


def commit() -> str:
    """The checkout's commit, marked when the package or the benchmark differ from it."""
    head = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--", "src", "benchmarks", ":!benchmarks/results")
    return f"{head}-dirty" if head and changed else head


def _git(*arguments: str) -> str:
    """Standard output of git in the checkout; empty outside one."""
    result = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout.strip()
