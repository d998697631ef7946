"""Model directories with random weights and tiny real vocabularies, for what is exported and imported."""

from __future__ import annotations

import functools
import random
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from transduce.batch.collate import SpecialIds, pad_rows
from transduce.model import Transformer, TransformerConfig
from transduce.recipe import Recipe, load_recipe
from transduce.text import Pair, TokenizerConfig, load_tokenizers, train_tokenizers
from transduce.translate.model_directory import ModelDirectory, write_model_directory
from transduce.translate.torch_engine import TorchEngine

# Few letters, so that vocabularies are tiny: no id comes twice, and a translation has one step for each.
WORDS = ["ab", "bad", "cab", "dada", "bäc", "c", "da", "abba", "cad"]

EOS = 3
SEARCH = {"max_extra_len": 40, "max_len_ratio": 0.0, "no_repeat_ngram": 1}


def sentences(count: int, seed: int = 0, longest: int = 7) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(count)]


@functools.cache
def vocabularies(joint: bool) -> Path:
    """A directory with tokenizer files, made once."""
    directory = Path(tempfile.mkdtemp(prefix="vocabularies"))
    pairs = [Pair(a, b, 0) for a, b in zip(sentences(300), sentences(300, seed=1), strict=True)]
    config = TokenizerConfig(vocab_size=20 if joint else 18, joint=joint, byte_fallback=False)
    train_tokenizers(pairs, config, directory)
    return directory


@torch.no_grad()
def random_weights(config: TransformerConfig, seed: int) -> Transformer:
    """A network whose every parameter is random, and that does not say one word again and again."""
    torch.manual_seed(seed)
    model = Transformer(config).eval()
    for parameter in model.parameters():
        parameter.add_(0.2 * torch.randn_like(parameter))
    for name, parameter in model.decoder.named_parameters():
        if name.endswith(("w_o.weight", "w_2.weight")):
            parameter.mul_(4)
    model.output.weight[EOS] *= 2  # sentences end
    return model


def make_directory(
    path: Path, *, seed: int = 0, joint: bool = True, search: dict | None = None, **model
) -> ModelDirectory:
    """A whole model directory; `model` are fields of `TransformerConfig`."""
    text = vocabularies(joint)
    source, target = load_tokenizers(text)
    config = TransformerConfig(
        **{
            "source_vocab_size": source.vocab_size,
            "target_vocab_size": target.vocab_size,
            "num_encoder_layers": 1,
            "num_decoder_layers": 2,
            "d_model": 16,
            "d_ff": 24,
            "num_heads": 2,
            "max_len": 96,
            "tie": "all" if joint else "target",
            **model,
        }
    )
    recipe = load_recipe(preset="tiny", data={"source_language": "en", "target_language": "de"})
    recipe = replace(
        recipe,
        model=config,
        tokenizer=replace(recipe.tokenizer, joint=joint),
        batch=replace(recipe.batch, max_len=48),
        search=replace(
            recipe.search,
            **{"max_extra_len": 40, "max_len_ratio": 0.0, "no_repeat_ngram": 1, **(search or {})},
        ),
    )
    network = random_weights(config, seed)
    write_model_directory(path, recipe, text, network.tensors(), "# A model with random weights\n")
    return ModelDirectory(path)


def torch_engine(directory: ModelDirectory) -> TorchEngine:
    """The engine that `Translator` would have."""
    target = directory.tokenizers[1]
    suppress = [target.unk_id, *target.newline_ids]
    return TorchEngine(directory.load_transformer(), ids_of(directory), suppress=suppress)


def ids_of(directory: ModelDirectory) -> SpecialIds:
    target = directory.tokenizers[1]
    return SpecialIds(target.pad_id, target.bos_id, target.eos_id)


@torch.no_grad()
def score_of(
    model: Transformer, recipe: Recipe, ids: SpecialIds, source: list[int], labels: list[int]
) -> float:
    """The search's score of a finished translation, by teacher forcing: what tells ties from errors."""
    from transduce.search.scores import length_penalty

    target = torch.tensor([[ids.bos_id, *labels]])
    log_probs = model(pad_rows([source], ids), target).log_softmax(-1)[0]
    total = log_probs[range(len(labels) + 1), [*labels, ids.eos_id]].sum().item()
    return total / length_penalty(recipe.search.length_penalty, recipe.search.alpha)(len(labels) + 1)
