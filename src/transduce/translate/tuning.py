"""Which threads and which number form are quickest on this machine, as `tune.py` has measured and kept it.

    ct2/tuning.json     machine, threads, and for many sentences and for a lone one what won

It holds for the machine and the number of threads that it was measured with; elsewhere it is passed over.
A number form changes answers now and then, so that of the export is kept unless others are named.
Does not know: torch, text.
"""

from __future__ import annotations

import json
import logging
import platform
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import get_args

from transduce.errors import ModelError
from transduce.files import write_atomic, written_or
from transduce.processor import processor_name
from transduce.translate.runtime import ComputeType

__all__ = ["TUNING_FILE", "Layout", "Tuning", "machine", "read_tuning"]

_log = logging.getLogger(__name__)

TUNING_FILE = "tuning.json"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Workers, each alone in its batch, and the threads that each of them has."""

    workers: int
    threads: int

    def __str__(self) -> str:
        return f"{self.workers} x {self.threads}"


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What to take here."""

    machine: str
    threads: int
    """Threads in all that were there to be shared out."""
    compute_type: ComputeType
    many: Layout
    """For many sentences at once."""
    lone: Layout
    """For one sentence."""

    def write(self, directory: Path) -> None:
        """Keep it in an export's directory.

        Raises:
            ModelError: it cannot be written there.
        """
        file = directory / TUNING_FILE
        with written_or(ModelError, f"{file} could not be written"):
            write_atomic(file, json.dumps(asdict(self), indent=2) + "\n")


def read_tuning(directory: Path, threads: int) -> Tuning | None:
    """What was measured on this machine with so many threads; None if nothing was, or it cannot be read."""
    file = directory / TUNING_FILE
    if not file.exists():
        return None
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        layouts = {name: Layout(**table[name]) for name in ("many", "lone")}
        found = Tuning(**{field.name: table[field.name] for field in fields(Tuning)} | layouts)
        if found.compute_type not in get_args(ComputeType) or min(*_sizes(found)) < 1:
            raise ValueError("a value is out of its range")
    except (OSError, ValueError, TypeError, KeyError) as error:
        _log.warning("%s cannot be read and is not used (%s): run `transduce tune` again", file, error)
        return None
    return found if (found.machine, found.threads) == (machine(), threads) else None


def machine() -> str:
    """What was measured on: a copy of the directory on another machine must not follow it."""
    return f"{platform.system()} {platform.machine()}, {processor_name()}"


def _sizes(tuning: Tuning) -> tuple[int, ...]:
    return (tuning.many.workers, tuning.many.threads, tuning.lone.workers, tuning.lone.threads)
