"""Translators over random networks and real tokenizers: nothing is learnt, everything else is real."""

from __future__ import annotations

import torch

from transduce.batch.collate import SpecialIds
from transduce.model import Transformer, TransformerConfig
from transduce.search.config import SearchConfig
from transduce.text import TokenizerConfig, train_tokenizer
from transduce.translate.torch_engine import TorchEngine
from transduce.translate.translator import Translator

LINES = [
    "turn on the light, please",
    "the light switch is broken (see page 12)",
    "der Lichtschalter ist kaputt, siehe Seite 12",
    "schalte das Licht an; das Licht ist aus",
    "hello {name}, you have %d new messages",
    "hallo {name}, du hast %d neue Nachrichten",
    "das Haus, die Häuser, der Schalter und die Tür",
    "看见 开关 灯 \u201cLicht\u201d 「灯」",
] * 8


def make_tokenizer(directory, kind="bpe", vocab_size=420):
    """Learn a vocabulary from `LINES`; what is not in them is spelt in bytes."""
    config = TokenizerConfig(kind=kind, vocab_size=vocab_size)
    return train_tokenizer(LINES, config, directory / f"{kind}.model")


def make_engine(tokenizer, seed=0, scale=3.0, **changes):
    """A random network that ends its sentences sometimes and prefers some words."""
    torch.manual_seed(seed)
    settings = {"d_model": 32, "d_ff": 64, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 2}
    size = tokenizer.vocab_size
    config = TransformerConfig(
        source_vocab_size=size, target_vocab_size=size, pad_id=tokenizer.pad_id, norm="pre",
        **{**settings, **changes},
    )  # fmt: skip
    model = Transformer(config).eval()
    with torch.no_grad():
        model.output.weight.mul_(scale)
    ids = SpecialIds(tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id)
    return TorchEngine(model, ids, suppress=[tokenizer.unk_id, *tokenizer.newline_ids])


def make_translator(tokenizer, engine=None, **search):
    """A translator whose outputs are short."""
    config = SearchConfig(**{"beam_size": 3, "max_extra_len": 16, "max_len_ratio": 0.5, **search})
    return Translator(engine or make_engine(tokenizer), tokenizer, tokenizer, config, max_len=64)
