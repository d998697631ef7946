"""The engine over our own network, with a cache, in batches of similar lengths.

Sentences are sorted by length and cut into batches of at most `batch_tokens` cells (sentences ·
longest source · beam), so that little is computed for padding; results come back in the caller's
order. Axes: batch, heads, tgt_len, src_len.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from transduce.batch.collate import SpecialIds, pad_rows
from transduce.errors import ModelError
from transduce.model.attention import AttentionRecord
from transduce.model.inference import InferenceTransformer
from transduce.model.layers import DecoderLayer
from transduce.model.products import ComputeType
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.search.dispatch import search
from transduce.search.hypothesis import Hypothesis
from transduce.search.phrases import Phrase
from transduce.search.request import Request
from transduce.search.required import most_slots
from transduce.search.step import State, Step
from transduce.translate.engine import Alignment
from transduce.translate.runtime import Runtime

__all__ = ["TorchEngine"]

_BATCH_TOKENS = 8192


class TorchEngine:
    """Runs a `Transformer` that is in evaluation mode, on the device where its weights lie."""

    def __init__(
        self,
        model: Transformer,
        ids: SpecialIds,
        *,
        suppress: Sequence[int] = (),
        runtime: Runtime | None = None,
    ) -> None:
        """Wrap a model.

        Args:
            model: in evaluation mode.
            ids: pad, start and end symbol.
            suppress: ids that are never generated.
            runtime: threads, number form of searching (alignments are always exact), size of batches.

        Raises:
            ModelError: there is no such number form here.
        """
        runtime = runtime or Runtime()
        if runtime.threads:
            torch.set_num_threads(runtime.threads)
        self.model = model
        self._inference = InferenceTransformer(model, _number_form(runtime))
        self._ids = ids
        self._suppress = [ids.pad_id, ids.bos_id, *suppress]
        self._batch_tokens = runtime.batch_tokens or _BATCH_TOKENS

    @property
    def _device(self) -> torch.device:
        return self.model.source_embedding.weight.device

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
        for indices in _batches([len(source) + 1 for source in sources], self._batch_tokens // width):
            rows = [list(sources[i]) for i in indices]
            step, state = self._start(pad_rows(rows, self._ids).to(self._device))
            results = search(
                step,
                state,
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

    @property
    def _longest(self) -> int:
        """The most positions that a target may have."""
        return self.model.longest

    def _start(self, source: Tensor) -> tuple[Step, State]:
        """Read a batch of sources: the step that goes on from them, and its first state."""
        return cast(Step, self._inference.step), self._inference.start(self._inference.encode(source))

    @torch.inference_mode()
    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Alignment]:
        """As `Engine.align`: cross-attention of the layer before the last, averaged over its heads.

        The chosen output is run again with teacher forcing, so that every weight belongs to it. That
        layer aligns best on average (Garg et al., 2019); attention is no proof of alignment.
        """
        layers = self.model.decoder.layers
        layer = layers[max(0, len(layers) - 2)]
        assert isinstance(layer, DecoderLayer), "a decoder is made of decoder layers"
        found: dict[int, Alignment] = {}
        for indices in _batches(
            [len(s) + len(t) + 2 for s, t in zip(sources, targets, strict=True)], self._batch_tokens
        ):
            weights = self._cross_weights(layer, [sources[i] for i in indices], [targets[i] for i in indices])
            for row, index in enumerate(indices):
                found[index] = _strongest(weights[row], len(sources[index]), len(targets[index]))
        return [found[i] for i in range(len(sources))]

    def _cross_weights(
        self, layer: DecoderLayer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Tensor:
        """Mean over heads of one layer's cross-attention: (batch, tgt_len, src_len)."""
        records: list[AttentionRecord] = []
        layer.cross_attention.observer = records.append
        try:
            memory = self.model.encode(pad_rows([list(s) for s in sources], self._ids).to(self._device))
            # The row that predicts token j is the one that reads the token before it.
            shifted = [[self._ids.bos_id, *target] for target in targets]
            self.model.decode(pad_rows(shifted, self._ids).to(self._device), memory)
        finally:
            layer.cross_attention.observer = None
        return records[0].weights.mean(1)


def _strongest(weights: Tensor, src_len: int, tgt_len: int) -> Alignment:
    """For each target token the real source token with the most weight (the end symbol left out)."""
    if src_len == 0 or tgt_len == 0:
        return ()
    return tuple((s, t) for t, s in enumerate(weights[:tgt_len, :src_len].argmax(-1).tolist()))


def _number_form(runtime: Runtime) -> ComputeType:
    """What products are computed in."""
    if runtime.compute_type == "int16":
        raise ModelError("the torch engine computes in float32 or int8: choose one, or --engine ctranslate2")
    return "int8" if runtime.compute_type == "int8" else "float32"


def _batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices in batches of similar lengths, longest first, of at most `budget` cells (or one row)."""
    batch: list[int] = []
    for index in _longest_first(lengths):
        widest = lengths[batch[0]] if batch else lengths[index]
        if batch and widest * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _longest_first(lengths: Sequence[int]) -> Iterable[int]:
    return sorted(range(len(lengths)), key=lambda i: -lengths[i])
