"""Which pairs go together, and when: depends on seed, epoch and position alone.

So training can stop and go on anywhere: `Position` is all there is to remember.

Pairs are sorted by target length and, within one target length, by source length, forwards and
backwards in turn, so that neighbours have similar lengths on both sides even where the target
length changes; the sorted list is cut into batches of at most `batch_tokens` cells on the larger
side, and the batches are shuffled. Pairs of equal lengths change places every epoch. In the first
`curriculum_epochs` the batches are shuffled in part only: short ones tend to come first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.batch.config import BatchConfig
from transduce.batch.store import TokenStore
from transduce.errors import DataError

__all__ = ["BatchOrder", "Position"]


@dataclass(frozen=True)
class Position:
    """The next batch to train on."""

    epoch: int = 0
    batch: int = 0


class BatchOrder:
    """All batches of all epochs, as arrays of store rows.

    Raises:
        DataError: every pair is longer than `batch.max_len`.
    """

    def __init__(self, store: TokenStore, config: BatchConfig, seed: int) -> None:
        self._store = store
        self._config = config
        self._seed = seed
        self.batch_tokens = config.batch_tokens
        self.num_too_long = int((~self._kept(0)[2]).sum())
        """Pairs (of copy 0) left out for being longer than `max_len`."""
        self.longest = max(self._widest(copy) for copy in range(store.info.num_copies))
        """Tokens of the longest pair that is trained on, on its larger side, with the end symbol."""
        if self.num_too_long == len(store):
            raise DataError(
                f"all {len(store)} pairs are longer than batch.max_len = {config.max_len} tokens: raise it"
            )

    def epoch(self, epoch: int) -> list[NDArray[np.int64]]:
        """The batches of one epoch, in training order; each holds store rows."""
        copy = epoch % self._store.info.num_copies
        source_lengths, target_lengths, kept = self._kept(copy)
        rng = np.random.default_rng([self._seed, epoch])
        rows = rng.permutation(np.flatnonzero(kept))
        rows = rows[_sorted_by_length(source_lengths[rows], target_lengths[rows])]
        widths = np.maximum(source_lengths[rows], target_lengths[rows])
        batches = _cut(rows + copy * len(self._store), widths, self._config.batch_tokens)
        return [batches[i] for i in self._shuffled(len(batches), epoch, rng)]

    def _shuffled(self, count: int, epoch: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The order of an epoch's batches, which come sorted by length.

        In a curriculum of N epochs, epoch e = 0, 1, … orders by (1 - w) · length rank + w · chance, both
        from 0 to 1, with w = (e + 1) / (N + 1): never quite sorted, for the last update before a
        validation would else be of the longest pairs only, and ever less (as in Platanios et al. 2019, arXiv
        1903.09848, where the share of the text that is used grows).
        """
        if epoch >= self._config.curriculum_epochs:
            return rng.permutation(count)
        chance = (epoch + 1) / (self._config.curriculum_epochs + 1)
        rank = np.arange(count) / count
        return np.argsort((1 - chance) * rank + chance * rng.random(count), kind="stable")

    def walk(self, position: Position) -> Iterator[tuple[NDArray[np.int64], Position]]:
        """Batches from `position` on, without end, each with the position that follows it."""
        epoch, start = position.epoch, position.batch
        while True:
            batches = self.epoch(epoch)
            for index in range(start, len(batches)):
                last = index + 1 == len(batches)
                yield batches[index], Position(epoch + 1, 0) if last else Position(epoch, index + 1)
            epoch, start = epoch + 1, 0

    def widths(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens of store rows on their larger side, with the end symbol."""
        return np.maximum(self._store.lengths_of("source", rows), self._store.lengths_of("target", rows)) + 1

    def _widest(self, copy: int) -> int:
        source_lengths, target_lengths, kept = self._kept(copy)
        return int(np.maximum(source_lengths, target_lengths)[kept].max(initial=0))

    def _kept(self, copy: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
        """Lengths of both sides with the end symbol, and which pairs are short enough."""
        source_lengths = self._store.lengths("source", copy) + np.int32(1)
        target_lengths = self._store.lengths("target", copy) + np.int32(1)
        return (
            source_lengths,
            target_lengths,
            np.maximum(source_lengths, target_lengths) <= self._config.max_len,
        )


def _sorted_by_length(source: NDArray[np.int32], target: NDArray[np.int32]) -> NDArray[np.int64]:
    """Order by target length; by source length rising at odd target lengths, falling at even ones."""
    widest = int(source.max()) + 1
    serpentine = np.where(target % 2 == 1, source, widest - source)
    return np.argsort(target.astype(np.int64) * (widest + 1) + serpentine, kind="stable")


def _cut(rows: NDArray[np.int64], widths: NDArray[np.int32], batch_tokens: int) -> list[NDArray[np.int64]]:
    """Cut sorted rows so that (rows of a batch) · (its widest) ≤ batch_tokens, greedily."""
    batches, start = [], 0
    while start < len(rows):
        # The widest so far grows along the slice; the cut comes where the product passes the budget.
        end = min(len(rows), start + batch_tokens // int(widths[start]))
        widest = np.maximum.accumulate(widths[start:end])
        fits = widest * np.arange(1, end - start + 1) <= batch_tokens
        count = len(fits) if bool(fits.all()) else int(np.argmin(fits))
        batches.append(rows[start : start + max(count, 1)])
        start += max(count, 1)
    return batches
