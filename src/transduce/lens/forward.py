"""One pass of the model over a sentence and its chosen output, all at once, with what is needed to look in.

In:  a model, source ids (with the end symbol), target ids (with the start symbol).
Out: `Pass`: every layer's input, the encoder's output, the decoder's. From a layer's input its attention
     is computed again when somebody asks; the matrices themselves are never kept.
Does not know: text, searches.
Axes: batch is 1 throughout; src_len, tgt_len, d_model, heads, d_k, d_v, vocab.

Attention runs in its explicit form here, which a test holds equal to the fused one.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from transduce.lens.interventions import AttentionKind, attention_of
from transduce.model.attention import AttentionRecord, MultiHeadAttention
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.masks import causal_visible
from transduce.model.transformer import Memory, Transformer

__all__ = ["LayerAttention", "Pass", "explicit", "layer_attention", "run_pass", "second_body"]


def second_body(model: Transformer) -> Transformer:
    """The same weights in modules of their own, so that hooks and temperatures here disturb nobody."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    body = copy.deepcopy(model, cast("dict[int, Any]", shared))
    for module in body.modules():
        if isinstance(module, MultiHeadAttention):
            module.observer = None
    return body.eval()


@dataclass(frozen=True)
class Pass:
    """What one pass left."""

    source: Tensor
    """Ids that the encoder read, (src_len)."""
    target: Tensor
    """Ids that the decoder read, (tgt_len); row i predicts the token after it."""
    encoder_inputs: tuple[Tensor, ...]
    """Each encoder layer's input, (src_len, d_model), and last what the topmost layer gave."""
    memory: Memory
    """The encoder's output."""
    decoder_inputs: tuple[Tensor, ...]
    """Each decoder layer's input, (tgt_len, d_model), and last what the topmost layer gave."""
    states: Tensor
    """The decoder's output, (tgt_len, d_model), from which logits are made."""

    @property
    def num_bytes(self) -> int:
        """Memory held."""
        held = (
            self.source,
            self.target,
            *self.encoder_inputs,
            self.memory.states,
            *self.decoder_inputs,
            self.states,
        )
        return sum(tensor.numel() * tensor.element_size() for tensor in held)


@dataclass(frozen=True)
class LayerAttention:
    """All heads of one attention."""

    record: AttentionRecord
    """As the model's own explicit form gives it; batch is 1."""
    visible: Tensor
    """True = may be attended to, (tgt_len, src_len); the same for all heads."""
    temperature: float


def run_pass(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Pass:
    """Run the model.

    Args:
        model: in evaluation mode; with whatever hooks are wanted.
        source: ids with the end symbol.
        target: ids with the start symbol, without the end symbol.
    """
    device = model.source_embedding.weight.device
    source_ids = torch.tensor([list(source)], device=device)
    target_ids = torch.tensor([list(target)], device=device)
    with torch.inference_mode(), explicit(model), ExitStack() as stack:
        encoder_inputs, decoder_inputs = (
            _catch_inputs(stack, [*coder.layers, coder.norm]) for coder in (model.encoder, model.decoder)
        )
        memory = model.encode(source_ids)
        states = model.decode(target_ids, memory)
    return Pass(
        source=source_ids[0],
        target=target_ids[0],
        encoder_inputs=tuple(encoder_inputs),
        memory=memory,
        decoder_inputs=tuple(decoder_inputs),
        states=states[0],
    )


def layer_attention(model: Transformer, done: Pass, kind: AttentionKind, layer: int) -> LayerAttention:
    """Compute one layer again from its input, and hand out its attention.

    Args:
        model: the one that made `done`, with the same hooks.
        done: from `run_pass`.
        kind: which attention.
        layer: counted from 0.
    """
    attention = attention_of(model, kind, layer)
    records: list[AttentionRecord] = []
    seen: list[Tensor | None] = []

    def see(module: nn.Module, args: tuple[Any, ...]) -> None:  # noqa: ARG001 - torch's signature
        seen.append(args[2] if len(args) > 2 else None)

    with torch.inference_mode(), _observed(attention, records.append), ExitStack() as stack:
        stack.callback(attention.register_forward_pre_hook(see).remove)
        if kind == "enc_self":
            cast(EncoderLayer, model.encoder.layers[layer])(
                done.encoder_inputs[layer][None], done.memory.visible
            )
        else:
            block = cast(DecoderLayer, model.decoder.layers[layer])
            keys_values = block.cross_attention.keys_values(done.memory.states)
            causal = causal_visible(len(done.target), device=done.target.device)
            block(done.decoder_inputs[layer][None], causal, keys_values, done.memory.visible)
    scores = records[0].scores
    visible = seen[0] if seen[0] is not None else torch.ones_like(scores, dtype=torch.bool)
    return LayerAttention(records[0], visible.expand_as(scores)[0, 0], attention.temperature)


@contextmanager
def explicit(model: Transformer) -> Iterator[None]:
    """Every attention in its explicit form, for the length of a `with`."""
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, MultiHeadAttention) and module.observer is None:
                stack.enter_context(_observed(module, _unseen))
        yield


def _unseen(record: AttentionRecord) -> None:
    """An observer that only asks for the explicit form."""
    del record


@contextmanager
def _observed(attention: MultiHeadAttention, observer: Any) -> Iterator[None]:
    before, attention.observer = attention.observer, observer
    try:
        yield
    finally:
        attention.observer = before


def _catch_inputs(stack: ExitStack, modules: Sequence[nn.Module]) -> list[Tensor]:
    """A list that fills with what each of `modules` is given."""
    caught: list[Tensor] = []

    def hook(module: nn.Module, args: tuple[Any, ...]) -> None:  # noqa: ARG001 - torch's signature
        caught.append(args[0][0])

    for module in modules:
        stack.callback(module.register_forward_pre_hook(hook).remove)
    return caught
