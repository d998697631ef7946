"""What a queue learns from the last moments: should threads share a lone sentence, and how many may come.

Threads that share one wait for each other at every product. Where other programs take their turns, that
is slower than one thread by orders of magnitude (benchmarks/LOG.md), and a server cannot know when they
will. So it looks: what is slow is left for a while, and for longer each time that it is slow again.
Does not know: jobs, batches.
"""

from __future__ import annotations

import time

__all__ = ["Crowd", "Pace"]

_MEMORY = 0.3  # weight of the newest batch in the averages
_MUCH = 5.0  # times its best: more than lengths of sentences explain
_RECENT = 0.25  # seconds
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0  # seconds


class Pace:
    """Seconds a token, threads together and one alone."""

    def __init__(self) -> None:
        """Begin with trust."""
        self._together: float | None = None
        self._alone: float | None = None
        self._best = float("inf")
        self._pause = _FIRST_PAUSE
        self._again = float("-inf")

    @property
    def together(self) -> bool:
        """Whether threads should share the next small batch."""
        return time.monotonic() >= self._again

    def note(self, *, together: bool, tokens: int, seconds: float) -> None:
        """Take note of a small batch that had the machine to itself, or a core."""
        own = seconds / max(1, tokens)
        if not together:
            self._alone = own if self._alone is None else self._alone + _MEMORY * (own - self._alone)
            return
        self._together = own if self._together is None else self._together + _MEMORY * (own - self._together)
        self._best = min(self._best, own)
        if own > _MUCH * self._best or (self._alone is not None and self._together > self._alone):
            self._again = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            self._together = None  # it is judged anew when its time has come
        else:
            self._pause = _FIRST_PAUSE


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
