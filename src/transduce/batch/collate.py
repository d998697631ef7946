"""Rows of a token store to padded tensors: the shift to the right happens here (paper, section 3.1).

    source   x_1 … x_n </s>            the encoder reads
    target   <s> y_1 … y_m             the decoder reads
    labels   y_1 … y_m </s>            the decoder must predict, at the same positions

Axes: batch, src_len, tgt_len; rows are padded on the right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from transduce.batch.store import TokenStore

__all__ = ["Batch", "SpecialIds", "collate", "halves", "pad_rows"]


@dataclass(frozen=True)
class SpecialIds:
    """The three ids that are not text."""

    pad_id: int
    bos_id: int
    eos_id: int


@dataclass(frozen=True)
class Batch:
    """One padded batch."""

    source: Int[Tensor, "batch src_len"]
    target: Int[Tensor, "batch tgt_len"]
    labels: Int[Tensor, "batch tgt_len"]
    num_source_tokens: int
    """Real source tokens, end symbols counted, padding not."""
    num_target_tokens: int
    """Labels: real target tokens, end symbols counted, padding not. Losses are divided by these."""
    rows: NDArray[np.int64]
    """Where in the store the pairs are."""

    @property
    def num_cells(self) -> int:
        """Cells computed, padding counted."""
        return self.source.numel() + self.target.numel()

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        return Batch(
            self.source.to(device),
            self.target.to(device),
            self.labels.to(device),
            self.num_source_tokens,
            self.num_target_tokens,
            self.rows,
        )


def collate(store: TokenStore, rows: NDArray[np.int64], ids: SpecialIds) -> Batch:
    """Fetch `rows` from the store and pad them."""
    source, source_lengths = store.rows("source", rows)
    target, target_lengths = store.rows("target", rows)
    return Batch(
        source=_padded(source, source_lengths, ids, eos=True),
        target=_padded(target, target_lengths, ids, bos=True),
        labels=_padded(target, target_lengths, ids, eos=True),
        num_source_tokens=len(source) + len(rows),
        num_target_tokens=len(target) + len(rows),
        rows=rows,
    )


def halves(batch: Batch, pad_id: int) -> tuple[Batch, Batch]:
    """A batch of several rows as two; the padding stays."""
    middle = (len(batch.rows) + 1) // 2

    def half(rows: slice) -> Batch:
        source, labels = batch.source[rows], batch.labels[rows]
        num_source, num_target = (int((ids != pad_id).sum()) for ids in (source, labels))
        return Batch(source, batch.target[rows], labels, num_source, num_target, batch.rows[rows])

    return half(slice(None, middle)), half(slice(middle, None))


def pad_rows(rows: list[list[int]], ids: SpecialIds) -> Int[Tensor, "batch src_len"]:
    """Source sentences as one tensor, each closed by the end symbol."""
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    flat = np.fromiter((i for row in rows for i in row), np.int64, int(lengths.sum()))
    return _padded(flat, lengths, ids, eos=True)


def _padded(
    flat: NDArray[np.int64],
    lengths: NDArray[np.int64],
    ids: SpecialIds,
    *,
    bos: bool = False,
    eos: bool = False,
) -> Tensor:
    """Rows end to end → one row each, with a start or end symbol, padded on the right."""
    out = np.full((len(lengths), int(lengths.max(initial=0)) + bos + eos), ids.pad_id, np.int64)
    ends = np.cumsum(lengths)
    row = np.repeat(np.arange(len(lengths)), lengths)
    column = np.arange(len(flat)) - np.repeat(ends - lengths, lengths) + bos
    out[row, column] = flat
    if bos:
        out[:, 0] = ids.bos_id
    if eos:
        out[np.arange(len(lengths)), lengths + bos] = ids.eos_id
    return torch.from_numpy(out)
