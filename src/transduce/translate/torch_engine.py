"""The engine over our own network. Axes: batch, heads, tgt_len, src_len."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from transduce.batch.collate import SpecialIds, pad_rows
from transduce.errors import ModelError
from transduce.model.attention import AttentionRecord
from transduce.model.inference import InferenceTransformer
from transduce.model.layers import DecoderLayer
from transduce.model.products import ComputeType
from transduce.model.transformer import Memory, Transformer
from transduce.search.greedy import greedy_search
from transduce.search.hypothesis import Hypothesis
from transduce.search.proposed import proposed_search
from transduce.search.request import Request
from transduce.search.step import State, Step
from transduce.translate.alignment_heads import HeadAlignment
from transduce.translate.batches import batches
from transduce.translate.engine import Alignment
from transduce.translate.runtime import Runtime
from transduce.translate.step_engine import StepEngine

__all__ = ["TorchEngine"]

_BATCH_TOKENS = 8192


class TorchEngine(StepEngine):
    """Runs a `Transformer` that is in evaluation mode, on the device where its weights lie."""

    def __init__(
        self,
        model: Transformer,
        ids: SpecialIds,
        *,
        suppress: Sequence[int] = (),
        runtime: Runtime | None = None,
        heads: HeadAlignment | None = None,
    ) -> None:
        """Wrap a model.

        Args:
            model: in evaluation mode.
            ids: pad, start and end symbol.
            suppress: ids that are never generated.
            runtime: threads, number form of searching (alignments are always exact), size of batches.
            heads: which cross-attention heads align; by default all of the layer before the last.

        Raises:
            ModelError: there is no such number form here.
        """
        runtime = runtime or Runtime()
        super().__init__(ids, suppress, runtime.batch_tokens or _BATCH_TOKENS)
        if runtime.threads:
            torch.set_num_threads(runtime.threads)
        self.model = model
        self._heads = heads or HeadAlignment.usual(model.config)
        form = _number_form(runtime)
        self._proposer = InferenceTransformer(model, form) if runtime.exact and form == "int8" else None
        self._inference = InferenceTransformer(model, "float32" if self._proposer else form)

    @property
    def _device(self) -> torch.device:
        return self.model.source_embedding.weight.device

    @property
    def _longest(self) -> int:
        return self.model.longest

    def _start(self, source: Tensor) -> tuple[Step, State]:
        return cast(Step, self._inference.step), self._inference.start(self._inference.encode(source))

    def _find(self, source: Tensor, request: Request) -> list[list[Hypothesis]]:
        config, proposer = request.config, self._proposer
        greedy = config.method == "beam" and config.beam_size == 1 and not any(request.required or ())
        if proposer is None or not greedy:
            return super()._find(source, request)
        memory = self._inference.encode(source)

        def propose(sentences: Sequence[int], own: Request) -> list[list[Hypothesis]]:
            return greedy_search(cast(Step, proposer.step), proposer.start(_rows(memory, sentences)), own)

        def check(sentences: Sequence[int], proposals: Sequence[Sequence[int]]) -> Tensor:
            read = pad_rows([[self._ids.bos_id, *ids] for ids in proposals], self._ids)[:, :-1]
            return self._inference.decode(read.to(self._device), _rows(memory, sentences))

        return proposed_search(propose, check, request)

    @torch.inference_mode()
    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Alignment]:
        """As `Engine.align`: by the mean of the heads that align (see alignment_heads.py).

        The chosen output is run again with teacher forcing, so that every weight belongs to it.
        """
        first = int(self._heads.row == "reading")
        found: dict[int, Alignment] = {}
        for indices in batches(
            [len(s) + len(t) + 2 for s, t in zip(sources, targets, strict=True)], self._batch_tokens
        ):
            weights = self._cross_weights([sources[i] for i in indices], [targets[i] for i in indices])
            for row, index in enumerate(indices):
                found[index] = _strongest(weights[row, first:], len(sources[index]), len(targets[index]))
        return [found[i] for i in range(len(sources))]

    def _cross_weights(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Tensor:
        """Mean over the heads that align: (batch, tgt_len, src_len)."""
        records: list[AttentionRecord] = []
        numbers = sorted({number for number, _ in self._heads.heads})
        layers = [cast(DecoderLayer, self.model.decoder.layers[number]) for number in numbers]
        for layer in layers:
            layer.cross_attention.observer = records.append
        try:
            memory = self.model.encode(pad_rows([list(s) for s in sources], self._ids).to(self._device))
            # The row that predicts token j is the one that reads the token before it.
            shifted = [[self._ids.bos_id, *target] for target in targets]
            self.model.decode(pad_rows(shifted, self._ids).to(self._device), memory)
        finally:
            for layer in layers:
                layer.cross_attention.observer = None
        weights = {number: record.weights for number, record in zip(numbers, records, strict=True)}
        return torch.stack([weights[number][:, head] for number, head in self._heads.heads]).mean(0)


def _strongest(weights: Tensor, src_len: int, tgt_len: int) -> Alignment:
    """For each target token the real source token with the most weight (the end symbol left out)."""
    if src_len == 0 or tgt_len == 0:
        return ()
    return tuple((s, t) for t, s in enumerate(weights[:tgt_len, :src_len].argmax(-1).tolist()))


def _rows(memory: Memory, sentences: Sequence[int]) -> Memory:
    """The memory of some sentences."""
    chosen = torch.tensor(sentences, device=memory.states.device)
    return Memory(memory.states[chosen], memory.visible[chosen])


def _number_form(runtime: Runtime) -> ComputeType:
    """What products are computed in."""
    if runtime.compute_type == "int16":
        raise ModelError("the torch engine computes in float32 or int8: choose one, or --engine ctranslate2")
    return "int8" if runtime.compute_type == "int8" else "float32"
