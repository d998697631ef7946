"""The two model shapes of the training benchmark, and what a pass over the text costs them.

FLOPs are those of the matrix products, forward and backward, on real tokens: padding, norms, softmax,
dropout and the optimizer are overhead, whoever does them. A product of n rows with an a × b matrix is
2·n·a·b forward and twice that backward (once for the rows' gradient, once for the matrix's).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["SHAPES", "Shape", "training_flops"]


@dataclass(frozen=True)
class Shape:
    """An encoder-decoder with the paper's layers and one matrix for both embeddings and the output."""

    d_model: int
    d_ff: int
    num_heads: int
    num_layers: int
    """Of each stack."""


SHAPES = {
    "small": Shape(d_model=256, d_ff=1024, num_heads=4, num_layers=3),
    "base": Shape(d_model=512, d_ff=2048, num_heads=8, num_layers=6),
}


def training_flops(shape: Shape, vocab_size: int, lengths: Iterable[tuple[int, int]]) -> int:
    """FLOPs of one forward and backward pass over sentence pairs.

        a source token   encoder layers · (w_q w_k w_v w_o: 4 d² + feed-forward: 2 d d_ff)
                         + decoder layers · (cross-attention's w_k w_v: 2 d²)
        a target token   decoder layers · (self w_q w_k w_v w_o, cross w_q w_o: 6 d² + 2 d d_ff)
                         + output: d vocab
        attention        scores and weighted sum, 2 d for each pair of positions: in the encoder
                         source², in the decoder target² (the causal half is not deducted) and
                         target · source

    times 2 (multiply and add) times 3 (forward, and twice that backward).

    Args:
        shape: sizes.
        vocab_size: output classes.
        lengths: source and target tokens of each pair, end symbols counted.
    """
    d, d_ff, layers = shape.d_model, shape.d_ff, shape.num_layers
    a_source_token = layers * (4 * d * d + 2 * d * d_ff) + layers * 2 * d * d
    a_target_token = layers * (6 * d * d + 2 * d * d_ff) + d * vocab_size
    products = 0
    for source, target in lengths:
        products += a_source_token * source + a_target_token * target
        products += layers * 2 * d * (source * source + target * target + target * source)
    return 3 * 2 * products
