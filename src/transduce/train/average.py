"""The moving average of the weights, kept beside them.

To the same end the paper averages checkpoints (section 6.1). The average never influences an update:
it is read at validation and at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from transduce.model.transformer import Transformer

__all__ = ["MovingAverage"]


class MovingAverage:
    """A ← d A + (1 - d) W after update t, with d = min(decay, (1 + t) / (10 + t)).

    The shorter memory of the first updates lets go of the initial weights.
    """

    def __init__(self, model: Transformer, decay: float) -> None:
        """Begin with the model's weights.

        Args:
            model: whose weights are averaged; as much memory again is taken, on the same device.
            decay: what stays of the average at an update; 1 / (1 - decay) updates are its memory.
        """
        self._decay = decay
        self._weights = model.tensors()
        self._averages = {name: weight.clone() for name, weight in self._weights.items()}

    @torch.no_grad()
    def update(self, num_updates: int) -> None:
        """Take in the weights after an update.

        Args:
            num_updates: t, how many updates have moved the weights; 1 is the first.
        """
        decay = min(self._decay, (1 + num_updates) / (10 + num_updates))
        torch._foreach_lerp_([*self._averages.values()], [*self._weights.values()], 1.0 - decay)

    def tensors(self) -> dict[str, Tensor]:
        """The averages by the names of the weights."""
        return dict(self._averages)

    @torch.no_grad()
    def restart(self, tensors: Mapping[str, Tensor] | None = None) -> None:
        """Go on from saved averages, or else from the model's weights as they are now."""
        for name, average in self._averages.items():
            average.copy_((tensors or self._weights)[name])

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has the average's weights while this is open, and its own again after, bit for bit."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        # One tensor at a time, in the same memory: little is copied at once, and whatever holds the
        # parameters' addresses (a compiled model, the optimizer) stays valid.
        for name, average in self._averages.items():
            held = average.clone()
            average.copy_(self._weights[name])
            self._weights[name].copy_(held)
