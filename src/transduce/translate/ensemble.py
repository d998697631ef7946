"""Several models that translate as one.

In:  model directories whose vocabularies are the same. Out: a `Translator` whose every step averages
     the models' distributions (`search/ensemble.py`).
The models may differ in everything but the vocabularies: size, shape, seed, training. Search settings
and alignments are the first one's; texts are split for the one that takes the shortest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from transduce.errors import ModelError
from transduce.search.ensemble import EnsembleState, EnsembleStep, Mean
from transduce.search.step import State, Step
from transduce.translate.engine import Alignment
from transduce.translate.model_directory import ModelDirectory
from transduce.translate.runtime import Runtime
from transduce.translate.step_engine import StepEngine
from transduce.translate.torch_engine import TorchEngine
from transduce.translate.translator import Translator

__all__ = ["EnsembleEngine", "load_ensemble"]


class EnsembleEngine(StepEngine):
    """Runs several models side by side; aligns with the first."""

    def __init__(self, engines: Sequence[TorchEngine], mean: Mean = "probability") -> None:
        """Put engines over models of the same vocabularies together.

        Raises:
            SearchError: an unknown mean.
        """
        first = engines[0]
        super().__init__(first._ids, first._suppress, first._batch_tokens)
        self._engines, self._mean = tuple(engines), mean
        EnsembleStep((), mean)  # an unknown mean is told now

    @property
    def _device(self) -> torch.device:
        return self._engines[0]._device

    @property
    def _longest(self) -> int:
        return min(engine._longest for engine in self._engines)

    def _start(self, source: Tensor) -> tuple[Step, State]:
        parts = [engine._start(source) for engine in self._engines]
        step = EnsembleStep([step for step, _ in parts], self._mean)
        return step, EnsembleState(tuple(state for _, state in parts))

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Alignment]:
        """As `Engine.align`, by the first model."""
        return self._engines[0].align(sources, targets)


def load_ensemble(
    models: Sequence[str | Path], mean: Mean = "probability", runtime: Runtime | None = None
) -> Translator:
    """Load several model directories, or the runs that hold them, as one translator.

    Raises:
        ModelError: one cannot be read, or its vocabulary is not the first one's.
        SearchError: an unknown mean.
    """
    directories = [ModelDirectory(Path(model)) for model in models]
    first, *others = directories
    for other in others:
        for side, own, its in zip(("source", "target"), first.tokenizers, other.tokenizers, strict=True):
            if own.fingerprint() != its.fingerprint():
                raise ModelError(
                    f"{other.path} has another {side} vocabulary ({its.vocab_size} pieces) than {first.path} "
                    f"({own.vocab_size} pieces): an ensemble's models must be trained with the same one, for "
                    "instance with other seeds (train.seed), or from one another (train --from)"
                )
    engines = []
    for directory in directories:
        one = Translator.over_torch(
            directory.load_transformer(), directory.recipe, *directory.tokenizers, runtime=runtime
        )
        assert isinstance(one.engine, TorchEngine), "over_torch makes a torch engine"
        engines.append(one.engine)
    recipe = first.recipe
    return Translator(
        EnsembleEngine(engines, mean),
        *first.tokenizers,
        recipe.search,
        max_len=min(directory.recipe.batch.max_len for directory in directories) - 1,
        languages=(recipe.data.source_language, recipe.data.target_language),
    )
