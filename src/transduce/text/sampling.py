"""An even, repeatable sample of a stream that is too long to keep.

In: any iterable. Out: a list of at most `size` items, in the order they came.
Does not know: text.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["sample_evenly"]

T = TypeVar("T")


def sample_evenly(
    items: Iterable[T],
    size: int,
    seed: int,
    *,
    weight: Callable[[T], int] = lambda _: 0,
    max_weight: int = 0,
) -> list[T]:
    """Keep `size` items, each with the same chance; all, if there are fewer.

    Every item draws a number, and the lowest stay. With `max_weight`, fewer stay: those whose
    weights add up to no more. The same items and arguments give the same sample on any machine.
    """
    rng = random.Random(seed)
    kept: list[tuple[float, int, T]] = []  # a heap with the highest draw, negated, on top
    total, limit = 0, 1.0
    for index, item in enumerate(items):
        draw = rng.random()
        if draw >= limit:
            continue
        heapq.heappush(kept, (-draw, index, item))
        total += weight(item)
        while len(kept) > size or total > max_weight:
            highest, _, dropped = heapq.heappop(kept)
            total -= weight(dropped)
            limit = -highest
    kept.sort(key=lambda entry: entry[1])
    return [item for _, _, item in kept]
