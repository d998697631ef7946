"""Signs that a translation should be looked at, and how sure the model was of its words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.translate.alignment import words

__all__ = ["is_copied", "is_repeated", "is_unlikely_length", "word_confidences"]

_LONGEST_UNIT = 12  # tokens of a unit that repeats
_REPEATS = 4  # times in a row that are no longer style
_LONE_REPEATS = 6  # the same for single tokens: "....." and "!!!!" are style for longer
_SHORTEST_COPY = 12  # characters; names, numbers and codes are copied rightly
_LENGTH_RATIO = 3  # times as many tokens as the other side, and ...
_LENGTH_SLACK = 10  # ... this many more: short texts vary widely


def is_repeated(tokens: Sequence[str]) -> bool:
    """Whether some run of tokens stands several times in a row (a decoding loop)."""
    for unit in range(1, min(_LONGEST_UNIT, len(tokens)) + 1):
        needed = (_LONE_REPEATS if unit == 1 else _REPEATS) - 1
        matches = 0
        for i in range(unit, len(tokens)):
            matches = matches + 1 if tokens[i] == tokens[i - unit] else 0
            if matches >= needed * unit:
                return True
    return False


def is_copied(source: str, text: str) -> bool:
    """Whether the translation is the source again, and long enough for that to be odd."""
    plain = source.strip()
    return len(plain) >= _SHORTEST_COPY and plain.casefold() == text.strip().casefold()


def is_unlikely_length(source_len: int, target_len: int) -> bool:
    """Whether one side has over three times as many tokens as the other, and ten more."""
    short, long = sorted((source_len, target_len))
    return long > _LENGTH_RATIO * short + _LENGTH_SLACK


def word_confidences(tokens: Sequence[str], probabilities: Sequence[float]) -> list[tuple[str, float]]:
    """Return each word (`alignment.words`) with the geometric mean of its tokens' probabilities."""
    logs = [math.log(max(value, 1e-300)) for value in probabilities]
    return [
        (word.text, math.exp(math.fsum(logs[word.first : word.end]) / (word.end - word.first)))
        for word in words(tokens)
    ]
