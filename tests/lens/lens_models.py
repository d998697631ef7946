"""Lenses over random networks and a real tokenizer: nothing is learnt, every number is real."""

from __future__ import annotations

import itertools

import torch

from transduce.batch.collate import SpecialIds
from transduce.lens import Lens
from transduce.model import Transformer, TransformerConfig
from transduce.translate.torch_engine import TorchEngine
from translate.random_translators import make_translator

FAMILIES = [
    {"norm": norm, "position": position, "tie": tie, "activation": activation}
    for (norm, position), (tie, activation) in zip(
        itertools.product(("post", "pre"), ("sinusoidal", "learned", "rotary")),
        itertools.cycle([("all", "relu"), ("target", "gelu"), ("none", "swiglu"), ("all", "swish")]),
        strict=False,
    )
]
FAMILIES += [
    {
        "d_k": 6,
        "d_v": 5,
        "bias": False,
        "output_bias": True,
        "position_offset": 2,
        "sinusoid": "tensor2tensor",
    },
    {"num_heads": 1, "num_encoder_layers": 3, "num_decoder_layers": 1, "position": "rotary"},
]
"""Every norm and position, with ties, activations and widths spread over them."""

SENTENCE = "turn on the light, please"
TEXTS = [
    SENTENCE,
    "看见 开关 灯",
    "mixed 灯 and Licht: (see page 12)",
    "مرحبا يا ضوء",
    "naïve 爿 😀 👩\u200d👩\u200d👧",
    "x",
    "the light " * 20,
]
"""Latin, Chinese, mixed, right to left, spelt in bytes, one token, long."""


def name_of(changes: dict) -> str:
    return "-".join(str(value) for value in changes.values())


def make_network(tokenizer, *, seed: int = 0, **changes) -> Transformer:
    """Biases and norms are random too, so that none can be forgotten."""
    settings = {"d_model": 32, "d_ff": 64, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 2}
    size = tokenizer.vocab_size
    vocabulary = {"source_vocab_size": size, "target_vocab_size": size, "pad_id": tokenizer.pad_id}
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(**{**vocabulary, "norm": "pre", **settings, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        if model.output.bias is not None:
            model.output.bias[tokenizer.eos_id] += 4  # so that outputs end
    return model


def make_lens(tokenizer, *, seed: int = 0, heads=None, limits=None, search=None, **changes) -> Lens:
    """A lens over such a network; its translations end."""
    ids = SpecialIds(tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id)
    suppress = [tokenizer.unk_id, *tokenizer.newline_ids]
    engine = TorchEngine(make_network(tokenizer, seed=seed, **changes), ids, suppress=suppress)
    settings = {"max_extra_len": 5, **(search or {})}
    return Lens(make_translator(tokenizer, engine, **settings), heads=heads, limits=limits, name="random")
