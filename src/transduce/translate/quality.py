"""Signs that a translation should be looked at: cut, repeating itself, or simply copied."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["is_copied", "is_repeated"]

_LONGEST_UNIT = 12  # tokens of a unit that repeats
_REPEATS = 4  # times in a row that are no longer style
_LONE_REPEATS = 6  # the same for single tokens: "....." and "!!!!" are style for longer
_SHORTEST_COPY = 12  # characters; names, numbers and codes are copied rightly


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
