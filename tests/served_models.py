"""Model directories to serve, made in a second: random networks, real tokenizers, real exports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from transduce.export.ctranslate2 import Vocabulary, save_ctranslate2
from transduce.recipe import load_recipe
from transduce.translate.exported import Exported
from transduce.translate.model_directory import write_model_directory
from translate.random_translators import LINES, make_engine, make_tokenizer

WORDS = sorted({word.strip(",;:()") for line in LINES for word in line.split() if word.isascii()})
MAX_LEN = 48


def write_model(
    directory: Path, *, seed: int = 0, source: str = "en", target: str = "de", scale: float = 3.0
) -> Path:
    """Write an export with its tokenizer into `directory`: what a person copies to a server."""
    (directory / "ct2").mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(directory)
    (directory / "bpe.model").rename(directory / "tokenizer.model")
    network = make_engine(tokenizer, seed, scale).model
    vocabulary = Vocabulary.of(tokenizer)
    tensors = {name: tensor.numpy() for name, tensor in network.tensors().items()}
    save_ctranslate2(directory / "ct2", network.config, tensors, vocabulary, vocabulary, num_positions=256)
    search = {"beam_size": 2, "max_extra_len": 8, "max_len_ratio": 0.5}
    Exported(
        weights_sha256="", weights_bytes=0, weights_modified=0, quantization="float32",
        pad_id=tokenizer.pad_id, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id,
        suppress=(tokenizer.unk_id, *tokenizer.newline_ids), max_len=MAX_LEN, longest=256,
        source_language=source, target_language=target, search=search, made_with={},
    ).write(directory / "ct2")  # fmt: skip
    return directory


def write_torch_model(directory: Path, *, seed: int = 0) -> Path:
    """Write a model directory without an export: it needs torch, and can be made to write what it must."""
    text = directory.parent / "text"
    text.mkdir()
    tokenizer = make_tokenizer(text)
    (text / "bpe.model").rename(text / "tokenizer.model")
    network = make_engine(tokenizer, seed).model
    recipe = load_recipe(
        overrides=[
            "search.beam_size=2",
            "search.max_extra_len=8",
            "search.max_len_ratio=0.5",
            "batch.max_len=49",
        ],
        data={"source_language": "en", "target_language": "de"},
    )
    recipe = replace(recipe, model=network.config)
    write_model_directory(directory, recipe, text, network.tensors(), "# A model that learnt nothing\n")
    return directory
