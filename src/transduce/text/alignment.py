"""Where two files that should run in parallel part from each other.

In: the lines of two files whose counts differ. Out: both counts, and the line where they most
likely part. A line's *signature* (length, numbers, last mark) is all that is kept of it.
Method: pair i belongs to pair i + shift of the longer file, where the shift starts at 0, never
falls, and ends at the difference; dynamic programming finds the shifts that agree best.
Does not know: languages, tokens.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Signatures", "first_suspicious_line", "sign_lines"]

Scores = NDArray[np.float32]

# Every shift up to this difference is tried; beyond it, the lines are taken to be lost in one place.
_MAX_SHIFTS = 8
# Characters added to both lengths, so that short lines do not seem to disagree.
_SLACK = 10
_NUMBER = re.compile(r"\d+")
_MARKS = {
    mark: kind
    for kind, marks in enumerate((".。．।", "?？؟", "!！", ":：", ";；", ",，、", '"”“»」', ")）"), 1)
    for mark in marks
}


@dataclass(slots=True)
class Signatures:
    """Lengths, numbers (as a checksum, 0 for none) and last marks of a file's lines: 9 bytes each."""

    lengths: array[int] = field(default_factory=lambda: array("I"))
    numbers: array[int] = field(default_factory=lambda: array("I"))
    marks: array[int] = field(default_factory=lambda: array("B"))

    def __len__(self) -> int:
        return len(self.lengths)


def sign_lines(lines: Iterable[str]) -> Signatures:
    """Keep the signature of every line."""
    signatures = Signatures()
    for line in lines:
        text = line.strip()
        numbers = sorted(_NUMBER.findall(text))
        signatures.lengths.append(len(text))
        signatures.numbers.append(zlib.crc32(" ".join(numbers).encode()) if numbers else 0)
        signatures.marks.append(_MARKS.get(text[-1:], 0))
    return signatures


def first_suspicious_line(source: Signatures, target: Signatures) -> int:
    """Number (from 1) of the first line after which the two files no longer run in parallel."""
    longer, shorter = (source, target) if len(source) > len(target) else (target, source)
    missing = len(longer) - len(shorter)
    shifts = list(range(missing + 1)) if missing <= _MAX_SHIFTS else [0, 1, missing]
    scale = _median_length(longer) / _median_length(shorter)
    agreement = [
        np.concatenate([np.zeros(1, np.float32), np.cumsum(_agreement(longer, shorter, shift, scale))])
        for shift in shifts
    ]
    # gains[k][p]: what is won by having left shift k - 1 for shift k after p lines, at best.
    best, gains = agreement[0], []
    for later in agreement[1:]:
        gains.append(best - later)
        best = later + np.maximum.accumulate(gains[-1])
    parting = len(shorter)
    for gain in reversed(gains):
        parting = int(np.argmax(gain[: parting + 1]))
    return parting + 1


def _median_length(lines: Signatures) -> float:
    """Median length of the lines, at least 1."""
    return max(1.0, float(np.median(np.frombuffer(lines.lengths, np.uint32)))) if lines else 1.0


def _agreement(longer: Signatures, shorter: Signatures, shift: int, scale: float) -> Scores:
    """How well line i of the shorter file fits line i + shift of the longer one, for every i."""
    window = slice(shift, shift + len(shorter))
    length = np.frombuffer(longer.lengths, np.uint32)[window].astype(np.float32)
    other_length = np.frombuffer(shorter.lengths, np.uint32).astype(np.float32)
    number = np.frombuffer(longer.numbers, np.uint32)[window]
    other_number = np.frombuffer(shorter.numbers, np.uint32)
    same_mark = np.frombuffer(longer.marks, np.uint8)[window] == np.frombuffer(shorter.marks, np.uint8)
    distance = np.abs(np.log(length / scale + _SLACK) - np.log(other_length + _SLACK))
    score: Scores = -2 * np.minimum(distance, 1)
    score += np.where(number == other_number, 2.0, -1.0) * ((number > 0) | (other_number > 0))
    score += np.where(same_mark, 0.5, -0.5)
    return score
