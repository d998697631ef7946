"""Phrases that a translation must hold, and how far a hypothesis has come with each of them.

In:  phrases as token ids. Out: for a hypothesis, its `Progress`, one token at a time.
Does not know: torch, strings, beams, probabilities.

A phrase may be spelt in several ways; each is a run of ids with a condition on the token before it
and on the token after it, so that "Licht" is not found in "Lichtschalter". All positions that a
phrase may have reached are bits of one integer, moved on together by a shift and a mask (Baeza-Yates
and Gonnet, 1992): whichever way the tokens fall, no occurrence is missed. An occurrence counts when
the token after it is known; the start and the end of a translation are allowed neighbours of any.
Occurrences of one phrase do not overlap; those of different phrases may, each is looked for alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Phrase", "Phrases", "Progress", "Spelling"]

Progress: TypeAlias = tuple[tuple[int, int], ...]
"""For each phrase: its positions, as bits, and how often it still has to come."""


@dataclass(frozen=True)
class Spelling:
    """One way to write a phrase."""

    ids: tuple[int, ...]
    after: frozenset[int] | None = None
    """The ids that may stand before it; None: any."""
    before: frozenset[int] | None = None
    """The ids that may follow it; None: any."""


@dataclass(frozen=True)
class Phrase:
    """What a translation must hold, in any of its spellings, `count` times at least."""

    spellings: tuple[Spelling, ...]
    count: int = 1

    @property
    def size(self) -> int:
        """The fewest tokens that it needs."""
        return min(len(spelling.ids) for spelling in self.spellings)


class Phrases:
    """All phrases of one sentence. Progress is a plain value: hypotheses share and copy it freely."""

    def __init__(self, phrases: Sequence[Phrase]) -> None:
        self._matchers = [_Matcher(phrase) for phrase in phrases]
        self.size = sum(phrase.size * phrase.count for phrase in phrases)
        """The fewest tokens that all of them need, one after the other."""

    def start(self) -> Progress:
        """Return the progress of an empty translation."""
        return tuple((matcher.start, matcher.count) for matcher in self._matchers)

    def advance(self, progress: Progress, id_: int) -> Progress:
        """Return the progress after one more token (not the end symbol)."""
        return tuple(
            matcher.advance(bits, left, id_) if left else (0, 0)
            for matcher, (bits, left) in zip(self._matchers, progress, strict=True)
        )

    def met(self, progress: Progress) -> bool:
        """Return whether a translation that ends here holds all phrases."""
        return all(
            left == 0 or (left == 1 and bits & matcher.whole)
            for matcher, (bits, left) in zip(self._matchers, progress, strict=True)
        )

    def reached(self, progress: Progress) -> int:
        """Return how many of `size` tokens are there: those of phrases met, and of what is begun."""
        missing = sum(
            (left - 1) * matcher.size + matcher.missing(bits)
            for matcher, (bits, left) in zip(self._matchers, progress, strict=True)
            if left
        )
        return self.size - missing

    def wanted(self, progress: Progress) -> set[int]:
        """Return the ids that would begin a phrase or continue one."""
        return {
            id_
            for matcher, (bits, left) in zip(self._matchers, progress, strict=True)
            if left
            for id_ in matcher.wanted(bits)
        }

    def followers(self, progress: Progress) -> list[frozenset[int]]:
        """Return, for each phrase that stands at the end whole, the ids that may follow; none: any may."""
        return [
            before
            for matcher, (bits, left) in zip(self._matchers, progress, strict=True)
            if left
            for before in matcher.followers(bits)
        ]


class _Matcher:
    """One phrase's positions as bits.

    Of a spelling with n ids, bit 0 says that the token before it is there, bit i that i of its ids
    are, and bit n + 1 that the token after it is.
    """

    def __init__(self, phrase: Phrase) -> None:
        self.count, self.size = phrase.count, phrase.size
        self._spellings: list[tuple[int, Spelling]] = []
        self.start = self.whole = self._accepted = self._fresh = 0
        self._of_ids: dict[int, int] = {}
        self._masks: dict[int, int] = {}  # found already: the same tokens and positions come again and again
        self._lacking: dict[int, int] = {}
        base = 0
        for spelling in phrase.spellings:
            n = len(spelling.ids)
            self._spellings.append((base, spelling))
            self.start |= 1 << base
            self._fresh |= 0b11 << base
            self.whole |= 1 << (base + n)
            self._accepted |= 1 << (base + n + 1)
            for i, id_ in enumerate(spelling.ids):
                self._of_ids[id_] = self._of_ids.get(id_, 0) | 1 << (base + 1 + i)
            base += n + 2

    def advance(self, bits: int, left: int, id_: int) -> tuple[int, int]:
        bits = ((bits << 1) | self.start) & self._mask(id_)
        if bits & self._accepted:
            # What follows may begin the next occurrence, but nothing begun earlier goes on.
            return bits & self._fresh, left - 1
        return bits, left

    def _mask(self, id_: int) -> int:
        """The positions that a token may stand at."""
        mask = self._masks.get(id_)
        if mask is None:
            mask = self._of_ids.get(id_, 0)
            for base, spelling in self._spellings:
                if spelling.after is None or id_ in spelling.after:
                    mask |= 1 << base
                if spelling.before is None or id_ in spelling.before:
                    mask |= 1 << (base + len(spelling.ids) + 1)
            self._masks[id_] = mask
        return mask

    def missing(self, bits: int) -> int:
        """The fewest ids that the occurrence furthest on still lacks."""
        lacking = self._lacking.get(bits)
        if lacking is None:
            lacking = min([self.size, *(len(s.ids) - i for s, i in self._positions(bits))])
            self._lacking[bits] = lacking
        return lacking

    def wanted(self, bits: int) -> Iterable[int]:
        return (s.ids[i] for s, i in self._positions(bits) if i < len(s.ids))

    def followers(self, bits: int) -> Iterable[frozenset[int]]:
        for s, i in self._positions(bits):
            if i == len(s.ids) and s.before is not None:
                yield s.before

    def _positions(self, bits: int) -> Iterable[tuple[Spelling, int]]:
        """Each spelling with each number of its ids that may be there; the token before it is."""
        for base, spelling in self._spellings:
            for i in range(len(spelling.ids) + 1):
                if bits >> (base + i) & 1:
                    yield spelling, i
