"""A small model that has learnt nothing, for when there is none: every number on the way is real.

In:  nothing. Out: a `Lens`, labelled untrained. Its vocabulary is learnt on the spot from a few sentences.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from transduce.lens.lens import Lens, LensLimits
from transduce.model.config import TransformerConfig
from transduce.model.transformer import Transformer
from transduce.recipe import load_recipe
from transduce.text.tokenizer import Tokenizer, TokenizerConfig
from transduce.text.vocabulary import train_tokenizer
from transduce.translate.translator import Translator

__all__ = ["untrained_lens"]

_SENTENCES = (
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "I love you. Do you love me? The cat sat on the mat.",
    "A man in a blue shirt is standing on a ladder.",
    "Attention lets each word look at every other word of the sentence.",
    "Der Mann im blauen Hemd steht auf einer Leiter.",
    "Ich liebe dich. Die Katze saß auf der Matte, weil sie müde war.",
    "我爱你。猫坐在垫子上。注意力让每个词看到其他的词。",
    "我愛你。貓坐在墊子上。注意力讓每個詞看到其他的詞。",
)


def untrained_lens(seed: int = 1, limits: LensLimits | None = None) -> Lens:
    """Make one: 3 + 3 layers, 4 heads, d_model 64, as it would be before the first update.

    Args:
        seed: draws the weights; the same seed draws the same.
        limits: what one look may cost.
    """
    tokenizer = _vocabulary()
    config = TransformerConfig(
        source_vocab_size=tokenizer.vocab_size,
        target_vocab_size=tokenizer.vocab_size,
        pad_id=tokenizer.pad_id,
        num_encoder_layers=3,
        num_decoder_layers=3,
        d_model=64,
        d_ff=128,
        num_heads=4,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(config).eval()
    recipe = load_recipe()
    # Without training nothing tells it to stop.
    search = replace(recipe.search, beam_size=4, max_extra_len=2, max_len_ratio=1.0)
    translator = Translator.over_torch(
        model, replace(recipe, model=config, search=search), tokenizer, tokenizer
    )
    return Lens(translator, limits=limits, name="untrained", trained=False)


def _vocabulary() -> Tokenizer:
    with tempfile.TemporaryDirectory() as directory:
        settings = TokenizerConfig(kind="bpe", vocab_size=560)
        return train_tokenizer(_SENTENCES, settings, Path(directory) / "tokenizer.model")
