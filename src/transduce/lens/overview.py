"""All heads of a kind at a glance: thumbnails and figures whose size does not depend on the sentence's.

In:  attention weights, (heads, tgt_len, src_len). Out: `Overview`.
Does not know: models.
Axes: layers, heads, tgt_len (queries), src_len (keys).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["STATISTICS", "THUMBNAIL", "Overview", "overview_of"]

THUMBNAIL = 32
"""Most cells of a thumbnail's side."""
STATISTICS = ("entropy", "max", "diagonal", "sink", "previous")
"""Means over a head's rows: entropy (nats), largest weight, weight on the own position (between two texts:
on the key at the same relative place), weight on the sink, weight on the token before the own position."""


@dataclass(frozen=True)
class Overview:
    """All heads of one kind."""

    thumbnails: Tensor
    """uint8, (layers, heads, ≤ 32, ≤ 32): round(255 · weight), the largest of each patch."""
    statistics: Tensor
    """float32, (layers, heads, 5): see `STATISTICS`."""


def overview_of(layers: Sequence[Tensor], sink: int) -> Overview:
    """Sum the weights up.

    Args:
        layers: each layer's weights, (heads, tgt_len, src_len).
        sink: the key on which heads with nothing to do often rest: the source's end symbol, or the
            target's start symbol.
    """
    weights = torch.stack(list(layers)).float()  # (layers, heads, tgt_len, src_len)
    size = tuple(min(THUMBNAIL, length) for length in weights.shape[2:])
    thumbnails = (255 * F.adaptive_max_pool2d(weights, size)).round().to(torch.uint8)
    return Overview(thumbnails, _statistics(weights, sink))


def _statistics(weights: Tensor, sink: int) -> Tensor:
    tgt_len, src_len = weights.shape[2:]
    rows = torch.arange(tgt_len)
    own = (rows * (src_len - 1) / max(1, tgt_len - 1)).round().long() if tgt_len != src_len else rows
    before = (own - 1).clamp(min=0)
    previous = weights[..., rows, before] * (own > 0)
    columns = (
        torch.special.entr(weights).sum(-1),
        weights.amax(-1),
        weights[..., rows, own],
        weights[..., sink],
        previous,
    )
    return torch.stack([column.mean(-1) for column in columns], dim=-1)
