"""What engines share that are given one step of a model at a time: batches, our own search, required phrases.

Sentences are sorted by length and cut into batches of at most `batch_tokens` cells (sentences ·
longest source · beam), so that little is computed for padding; results come back in the caller's order.
Does not know: networks, graphs, files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from transduce.batch.collate import SpecialIds, pad_rows
from transduce.search.config import SearchConfig
from transduce.search.dispatch import search
from transduce.search.hypothesis import Hypothesis
from transduce.search.phrases import Phrase
from transduce.search.request import Request
from transduce.search.required import most_slots
from transduce.search.step import State, Step
from transduce.translate.batches import batches

__all__ = ["StepEngine"]


class StepEngine(ABC):
    """An `Engine` and `RequiringEngine` but for what it runs and how it aligns."""

    def __init__(self, ids: SpecialIds, suppress: Sequence[int], batch_tokens: int) -> None:
        """Remember what every search is told.

        Args:
            ids: pad, start and end symbol.
            suppress: ids that are never generated.
            batch_tokens: most source cells, times the beam, computed at once.
        """
        self._ids = ids
        self._suppress = [ids.pad_id, ids.bos_id, *suppress]
        self._batch_tokens = batch_tokens

    @property
    def ids(self) -> SpecialIds:
        """Pad, start and end symbol."""
        return self._ids

    @property
    def suppressed(self) -> Sequence[int]:
        """Ids that are never generated."""
        return self._suppress

    @property
    @abstractmethod
    def _longest(self) -> int:
        """The most positions that a target may have."""

    @property
    def _device(self) -> torch.device:
        """Where ids go."""
        return torch.device("cpu")

    @abstractmethod
    def _start(self, source: Tensor) -> tuple[Step, State]:
        """Read a batch of sources: the step that goes on from them, and its first state."""

    def search(
        self,
        sources: Sequence[Sequence[int]],
        config: SearchConfig,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        keys: Sequence[int] | None = None,
        details: bool = True,  # noqa: ARG002 - they come of themselves here
    ) -> list[list[Hypothesis]]:
        """As `Engine.search`.

        Raises:
            SearchError: the request contradicts itself, or the model's logits are not finite.
            ModelError: a source is longer than the model has positions.
        """
        return self._search(sources, config, prefixes=prefixes, keys=keys)

    def search_required(
        self,
        sources: Sequence[Sequence[int]],
        config: SearchConfig,
        *,
        required: Sequence[Sequence[Phrase]],
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """As `RequiringEngine.search_required`.

        Raises:
            SearchError: the request contradicts itself, or the model's logits are not finite.
        """
        found: dict[int, list[Hypothesis]] = {}
        bound = [i for i, phrases in enumerate(required) if phrases]
        free = [i for i, phrases in enumerate(required) if not phrases]
        strict = replace(config, alpha=config.required_alpha)
        for indices, own, wanted in ((free, config, None), (bound, strict, [required[i] for i in bound])):
            results = self._search(
                [sources[i] for i in indices],
                own,
                prefixes=None if prefixes is None else [prefixes[i] for i in indices],
                required=wanted,
            )
            found.update(zip(indices, results, strict=True))
        return [found[i] for i in range(len(sources))]

    @torch.inference_mode()
    def _search(
        self,
        sources: Sequence[Sequence[int]],
        config: SearchConfig,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        keys: Sequence[int] | None = None,
        required: Sequence[Sequence[Phrase]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search in batches of similar lengths."""
        width = config.n_best if config.method == "sample" else config.beam_size
        if required is not None:
            width = most_slots(config.beam_size)
        found: dict[int, list[Hypothesis]] = {}
        for indices in batches([len(source) + 1 for source in sources], self._batch_tokens // width):
            rows = [list(sources[i]) for i in indices]
            results = self._find(
                pad_rows(rows, self._ids).to(self._device),
                Request(
                    bos_id=self._ids.bos_id,
                    eos_id=self._ids.eos_id,
                    limits=[min(config.limit(len(row)), self._longest - 1) for row in rows],
                    config=config,
                    keys=[keys[i] if keys is not None else i for i in indices],
                    suppress=self._suppress,
                    prefixes=None if prefixes is None else [prefixes[i] for i in indices],
                    required=None if required is None else [required[i] for i in indices],
                    device=self._device,
                ),
            )
            found.update(zip(indices, results, strict=True))
        return [found[i] for i in range(len(sources))]

    def _find(self, source: Tensor, request: Request) -> list[list[Hypothesis]]:
        """Search one batch."""
        return search(*self._start(source), request)
