"""Results that wait to be fetched: in memory, under names nobody can guess, for a while.

A client gets an id of 256 random bits and comes back with it; no path of a client's ever reaches the
file system, because nothing is in the file system. What is too old goes, and what is oldest goes where
the memory is full.
Does not know: HTTP, documents.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["Download", "Downloads"]

_SECONDS: Final = 15 * 60.0
_MOST_BYTES: Final = 256 * 2**20


class Download(NamedTuple):
    """What waits."""

    data: bytes
    filename: str
    media_type: str
    expires: float


class Downloads:
    """All that waits; safe to use from several threads."""

    def __init__(
        self,
        *,
        seconds: float = _SECONDS,
        most_bytes: int = _MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing waits yet.

        Args:
            seconds: how long something is kept.
            most_bytes: how much is kept in all.
            clock: seconds.
        """
        self._seconds, self._most_bytes, self._clock = seconds, most_bytes, clock
        self._kept: OrderedDict[str, Download] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def put(self, data: bytes, filename: str, media_type: str) -> str:
        """Keep something, and return the id it is fetched by."""
        key = secrets.token_urlsafe(32)
        with self._lock:
            self._kept[key] = Download(data, filename, media_type, self._clock() + self._seconds)
            self._bytes += len(data)
            self._drop_old()
        return key

    def get(self, key: str) -> Download | None:
        """What `put` kept under that id; None if there is none, or no longer."""
        with self._lock:
            self._drop_old()
            return self._kept.get(key)

    def _drop_old(self) -> None:
        """The oldest come first; the newest stays whatever its size."""
        now = self._clock()
        while self._kept:
            oldest = next(iter(self._kept.values()))
            if oldest.expires > now and (self._bytes <= self._most_bytes or len(self._kept) == 1):
                break
            self._kept.popitem(last=False)
            self._bytes -= len(oldest.data)

    def __len__(self) -> int:
        return len(self._kept)
