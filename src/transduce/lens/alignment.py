"""Which source token each output token came from, by cross-attention heads that were chosen by evidence.

In:  a `Trace`, and the heads to ask. Out: pairs of tokens and of words.
Does not know: how the heads were chosen (see evidence.py).

The end symbol, on which heads rest that have nothing to do, is left out. Attention is no proof of alignment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from transduce.translate.alignment import pharaoh, word_alignment, words
from transduce.translate.alignment_heads import HeadAlignment

if TYPE_CHECKING:
    from transduce.lens.traces import Trace

__all__ = ["TokenAlignment", "align", "strongest"]


@dataclass(frozen=True)
class TokenAlignment:
    """What the heads said."""

    pairs: tuple[tuple[int, int], ...]
    """(index in the trace's source, index in its target), one for each output token."""
    word_pairs: tuple[tuple[int, int], ...]
    """(source word, target word), each once."""
    heads: HeadAlignment

    @property
    def pharaoh(self) -> str:
        """The words' pairs as `0-0 1-2`."""
        return pharaoh(self.word_pairs)


def align(trace: Trace, heads: HeadAlignment) -> TokenAlignment:
    """Ask the heads about a trace's output.

    Args:
        trace: whose output is aligned.
        heads: which cross-attention heads.
    """
    src_len = sum(token.kind != "eos" for token in trace.source)
    tgt_len = sum(token.kind not in ("bos", "eos") for token in trace.target)
    if not (src_len and tgt_len and heads.heads):
        return TokenAlignment((), (), heads)
    layers = {layer: trace.attention("cross", layer).record.weights[0] for layer, _ in heads.heads}
    weights = torch.stack([layers[layer][head] for layer, head in heads.heads]).mean(0).cpu()
    found = strongest(weights, src_len, tgt_len, heads.row)
    source, target = ([token.piece for token in side] for side in (trace.source[:src_len], trace.target[1:]))
    plain = [(s, t - 1) for s, t in found]
    return TokenAlignment(found, word_alignment(plain, words(source), words(target[:tgt_len])), heads)


def strongest(
    weights: Tensor, src_len: int, tgt_len: int, row: Literal["predicting", "reading"]
) -> tuple[tuple[int, int], ...]:
    """For each output token the source token with the most weight.

    Args:
        weights: (rows, keys); row i reads token i of the target (0 is the start symbol).
        src_len: keys that are text.
        tgt_len: output tokens, without start and end symbol.
        row: which row tells about a token.

    Returns:
        (source token, target token), the start symbol being target token 0.
    """
    first = 0 if row == "predicting" else 1
    best = weights[first : first + tgt_len, :src_len].argmax(-1).tolist()
    return tuple((s, t) for t, s in enumerate(best, 1))
