"""The finished model on disk: self-contained, movable, readable without running code from it.

model/
    recipe.toml         the resolved recipe: configuration, languages, search defaults, versions
    tokenizer.model     or source.model and target.model
    model.safetensors   every parameter once, fp32
    card.md             data, scores with signatures, how trained
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.errors import ModelError, TransduceError
from transduce.files import atomic_directory, written_or
from transduce.recipe import Recipe, StartConfig, read_recipe, write_recipe
from transduce.text.tokenizer import Tokenizer, load_tokenizers
from transduce.translate.alignment_heads import HeadAlignment, read_heads
from transduce.translate.exported import WEIGHTS_FILE

if TYPE_CHECKING:
    from torch import Tensor

    from transduce.model.transformer import Transformer

__all__ = ["ModelDirectory", "write_model_directory"]

_RECIPE = "recipe.toml"
_CARD = "card.md"


class ModelDirectory:
    """What a model directory holds; weights are read only when asked for."""

    def __init__(self, path: Path) -> None:
        """Open a model directory, or the run directory that holds one.

        Raises:
            ModelError: there is none, or a file in it cannot be read.
        """
        self.path = _find(path)
        try:
            self.recipe = read_recipe(self.path / _RECIPE)
            self.tokenizers: tuple[Tokenizer, Tokenizer] = load_tokenizers(self.path)
        except ModelError:
            raise
        except TransduceError as error:
            raise ModelError(f"the model {self.path} cannot be read: {error}") from error

    @property
    def heads(self) -> HeadAlignment:
        """The attention heads that align, as `transduce align` found them, or the usual ones.

        Raises:
            ModelError: the file that names them is damaged.
        """
        return read_heads(self.path, self.recipe.model)

    @property
    def card(self) -> str:
        """The model's card; empty when the file is missing."""
        file = self.path / _CARD
        return file.read_text(encoding="utf-8") if file.exists() else ""

    @property
    def weights(self) -> Path:
        """The file of its weights."""
        return self.path / WEIGHTS_FILE

    def load_tensors(self) -> dict[str, Tensor]:
        """Read the weights as they are in the file, not yet compared with the configuration.

        Raises:
            ModelError: torch is not installed, or the weights are missing or damaged.
        """
        try:
            from safetensors import SafetensorError
            from safetensors.torch import load_file
        except ImportError as error:
            raise self._without_torch(error) from error
        try:
            return load_file(self.weights)
        except (OSError, SafetensorError) as error:
            raise ModelError(
                f"the weights {self.weights} cannot be read ({error}): copy the directory again"
            ) from error

    def load_transformer(self) -> Transformer:
        """Build the network and read its weights, in evaluation mode.

        Raises:
            ModelError: torch is not installed, or the weights are missing, damaged or foreign.
        """
        tensors = self.load_tensors()
        try:
            from transduce.model.transformer import Transformer
        except ImportError as error:
            raise self._without_torch(error) from error
        model = Transformer(self.recipe.model)
        model.load_tensors(tensors)
        return model.eval()

    def _without_torch(self, error: ImportError) -> ModelError:
        return ModelError(
            f"running {self.path} needs torch, which is not installed ({error}): "
            "pip install 'transduce[train]'"
        )


def write_model_directory(
    path: Path, recipe: Recipe, text: Path, tensors: Mapping[str, Tensor], card: str
) -> None:
    """Write a model directory, whole or not at all.

    Args:
        path: replaced when it exists.
        recipe: resolved, with the vocabulary sizes filled in.
        text: directory with the tokenizer files, which are copied.
        tensors: every parameter once.
        card: Markdown.

    Raises:
        ModelError: the directory cannot be written, or the disk is full; what stood there is unchanged.
    """
    from safetensors.torch import save

    with (
        written_or(ModelError, f"the model {path} could not be written"),
        atomic_directory(path) as temporary,
    ):
        # Where the training text lay is nobody's business but the run's; nor where a model lay that
        # this one began from (its fingerprint is in made_with).
        data = replace(recipe.data, source="", target="", valid_source="", valid_target="")
        write_recipe(replace(recipe, data=data, start=StartConfig()), temporary / _RECIPE)
        for file in sorted(text.glob("*.model")):
            shutil.copyfile(file, temporary / file.name)
        # save_file would hide a full disk in an error of its own, and need as much memory.
        weights = save({name: tensor.contiguous() for name, tensor in tensors.items()})
        (temporary / WEIGHTS_FILE).write_bytes(weights)
        (temporary / _CARD).write_text(card, encoding="utf-8")


def _find(path: Path) -> Path:
    """`path`, or `path/model` when `path` is a finished run."""
    for candidate in (path, path / "model"):
        if (candidate / WEIGHTS_FILE).exists() and (candidate / _RECIPE).exists():
            return candidate
    if not path.exists():
        raise ModelError(f"there is no model directory {path}")
    if (path / "checkpoints").exists():
        raise ModelError(
            f"the run {path} has no finished model yet: continue it with the same `transduce train`"
        )
    raise ModelError(f"{path} is no model directory: it lacks {_RECIPE} or {WEIGHTS_FILE}")
