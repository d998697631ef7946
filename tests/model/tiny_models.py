"""Models and inputs small enough that a whole forward pass takes a millisecond."""

from __future__ import annotations

import itertools

import torch

from transduce.model import Transformer, TransformerConfig

PAD, BOS = 0, 1
VOCAB = 19

TINY = {
    "source_vocab_size": VOCAB,
    "target_vocab_size": VOCAB,
    "pad_id": PAD,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "d_model": 12,
    "d_ff": 20,
    "num_heads": 2,
    "dropout": 0.0,
    "max_len": 64,
}

VARIANTS = [
    {"norm": norm, "position": position, "tie": tie, "activation": activation}
    for norm, position, tie, activation in itertools.product(
        ("post", "pre"),
        ("sinusoidal", "learned", "rotary"),
        ("all", "target", "none"),
        ("relu", "gelu", "swiglu"),
    )
]
A_FEW = [*VARIANTS[::13], {"d_k": 4, "d_v": 7, "bias": False, "output_bias": True, "position_offset": 2}]


def name_of(variant: dict) -> str:
    return "-".join(str(value) for value in variant.values())


def config_of(**changes) -> TransformerConfig:
    return TransformerConfig(**{**TINY, **changes})


def model_of(seed: int = 0, **changes) -> Transformer:
    """A model in evaluation mode whose every parameter, biases and norms included, is random."""
    torch.manual_seed(seed)
    model = Transformer(config_of(**changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def ids_of(rows: int, length: int, seed: int = 1) -> torch.Tensor:
    """Rows of real tokens, no padding."""
    return torch.randint(2, VOCAB, (rows, length), generator=torch.Generator().manual_seed(seed))


def padded(rows: list[list[int]], width: int = 0) -> torch.Tensor:
    """Rows of unequal length, filled on the right."""
    width = max(width, *(len(row) for row in rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
