"""Weights of a model with one vocabulary → the first weights of the same model with another.

Only the matrices with a row (or the bias with a number) for every piece differ:

    source_embedding.weight                      rows of the source vocabulary; with tie = "all" of both
    target_embedding.weight, output.weight,
    output.bias                                  rows of the target vocabulary

A row that is made of old ones is their mean: of a single one, a copy, bit for bit. The others stay
as they were drawn. All else is taken over.
Knows: tensors by name, ids. Does not know: text, pieces, files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

__all__ = ["transfer"]

_SOURCE_ROWS = ("source_embedding.weight",)
_TARGET_ROWS = ("target_embedding.weight", "output.weight", "output.bias")


def transfer(
    old: Mapping[str, Tensor],
    fresh: Mapping[str, Tensor],
    source_parts: Sequence[Sequence[int]],
    target_parts: Sequence[Sequence[int]],
) -> dict[str, Tensor]:
    """The weights that training with a new vocabulary begins from.

    Args:
        old: every parameter of the old model once, as `Transformer.tensors` gives them.
        fresh: those of the new one, just initialised.
        source_parts: for every new source id, the old source ids that its row is the mean of.
        target_parts: the same for the target; with one joint vocabulary the same as `source_parts`.

    Raises:
        KeyError, IndexError: `old` is not of the same configuration, or the ids are not its own.
    """
    rows = dict.fromkeys(_SOURCE_ROWS, source_parts) | dict.fromkeys(_TARGET_ROWS, target_parts)
    return {
        name: _rows(old[name], tensor, rows[name]) if name in rows else old[name]
        for name, tensor in fresh.items()
    }


def _rows(old: Tensor, fresh: Tensor, parts: Sequence[Sequence[int]]) -> Tensor:
    """`fresh` with the rows that are made of old ones."""
    assert len(fresh) == len(parts), f"{len(parts)} pieces for {len(fresh)} rows"
    rows = fresh.clone()
    for row, ids in enumerate(parts):
        if ids:
            rows[row] = old[torch.tensor(ids)].mean(dim=0)
    return rows
