"""How a batch is cut into parts, and what becomes of an update whose parts do not fit into memory.

The parts decide what dropout draws, and memory decides the parts, which is not the same on every day:
so what was decided is written down at once, with the update from which it holds. A run that is
killed and goes on, from however far back, cuts every batch as it was cut the first time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.errors import CheckpointError
from transduce.files import write_atomic
from transduce.train.config import TrainConfig
from transduce.train.parallel import choose_num_workers

__all__ = ["Parts", "PartsRecord", "PartsTooLargeError", "cut", "first_parts"]

Rows = NDArray[np.int64]
Result = TypeVar("Result")


class PartsTooLargeError(Exception):
    """The parts of an update did not fit into memory; weights and optimizer were not touched."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """How batches are cut and computed."""

    num_parts: int
    """A batch is cut into so many parts, or more."""
    part_tokens: int
    """Cells of a part on its larger side, rows · longest row; only a single pair may have more."""
    num_workers: int
    """Parts that are computed at once."""


def first_parts(config: TrainConfig, batch_tokens: int, device: torch.device) -> Parts:
    """Parts as large as go evenly to the workers and as a batch may be: memory has not been asked yet.

    The batches of an update are parts already: two workers take one each of two, and halves of one.
    """
    num_batches = config.accumulate
    num_workers = choose_num_workers(config.workers, num_batches * batch_tokens, device)
    even = num_workers // math.gcd(num_workers, num_batches)
    grows = config.accumulate_final > num_batches  # then their number is even for some updates only
    return Parts(num_parts=num_workers if grows else even, part_tokens=batch_tokens, num_workers=num_workers)


class PartsRecord:
    """The parts of every update of a run, kept in its `parts.json`."""

    def __init__(self, file: Path, first: Parts) -> None:
        """Read what was decided, or begin with `first`.

        Raises:
            CheckpointError: the file cannot be read.
        """
        self._file, self._first = file, first
        self._decided: dict[int, Parts] = {1: first}
        self.is_new = not file.exists()
        """Nothing was decided before; `first` is not written yet."""
        if not self.is_new:
            try:
                listed = json.loads(file.read_text(encoding="utf-8"))
                self._decided = {entry.pop("from_step"): Parts(**entry) for entry in listed}
                self.at(1)
            except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
                raise CheckpointError(
                    f"{file} cannot be read ({error}): delete it to decide anew how batches are cut"
                ) from error

    def at(self, step: int) -> Parts:
        """What holds for an update."""
        return self._decided[max(first for first in self._decided if first <= step)]

    def wanted(self, step: int) -> Parts:
        """What holds for an update, for as many workers as are asked for now."""
        first, parts = self._first, self.at(step)
        if parts.num_parts == first.num_parts:
            return parts
        return replace(parts, num_parts=first.num_parts, num_workers=first.num_workers)

    def decide(self, step: int, parts: Parts) -> None:
        """From update `step` on, `parts` hold; written before anything is computed with them."""
        self._decided = {first: old for first, old in self._decided.items() if first < step} | {step: parts}
        listed = [{"from_step": first, **asdict(old)} for first, old in self._decided.items()]
        write_atomic(self._file, json.dumps(listed, indent=2) + "\n")
        self.is_new = False

    def compute(
        self,
        step: int,
        batches: Sequence[Rows],
        widths: Callable[[Rows], Rows],
        update: Callable[[Sequence[Rows], int], Result],
        report: Callable[[str], None],
    ) -> Result:
        """An update in parts; while they do not fit into memory, once more in smaller ones.

        Args:
            step: number of the update.
            batches: store rows of each.
            widths: tokens of rows, on the larger side.
            update: computes the parts, so many at once.
            report: is told what became smaller.

        Raises:
            CheckpointError: a single pair does not fit.
        """
        while True:
            parts = self.at(step)
            pieces = [piece for rows in batches for piece in cut(rows, widths(rows), parts)]
            try:
                return update(pieces, parts.num_workers)
            except PartsTooLargeError:
                sizes = [len(piece) * int(widths(piece).max()) for piece in pieces if len(piece) > 1]
            if sizes:
                smaller = replace(parts, part_tokens=min(max(sizes), parts.part_tokens) // 2)
                what = f"parts of at most {smaller.part_tokens:,} tokens"
            elif parts.num_workers > 1 and len(pieces) > 1:
                smaller, what = replace(parts, num_workers=1), "one part at a time"
            else:
                longest = max(int(widths(piece).max()) for piece in pieces)
                raise CheckpointError(
                    f"update {step} does not fit into memory, not even a single pair of {longest:,} tokens: "
                    f"choose a new --out with batch.max_len below {longest:,}, or free memory and run again"
                )
            self.decide(step, smaller)
            report(f"update {step} did not fit into memory; from here on {what} (the batch stays the same)")


def cut(rows: Rows, widths: Rows, parts: Parts) -> list[Rows]:
    """A batch's rows in `num_parts` equal parts, each halved until it has at most `part_tokens`."""
    pieces = []
    for indices in np.array_split(np.arange(len(rows)), min(parts.num_parts, len(rows))):
        pieces += [rows[part] for part in _halved(indices, widths, parts.part_tokens)]
    return pieces


def _halved(indices: Rows, widths: Rows, part_tokens: int) -> list[Rows]:
    if len(indices) == 1 or len(indices) * int(widths[indices].max()) <= part_tokens:
        return [indices]
    first, second = np.array_split(indices, 2)
    return _halved(first, widths, part_tokens) + _halved(second, widths, part_tokens)
