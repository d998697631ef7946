"""Shared by all tests: where real text lies, a tiny corpus that can be learnt, a trained tiny model."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED_DATA = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def _two_threads() -> None:
    """Tests run on laptops and beside each other: two threads, always the same number."""
    os.environ.setdefault("OMP_NUM_THREADS", "2")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real parallel text beside the checkout; a clone without it skips."""
    if not SHARED_DATA.is_dir():
        pytest.skip("real text (../shared/data) is not here")
    return SHARED_DATA


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


@pytest.fixture(scope="session")
def write_pairs() -> Callable[[Path, list[tuple[str, str]]], tuple[Path, Path]]:
    """Write pairs as `DIR/NAME.en` and `.de`; return both paths."""

    def write(stem: Path, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
        stem.parent.mkdir(parents=True, exist_ok=True)
        files = (stem.with_suffix(".en"), stem.with_suffix(".de"))
        for side, file in enumerate(files):
            file.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
        return files

    return write


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
    "train.max_steps=220",
    "train.validate_every=110",
    "train.validate_sentences=50",
    "train.checkpoint_every=55",
    "train.keep_checkpoints=3",
    "train.average_checkpoints=1",
    "train.log_every=20",
    "search.beam_size=2",
]
"""A model that learns `digit_pairs` in a few seconds."""


@pytest.fixture(scope="session")
def digit_run(tmp_path_factory: pytest.TempPathFactory, write_pairs) -> Path:
    """A finished run that translates `digit_pairs`, made once by the real pipeline."""
    from rich.console import Console

    from transduce.pipeline import train
    from transduce.recipe import load_recipe

    directory = tmp_path_factory.mktemp("digits")
    source, target = write_pairs(directory / "train", digit_pairs(3000))
    valid_source, valid_target = write_pairs(directory / "valid", digit_pairs(60, seed=1))
    recipe = load_recipe(
        overrides=TINY_SETTINGS,
        data={
            "source": str(source),
            "target": str(target),
            "valid_source": str(valid_source),
            "valid_target": str(valid_target),
            "source_language": "en",
            "target_language": "de",
        },
    )
    run = directory / "run"
    with (directory / "progress.txt").open("w") as stream:
        outcome = train(recipe, run, Console(file=stream))
    assert outcome is not None
    assert outcome.finished
    return run
