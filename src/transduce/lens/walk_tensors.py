"""Tensors of one real pass, whole, by the names they have in the walk (see shapes.py).

In:  a model, source ids, target ids, names. Out: the tensors of those names.
Does not know: text.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from transduce.lens.interventions import NoSuchPart
from transduce.lens.shapes import Walker
from transduce.model.transformer import Transformer

__all__ = ["walk_tensors"]


def walk_tensors(
    model: Transformer, source: Sequence[int], target: Sequence[int], names: Sequence[str]
) -> dict[str, Tensor]:
    """Run the model once, and keep the tensors of these names.

    Args:
        model: in evaluation mode; with whatever hooks are wanted.
        source: ids with the end symbol.
        target: ids with the start symbol.
        names: as `Walk.entries` has them.

    Raises:
        NoSuchPart: the pass makes no tensor of that name.
    """
    device = model.source_embedding.weight.device
    keeper = _Keeper(model, len(source), len(target), frozenset(names))
    with torch.inference_mode(), ExitStack() as stack:
        keeper.watch(stack)
        memory = model.encode(torch.tensor([list(source)], device=device))
        keeper.side = "decoder"
        if any(not name.startswith(("source_", "encoder.")) for name in names):
            logits = model.output(model.decode(torch.tensor([list(target)], device=device), memory))
            keeper.add("probabilities", logits.softmax(-1), "B T V", "softmax", walk_tensors)
    for name in names:
        if name not in keeper.kept:
            raise NoSuchPart(f"no tensor {name!r} in this pass; the trace's shapes list all names")
    return keeper.kept


class _Keeper(Walker):
    """Walks, and keeps what is asked for instead of writing down what passes."""

    def __init__(self, model: Transformer, src_len: int, tgt_len: int, names: frozenset[str]) -> None:
        super().__init__(model, src_len, tgt_len)
        self._wanted = names
        self.kept: dict[str, Tensor] = {}

    def add(
        self,
        name: str,
        value: Tensor,
        symbolic: str,  # noqa: ARG002
        formula: str,  # noqa: ARG002
        component: Any,  # noqa: ARG002
        parameters: Sequence[Tensor | None] = (),  # noqa: ARG002
    ) -> None:
        """Keep a tensor that is wanted; a copy, because some are written into later."""
        if name in self._wanted:
            self.kept[name] = value.detach().clone()
