"""The encoder-decoder Transformer: ids in, logits out (paper, figure 1).

Knows: ids, a padding id, its own configuration. Does not know: text, loss, optimisers, search.
Axes: batch (= sentences), rows (hypotheses, or batch), src_len, tgt_len, d_model, vocab.

    encode   source ids            → memory
    decode   target ids, memory    → one vector a target position, all at once (training)
    start    memory                → a cache
    step     one id a row, cache   → logits of the next token (decoding); same lines as decode
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transduce.errors import ModelError
from transduce.model.cache import DecoderCache
from transduce.model.config import TransformerConfig
from transduce.model.decoder import Decoder
from transduce.model.dropout import Dropout
from transduce.model.embedding import Embedding, OutputProjection
from transduce.model.encoder import Encoder
from transduce.model.initialise import initialise
from transduce.model.masks import causal_visible, padding_visible
from transduce.model.position import LearnedPosition, NoPosition, RotaryPosition, SinusoidalPosition

__all__ = ["Memory", "Transformer"]


@dataclass(frozen=True)
class Memory:
    """The encoder's output and the mask that hides its padding."""

    states: Float[Tensor, "batch src_len d_model"]
    visible: Bool[Tensor, "batch 1 1 src_len"]


class Transformer(nn.Module):
    """The model of *Attention Is All You Need*, with the variants that `TransformerConfig` names.

    Raises:
        ModelError: a vocabulary size is not given, or `pad_id` lies outside a vocabulary.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if min(config.source_vocab_size, config.target_vocab_size) < 1:
            raise ModelError(
                f"the model needs both vocabulary sizes; got source_vocab_size = "
                f"{config.source_vocab_size}, target_vocab_size = {config.target_vocab_size}"
            )
        if config.pad_id >= min(config.source_vocab_size, config.target_vocab_size):
            raise ModelError(
                f"pad_id ({config.pad_id}) lies outside the vocabularies (source_vocab_size = "
                f"{config.source_vocab_size}, target_vocab_size = {config.target_vocab_size}): "
                "it must be an id of both"
            )
        self.config = config
        self.source_embedding = Embedding(config.source_vocab_size, config.d_model, config.pad_id)
        self.target_embedding = self.source_embedding
        if config.tie != "all":
            self.target_embedding = Embedding(config.target_vocab_size, config.d_model, config.pad_id)
        self.source_position = _additive_position(config)
        self.target_position = _additive_position(config)
        self.dropout = Dropout(config.dropout)
        rotary = None
        if config.position == "rotary":
            rotary = RotaryPosition(config.key_width, config.position_offset, config.max_len)
        self.encoder = Encoder(config, rotary)
        self.decoder = Decoder(config, rotary)
        weight = self.target_embedding.weight
        if config.tie == "none":
            weight = nn.Parameter(torch.empty_like(weight))
        self.output = OutputProjection(weight, bias=config.output_bias)
        initialise(self)

    def encode(self, source: Int[Tensor, "batch src_len"]) -> Memory:
        """Read the whole source; `pad_id` fills short rows on the right."""
        visible = padding_visible(source, self.config.pad_id)
        x = self.dropout(self.source_position(self.source_embedding(source)))
        return Memory(self.encoder(x, visible), visible)

    def decode(
        self, target: Int[Tensor, "batch tgt_len"], memory: Memory
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """The vector that predicts token i + 1, for every i at once (teacher forcing).

        Args:
            target: begins with the start symbol, padded on the right, where the causal mask
                hides the padding from every real token.
            memory: from `encode`.
        """
        x = self.dropout(self.target_position(self.target_embedding(target)))
        visible = causal_visible(target.shape[1], device=target.device)
        return self.decoder(x, visible, self.decoder.remember(memory.states), memory.visible)

    def forward(
        self, source: Int[Tensor, "batch src_len"], target: Int[Tensor, "batch tgt_len"]
    ) -> Float[Tensor, "batch tgt_len vocab"]:
        """Logits of every next target token, given the source and the target before it."""
        return self.output(self.decode(target, self.encode(source)))

    def start(self, memory: Memory) -> DecoderCache:
        """An empty cache over `memory`, one row a sentence."""
        return DecoderCache(self.decoder.remember(memory.states), memory.visible)

    def step(
        self, ids: Int[Tensor, " rows"], cache: DecoderCache
    ) -> tuple[Float[Tensor, "rows vocab"], DecoderCache]:
        """Feed one token a row; the cache is changed and returned.

        Args:
            ids: the newest token of each row (the start symbol first).
            cache: from `start` or the last step.
        """
        x = self.dropout(self.target_position(self.target_embedding(ids[:, None]), cache.length))
        states = self.decoder(x, None, cache.memory, cache.memory_visible, cache)
        cache.length += 1
        return self.output(states[:, 0]), cache

    def tensors(self) -> dict[str, Tensor]:
        """Every parameter once, by its first name: a tied matrix is one entry."""
        return {name: parameter.detach() for name, parameter in self.named_parameters()}

    @torch.no_grad()
    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the values of `tensors`, which must be exactly this model's.

        Raises:
            ModelError: names are missing or unknown, or a shape differs.
        """
        own = dict(self.named_parameters())
        if own.keys() != tensors.keys():
            missing, unknown = (
                sorted(own.keys() - tensors.keys()),
                sorted(tensors.keys() - own.keys()),
            )
            raise ModelError(
                f"the weights do not belong to this configuration: missing {missing[:3]}, "
                f"unknown {unknown[:3]} ({len(missing)} and {len(unknown)} in all)"
            )
        for name, parameter in own.items():
            if parameter.shape != tensors[name].shape:
                raise ModelError(
                    f"weight {name} has shape {tuple(tensors[name].shape)}, but the configuration "
                    f"asks for {tuple(parameter.shape)}"
                )
            parameter.copy_(tensors[name])

    @property
    def longest(self) -> int:
        """Most tokens of a row: what learned positions cover; without them there is no limit."""
        return self.config.max_len if self.config.position == "learned" else sys.maxsize

    @property
    def num_parameters(self) -> int:
        """Trained numbers; a tied matrix counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    if TYPE_CHECKING:
        __call__ = forward


def _additive_position(
    config: TransformerConfig,
) -> SinusoidalPosition | LearnedPosition | NoPosition:
    """What is added to the embeddings; nothing when positions are rotary."""
    if config.position == "sinusoidal":
        return SinusoidalPosition(config.d_model, config.sinusoid, config.position_offset, config.max_len)
    if config.position == "learned":
        return LearnedPosition(config.d_model, config.position_offset, config.max_len)
    return NoPosition()
