"""Files to sentences to token ids, and back: lines, parallel corpora, cleaning, the vocabulary.

In: paths and streams. Out: `Corpus` of `Pair`s, `CheckReport`, `Tokenizer`.
Does not know: tensors, batches, models. No torch here.

The names below are imported when first used: reading lines loads neither lxml nor SentencePiece.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.text.check import CheckReport, Example, Finding, check_corpus
    from transduce.text.cleaning import CleanCorpus, CleaningConfig, CleaningCounts, clean
    from transduce.text.corpus import JsonLinesCorpus, TsvCorpus, TwoFileCorpus, open_corpus
    from transduce.text.lines import count_lines, iter_lines, open_bytes, read_lines
    from transduce.text.pairs import Corpus, MemoryCorpus, Pair
    from transduce.text.profile import Profile, learn_profile
    from transduce.text.tmx import TmxCorpus
    from transduce.text.tokenizer import (
        Tokenizer,
        TokenizerConfig,
        load_tokenizers,
        normalise,
    )
    from transduce.text.vocabulary import train_tokenizer, train_tokenizers

__all__ = [
    "CheckReport",
    "CleanCorpus",
    "CleaningConfig",
    "CleaningCounts",
    "Corpus",
    "Example",
    "Finding",
    "JsonLinesCorpus",
    "MemoryCorpus",
    "Pair",
    "Profile",
    "TmxCorpus",
    "Tokenizer",
    "TokenizerConfig",
    "TsvCorpus",
    "TwoFileCorpus",
    "check_corpus",
    "clean",
    "count_lines",
    "iter_lines",
    "learn_profile",
    "load_tokenizers",
    "normalise",
    "open_bytes",
    "open_corpus",
    "read_lines",
    "train_tokenizer",
    "train_tokenizers",
]

_FILES = {
    "check": ("CheckReport", "Example", "Finding", "check_corpus"),
    "cleaning": ("CleanCorpus", "CleaningConfig", "CleaningCounts", "clean"),
    "corpus": ("JsonLinesCorpus", "TsvCorpus", "TwoFileCorpus", "open_corpus"),
    "lines": ("count_lines", "iter_lines", "open_bytes", "read_lines"),
    "pairs": ("Corpus", "MemoryCorpus", "Pair"),
    "profile": ("Profile", "learn_profile"),
    "tmx": ("TmxCorpus",),
    "tokenizer": (
        "Tokenizer",
        "TokenizerConfig",
        "load_tokenizers",
        "normalise",
    ),
    "vocabulary": ("train_tokenizer", "train_tokenizers"),
}


def __getattr__(name: str) -> object:
    """Find a public name in the file that has it."""
    for file, names in _FILES.items():
        if name in names:
            found = getattr(import_module(f"transduce.text.{file}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module 'transduce.text' has no attribute {name!r}")
