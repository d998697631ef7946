"""A language that is learnt in seconds, and a recipe that learns it: shared by tests of every room."""

from __future__ import annotations

import random
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARED_DATA = ROOT.parent / "shared" / "data"

_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_ZAHLEN = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]


def digit_pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """`three one` → `drei eins`: word by word, learnt in seconds."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        digits = [rng.randrange(10) for _ in range(rng.randint(2, 7))]
        pairs.append((" ".join(_NUMBERS[d] for d in digits), " ".join(_ZAHLEN[d] for d in digits)))
    return pairs


TINY_SETTINGS = [
    "tokenizer.vocab_size=320",
    "model.num_encoder_layers=1",
    "model.num_decoder_layers=1",
    "model.d_model=64",
    "model.d_ff=128",
    "model.num_heads=2",
    "model.dropout=0.0",
    "batch.batch_tokens=512",
    "batch.max_len=32",
    "train.learning_rate=5e-3",
    "train.warmup_steps=30",
    "train.schedule=linear",
    "train.max_steps=440",
    "train.validate_every=220",
    "train.validate_sentences=50",
    "train.checkpoint_every=110",
    "train.keep_checkpoints=3",
    "train.average_checkpoints=1",
    "train.log_every=20",
    "search.beam_size=2",
]
"""A model that learns `digit_pairs` in a few seconds."""
