"""Token buckets: how often somebody may ask, with short bursts allowed.

A bucket holds as many tokens as a minute gives and fills evenly; a request takes one, and where there
is none it is told after how many seconds there will be. In memory, and bounded: the buckets of those
who have not asked for the longest time are dropped, and full again when they come back.
Does not know: HTTP, keys.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

__all__ = ["TokenBuckets", "network_of"]

_MOST: Final = 10_000


@dataclass
class _Bucket:
    tokens: float
    filled: float
    """When `tokens` was true."""


class TokenBuckets:
    """Everybody's buckets."""

    def __init__(self, most: int = _MOST, clock: Callable[[], float] = time.monotonic) -> None:
        """Empty at first: who has not asked yet has a full bucket.

        Args:
            most: how many are remembered.
            clock: seconds.
        """
        self._most, self._clock = most, clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, who: str, per_minute: int) -> float:
        """Take a token.

        Args:
            who: whose bucket.
            per_minute: its size, and how many it gets a minute; 0 is without limit.

        Returns:
            0, or the seconds until there is a token.
        """
        if per_minute <= 0:
            return 0.0
        now = self._clock()
        bucket = self._buckets.pop(who, None) or _Bucket(per_minute, now)
        bucket.tokens = min(per_minute, bucket.tokens + (now - bucket.filled) * per_minute / 60)
        bucket.filled = now
        self._buckets[who] = bucket  # the latest comes last
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        if bucket.tokens < 1:
            return (1 - bucket.tokens) * 60 / per_minute
        bucket.tokens -= 1
        return 0.0

    def __len__(self) -> int:
        return len(self._buckets)


def network_of(address: str) -> str:
    """Whose bucket an address takes from: of IPv6 its /64, which one customer has whole."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"
