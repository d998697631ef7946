"""What the decoder remembers between steps, so that a step costs O(n) and not O(n²) (M12).

    self-attention    one key and one value a layer for every token so far; grows by one a step
    cross-attention   the keys and values of the encoder's memory; made once, never changes

Rows: several consecutive rows (hypotheses of one sentence) may share one memory row; then
`rows = sentences · group`, and the memory is held once a sentence.
Axes: rows, sentences, heads, past_len, src_len, d_k.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transduce.model.attention import KeysValues

__all__ = ["DecoderCache", "LayerCache"]

_FIRST_CAPACITY = 32  # tokens; the buffers double when they are full


class LayerCache:
    """Keys and values of one layer's self-attention, in buffers with room to grow."""

    def __init__(self) -> None:
        self.length = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def append(self, new: KeysValues) -> KeysValues:
        """Store the newest tokens' keys and values in place, and return all there are."""
        end = self.length + new.keys.shape[2]
        self._keys = _with_room(self._keys, new.keys, self.length, end)
        self._values = _with_room(self._values, new.values, self.length, end)
        self._keys[:, :, self.length : end] = new.keys
        self._values[:, :, self.length : end] = new.values
        self.length = end
        return KeysValues(self._keys[:, :, :end], self._values[:, :, :end])

    def select(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Row i becomes what row rows[i] was."""
        if self._keys is not None and self._values is not None:
            self._keys = _selected(self._keys, rows, self.length)
            self._values = _selected(self._values, rows, self.length)

    @property
    def num_bytes(self) -> int:
        """Bytes of the tokens held (the room to grow not counted)."""
        held = [t[:, :, : self.length] for t in (self._keys, self._values) if t is not None]
        return sum(t.numel() * t.element_size() for t in held)


class DecoderCache:
    """The decoder's whole memory of a decoding in progress: `step` fills it, `select` reorders it."""

    def __init__(
        self, memory: list[KeysValues], memory_visible: Bool[Tensor, "sentences 1 1 src_len"]
    ) -> None:
        self.memory = memory
        self.memory_visible = memory_visible
        self.layers = [LayerCache() for _ in memory]
        self.num_rows = len(memory_visible)
        self.length = 0

    def select(self, rows: Int[Tensor, " new_rows"]) -> DecoderCache:
        """Row i becomes what row rows[i] was; the cache itself is changed and returned.

        `rows` keeps the grouping: it holds equally many consecutive rows of each sentence kept.
        The memory moves only when sentences leave, not when hypotheses change places.
        """
        num_sentences = len(self.memory_visible)
        group = self.num_rows // num_sentences
        sentence_of_row = rows // group
        kept, counts = torch.unique_consecutive(sentence_of_row, return_counts=True)
        assert bool((counts == counts[0]).all()), "rows of the kept sentences must be equally many"
        if len(kept) != num_sentences or not torch.equal(
            kept, torch.arange(num_sentences, device=kept.device)
        ):
            self.memory = [KeysValues(m.keys[kept], m.values[kept]) for m in self.memory]
            self.memory_visible = self.memory_visible[kept]
        for layer in self.layers:
            layer.select(rows)
        self.num_rows = len(rows)
        return self

    @property
    def num_bytes(self) -> dict[str, int]:
        """Bytes held for self-attention (grows) and for cross-attention (constant)."""
        cross = sum(t.numel() * t.element_size() for m in self.memory for t in m)
        return {"self": sum(layer.num_bytes for layer in self.layers), "cross": cross}


def _with_room(buffer: Tensor | None, new: Tensor, used: int, needed: int) -> Tensor:
    """`buffer`, or a larger copy of it that holds `needed` tokens."""
    if buffer is not None and needed <= buffer.shape[2]:
        return buffer
    capacity = max(_FIRST_CAPACITY, needed) if buffer is None else max(2 * buffer.shape[2], needed)
    larger = new.new_empty(new.shape[0], new.shape[1], capacity, new.shape[3])
    if buffer is not None:
        larger[:, :, :used] = buffer[:, :, :used]
    return larger


def _selected(buffer: Tensor, rows: Tensor, used: int) -> Tensor:
    """A buffer of the same capacity that holds the chosen rows; only the used part is copied."""
    chosen = buffer.new_empty(len(rows), *buffer.shape[1:])
    torch.index_select(buffer[:, :, :used], 0, rows, out=chosen[:, :, :used])
    return chosen
