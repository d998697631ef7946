"""What the decoder of `inference.py` remembers between steps; as `cache.py`, in one piece for all layers.

Axes: layers, rows (hypotheses), sentences, heads, past_len, src_len, d_k, d_v.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["InferenceCache", "LayerMemory"]

_FIRST_CAPACITY = 32  # tokens; the buffers double when they are full


class InferenceCache:
    """A decoding in progress: `step` fills it, `select` re-orders it.

    Several consecutive rows (hypotheses of one sentence) share one sentence's memory.
    """

    def __init__(
        self,
        keys: Float[Tensor, "layers sentences heads d_k src_len"],
        values: Float[Tensor, "layers sentences heads src_len d_v"],
        visible: Bool[Tensor, "sentences 1 1 src_len"] | None,
    ) -> None:
        """Begin with one row a sentence.

        Args:
            keys: each layer's cross-attention keys, turned for the product with queries.
            values: each layer's cross-attention values.
            visible: the source's padding mask; None where nothing is padded.
        """
        layers, sentences, heads, d_k, _ = keys.shape
        self.num_rows = self.num_sentences = sentences
        self.length = 0
        self._past_keys = _Buffer(keys.new_empty(layers, _FIRST_CAPACITY, sentences, heads, d_k))
        self._past_values = _Buffer(
            values.new_empty(layers, _FIRST_CAPACITY, sentences, heads, values.shape[4])
        )
        self._remember(keys, values, visible)

    def _remember(self, keys: Tensor, values: Tensor, visible: Tensor | None) -> None:
        self._keys, self._values, self._visible = keys, values, visible
        self._memory_keys = keys.flatten(1, 2).unbind(0)
        self._memory_values = values.flatten(1, 2).unbind(0)

    def layers(self) -> Iterator[LayerMemory]:
        """What each layer looks at in the next step, one token longer than the last."""
        end = self.length + 1
        new_keys, keys = self._past_keys.views(end)
        new_values, values = self._past_values.views(end)
        keys_turned, each_values = keys.transpose(2, 3).unbind(0), values.unbind(0)
        for layer in range(len(new_keys)):
            yield LayerMemory(
                new_keys[layer],
                new_values[layer],
                keys_turned[layer],
                each_values[layer],
                self._memory_keys[layer],
                self._memory_values[layer],
                self._visible,
                self.num_sentences,
            )

    def select(self, rows: Int[Tensor, " new_rows"]) -> InferenceCache:
        """Row i becomes what row rows[i] was; the cache itself is changed and returned.

        `rows` keeps the grouping: it holds equally many consecutive rows of each sentence kept.
        """
        group = self.num_rows // self.num_sentences
        kept, counts = torch.unique_consecutive(rows // group, return_counts=True)
        assert bool((counts == counts[0]).all()), "rows of the kept sentences must be equally many"
        if len(kept) != self.num_sentences or bool((kept[1:] <= kept[:-1]).any()):
            visible = None if self._visible is None else self._visible.index_select(0, kept)
            self._remember(self._keys.index_select(1, kept), self._values.index_select(1, kept), visible)
            self.num_sentences = len(kept)
        for buffer in (self._past_keys, self._past_values):
            buffer.select(rows, self.length)
        self.num_rows = len(rows)
        return self


class LayerMemory(NamedTuple):
    """What one layer looks at in one step."""

    new_keys: Float[Tensor, "rows heads d_k"]
    """Where the newest token's keys go; `keys` has them then."""
    new_values: Float[Tensor, "rows heads d_v"]
    keys: Float[Tensor, "rowheads d_k past_len"]
    values: Float[Tensor, "rowheads past_len d_v"]
    memory_keys: Float[Tensor, "sentenceheads d_k src_len"]
    memory_values: Float[Tensor, "sentenceheads src_len d_v"]
    visible: Bool[Tensor, "sentences 1 1 src_len"] | None
    num_sentences: int


class _Buffer:
    """Keys or values of all layers, with room to grow, twice: rows are copied from one to the other.

    A new tensor at each re-ordering would pay for its page faults, three times what the copy takes.
    Tokens come first, so that the newest ones are written side by side.
    """

    def __init__(self, room: Float[Tensor, "layers capacity rows heads width"]) -> None:
        self._held = room
        self._spare: Tensor | None = None

    def views(self, end: int) -> tuple[tuple[Tensor, ...], Float[Tensor, "layers rowheads end width"]]:
        """Where each layer's token `end` - 1 goes, (rows, heads, width); and all tokens up to it."""
        if end > self._held.shape[1]:
            layers, capacity, *sizes = self._held.shape
            larger = self._held.new_empty(layers, 2 * capacity, *sizes)
            larger[:, : end - 1] = self._held[:, : end - 1]
            self._held, self._spare = larger, None
        return self._held[:, end - 1].unbind(0), self._held[:, :end].flatten(2, 3).transpose(1, 2)

    def select(self, rows: Int[Tensor, " new_rows"], used: int) -> None:
        """Row i becomes what row rows[i] was; only the first `used` tokens are copied."""
        layers, capacity, _, heads, width = self._held.shape
        size = layers * capacity * len(rows) * heads * width
        if self._spare is None or self._spare.numel() < size:
            self._spare = self._held.new_empty(size)
        chosen = self._spare.flatten()[:size].view(layers, capacity, len(rows), heads, width)
        torch.index_select(self._held[:, :used], 2, rows, out=chosen[:, :used])
        self._held, self._spare = chosen, self._held
