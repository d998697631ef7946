"""Sentences of similar lengths together, so that little is computed for padding. Does not know: torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["batches"]


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices in batches, longest first, of at most `budget` cells (rows · longest), or of one row."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        widest = lengths[batch[0]] if batch else lengths[index]
        if batch and widest * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
