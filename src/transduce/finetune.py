"""Training that begins from a finished model: what it hands on, and whether it may.

    inherit        the settings that a model hands on to a recipe, before the recipe is resolved
    open_origin    the model, checked against the recipe; None when a run does not (or no longer) need it
    begin_from     its weights into a new network, row by row where the vocabulary is new

The model is needed until the run has a good checkpoint; from then on it may be gone. Until then it
must be the very one that the run began with, so that a run that was killed early ends the same.
A model directory is a stranger's file: names and shapes are compared before any memory is taken
for them, and the numbers must be finite.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.errors import CheckpointError, ModelError, RecipeError, TransduceError
from transduce.files import file_sha256
from transduce.prepare import Prepared, Run
from transduce.recipe import Recipe, differences, read_recipe
from transduce.text.piece_map import map_pieces
from transduce.text.tokenizer import Tokenizer
from transduce.translate.model_directory import ModelDirectory

if TYPE_CHECKING:
    from torch import Tensor

    from transduce.model.transformer import Transformer

__all__ = ["STARTED_FROM", "Origin", "begin_from", "inherit", "open_origin"]

STARTED_FROM = "started_from"  # in made_with: the fingerprint of the model that a run began from
_FROM_TOKENIZER = ("source_vocab_size", "target_vocab_size", "pad_id")
# What a model's form does not depend on, so that a new run may choose it.
_FREE = ("dropout", "attention_dropout", "activation_dropout")
_LANGUAGE_FIELDS = ("source_language", "target_language", "tokenized")


@dataclass(frozen=True)
class Origin:
    """The model that a run begins from."""

    fingerprint: str
    """SHA-256 of weights and vocabulary."""
    tokenizers: tuple[Tokenizer, Tokenizer]
    tensors: Mapping[str, Tensor]


def inherit(run: Path, model: str) -> dict[str, Any]:
    """The tables that `model` hands on to a recipe: its form, vocabulary settings and languages.

    A run that has begun hands on its own: the model may be gone by then.

    Raises:
        ModelError: there is no such model, or its recipe or vocabulary cannot be read.
    """
    begun = Run(run).recipe
    recipe = read_recipe(begun) if begun.exists() else None
    if recipe is None or recipe.start.from_model != model:
        recipe = ModelDirectory(Path(model)).recipe
    data = asdict(recipe.data)
    return {
        "description": recipe.description,
        "data": {name: data[name] for name in _LANGUAGE_FIELDS},
        "tokenizer": {name: value for name, value in asdict(recipe.tokenizer).items() if value is not None},
        "model": {k: v for k, v in asdict(recipe.model).items() if k not in _FROM_TOKENIZER},
    }


def open_origin(recipe: Recipe, run: Run) -> Origin | None:
    """The model to begin from; None for a run that begins without one, or has a checkpoint already.

    Raises:
        ModelError: there is no such model, it cannot be read, or it is inconsistent.
        RecipeError: the recipe asks for another form than the model's.
        CheckpointError: it is not the model that the run began with.
    """
    if not recipe.start.from_model:
        return None
    if run.is_finished and run.recipe.exists() and not differences(read_recipe(run.recipe), recipe):
        return None
    from transduce.train.checkpoint import newest_good_checkpoint

    if newest_good_checkpoint(run.checkpoints, lambda _: None):  # the loop tells what is damaged
        return None
    directory = ModelDirectory(Path(recipe.start.from_model))
    _refuse_contradictions(recipe, directory)
    origin = Origin(_fingerprint(directory), directory.tokenizers, _checked_tensors(directory))
    if run.recipe.exists():
        before = read_recipe(run.recipe)
        begun_with = before.made_with.get(STARTED_FROM)
        if before.start == recipe.start and begun_with != origin.fingerprint:
            raise CheckpointError(
                f"{directory.path} is not the model that {run.path} began with, and there is no checkpoint "
                f"to go on from: put that model back, or choose a new --out"
            )
    return origin


def begin_from(origin: Origin, recipe: Recipe, prepared: Prepared, model: Transformer) -> None:
    """Put the origin's weights into `model`, which has just been initialised and has the new sizes.

    Raises:
        ModelError: the weights do not belong to the model.
    """
    tensors = origin.tensors
    if recipe.start.new_vocabulary:
        from transduce.train.transfer import transfer

        new = (prepared.source_tokenizer, prepared.target_tokenizer)
        source, target = (map_pieces(*both) for both in zip(origin.tokenizers, new, strict=True))
        tensors = transfer(tensors, model.tensors(), source.parts, target.parts)
    model.load_tensors(tensors)


def _refuse_contradictions(recipe: Recipe, directory: ModelDirectory) -> None:
    """The recipe must ask for the model's own form and, without a new one, vocabulary.

    Raises:
        RecipeError: it asks for another; the fields are named.
    """
    rooms = ["model"] if recipe.start.new_vocabulary else ["model", "tokenizer"]
    found = []
    for room in rooms:
        asked, has = asdict(getattr(recipe, room)), asdict(getattr(directory.recipe, room))
        found += [
            f"{room}.{name} is {json.dumps(has[name])} in the model, {json.dumps(asked[name])} in the recipe"
            for name in asked
            if asked[name] != has[name] and (room != "model" or name not in (*_FROM_TOKENIZER, *_FREE))
        ]
    if found:
        new = "; a new vocabulary needs --new-vocabulary" if any("tokenizer." in f for f in found) else ""
        raise RecipeError(
            f"a run from {directory.path} keeps its form: {'; '.join(found)}. "
            f"Leave these settings out, or train without --from{new}"
        )


def _checked_tensors(directory: ModelDirectory) -> dict[str, Tensor]:
    """The model's weights, which fit its configuration and vocabulary and are finite.

    Raises:
        ModelError: they do not.
    """
    import torch

    from transduce.model.transformer import Transformer

    config, sizes = directory.recipe.model, [t.vocab_size for t in directory.tokenizers]
    if [config.source_vocab_size, config.target_vocab_size] != sizes:
        raise ModelError(
            f"{directory.path} is inconsistent: its recipe has {config.source_vocab_size} source and "
            f"{config.target_vocab_size} target pieces, its tokenizer {sizes[0]} and {sizes[1]}: "
            f"copy the directory again"
        )
    tensors = directory.load_tensors()
    if max(config.num_encoder_layers, config.num_decoder_layers) > len(tensors):
        raise ModelError(f"{directory.path} is inconsistent: its recipe has more layers than its weights")
    try:
        with torch.device("meta"):  # shapes without memory: the recipe may ask for any size
            Transformer(config).load_tensors(tensors)
    except TransduceError as error:
        raise ModelError(f"{directory.path} is inconsistent: {error}") from error
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            raise ModelError(
                f"{directory.weights}: {name} holds values that are no finite numbers; "
                f"nothing can be learnt from there: take another model"
            )
    return {name: tensor.float() for name, tensor in tensors.items()}


def _fingerprint(directory: ModelDirectory) -> str:
    """SHA-256 of the weights and the vocabulary."""
    parts = [file_sha256(directory.weights), *(t.fingerprint() for t in directory.tokenizers)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
