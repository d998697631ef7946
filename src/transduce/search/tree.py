"""The tree of tokens that a search grows, and reads its hypotheses from.

In:  nodes (parent, token, log-probability), layer by layer.
Out: `Hypothesis`: the path from a root to a leaf, with its score.
Does not know: how the nodes were chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.search.hypothesis import Hypothesis

__all__ = ["ROOT", "Leaf", "Tree"]

ROOT = -1  # the parent of a sentence's first token


@dataclass(frozen=True)
class Leaf:
    """Where a hypothesis ends in the tree; the node of a finished one holds EOS."""

    node: int
    finished: bool


class Tree:
    """Every token that a search kept, as backpointers: re-ordering rows copies no histories."""

    def __init__(self) -> None:
        self._size = 0
        self._layers: list[tuple[Tensor, Tensor, Tensor]] = []

    def grow(
        self,
        parents: Int[Tensor, "*nodes"],
        tokens: Int[Tensor, "*nodes"],
        log_probs: Float[Tensor, "*nodes"],
    ) -> Int[Tensor, "*nodes"]:
        """Add one node below each parent (a node, or `ROOT`); return the new nodes."""
        self._layers.append((parents.flatten(), tokens.flatten(), log_probs.flatten()))
        nodes = torch.arange(self._size, self._size + parents.numel()).view(parents.shape)
        self._size += parents.numel()
        return nodes

    def read(
        self, leaves: Sequence[Sequence[Leaf]], penalty: Callable[[int], float]
    ) -> list[list[Hypothesis]]:
        """Return each leaf's hypothesis, scored with `penalty`."""
        columns = [torch.cat(column).tolist() for column in zip(*self._layers, strict=True)]
        parents, tokens, log_probs = columns or ([], [], [])

        def hypothesis(leaf: Leaf) -> Hypothesis:
            path, node = [], leaf.node
            while node != ROOT:
                path.append(node)
                node = parents[node]
            path.reverse()
            ids = tuple(tokens[node] for node in path)
            values = tuple(log_probs[node] for node in path)
            log_prob = 0.0
            for value in values:  # not sum(): since Python 3.12 it rounds otherwise than the search
                log_prob += value
            return Hypothesis(
                ids=ids[:-1] if leaf.finished else ids,
                score=log_prob / penalty(len(values)),
                log_prob=log_prob,
                token_log_probs=values,
                finished=leaf.finished,
            )

        return [[hypothesis(leaf) for leaf in sentence] for sentence in leaves]
