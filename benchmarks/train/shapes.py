"""The two model shapes of the training benchmark."""

from __future__ import annotations

from dataclasses import dataclass

from transduce.model.config import TransformerConfig

__all__ = ["SHAPES", "Shape", "model_config"]


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


def model_config(shape: Shape, vocab_size: int, pad_id: int, dropout: float = 0.1) -> TransformerConfig:
    """`shape` as the paper wires it."""
    return TransformerConfig(
        source_vocab_size=vocab_size,
        target_vocab_size=vocab_size,
        pad_id=pad_id,
        num_encoder_layers=shape.num_layers,
        num_decoder_layers=shape.num_layers,
        d_model=shape.d_model,
        d_ff=shape.d_ff,
        num_heads=shape.num_heads,
        dropout=dropout,
        norm="post",
    )
