"""What a queue learns from the last moments: should threads share a lone sentence, and how many may come.

Threads that share one wait for each other at every product. Where other programs take their turns, that
is slower than one thread by orders of magnitude (benchmarks/LOG.md), and a server cannot know when they
will. So it looks: what is slow is left for a while, and for longer each time that it is slow again.
Does not know: jobs, batches.
"""

from __future__ import annotations

import statistics
import time
from collections import deque

__all__ = ["Crowd", "Pace"]

_KEPT = 9  # batches of each kind that are remembered
_ENOUGH = 3  # of them before one slow batch cannot be chance
_MUCH = 20.0  # times the usual: more than chance explains
_RECENT = 0.25  # seconds
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0  # seconds


class Pace:
    """Seconds a token, threads together and one alone, in the median of late."""

    def __init__(self) -> None:
        """Begin with trust."""
        self._together: deque[float] = deque(maxlen=_KEPT)
        self._alone: deque[float] = deque(maxlen=_KEPT)
        self._pause = _FIRST_PAUSE
        self._again = float("-inf")

    @property
    def together(self) -> bool:
        """Whether threads should share the next small batch."""
        return time.monotonic() >= self._again

    def note(self, *, together: bool, tokens: int, seconds: float) -> None:
        """Take note of a small batch that had the machine to itself, or a core: tokens read and written."""
        own = seconds / max(1, tokens)
        if not together:
            self._alone.append(own)
            return
        before = self._together or self._alone
        much = bool(before) and own > _MUCH * statistics.median(before)
        self._together.append(own)
        if much or self._is_slower():
            self._again = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            self._together.clear()  # it is judged anew when its time has come
        elif len(self._together) >= _ENOUGH:
            self._pause = _FIRST_PAUSE

    def _is_slower(self) -> bool:
        known = bool(self._alone) and len(self._together) >= _ENOUGH
        return known and statistics.median(self._together) > statistics.median(self._alone)


class Crowd:
    """The most that were there at once, of late: so many may come again."""

    def __init__(self) -> None:
        """Begin alone."""
        self._since = time.monotonic()
        self._now = self._before = 0

    def note(self, present: int) -> None:
        """So many are there."""
        self._turn()
        self._now = max(self._now, present)

    @property
    def most(self) -> int:
        """How many there were at once in the last quarter of a second, or half."""
        self._turn()
        return max(self._now, self._before)

    def _turn(self) -> None:
        passed = time.monotonic() - self._since
        if passed > _RECENT:
            self._before = self._now if passed < 2 * _RECENT else 0
            self._now, self._since = 0, time.monotonic()
