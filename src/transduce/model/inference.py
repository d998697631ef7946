"""A trained Transformer laid out for decoding: the maths of `transformer.py`, with little on the way.

    one product where there were several   q, k and v of a layer; k and v of all layers' cross-attention
    no modules                             a decoder step is some twenty calls a layer, and for one
                                           sentence the calls are much of the time
    weights as the kernels want them       see `products.py`
    one buffer for the cache of all layers hypotheses change places in one copy (`inference_cache.py`)

Built once from a model, whose later changes it does not see. Dropout, gradients and looking inside are
for the model itself. Every source row holds at least one token.
With `int8` what a row gets depends, in the last levels, on the rows beside it.
Axes: rows (hypotheses), sentences, src_len, d_model, heads, past_len, d_k, vocab.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model.attention import MultiHeadAttention
from transduce.model.embedding import Embedding
from transduce.model.feed_forward import FeedForward, GatedFeedForward
from transduce.model.inference_cache import InferenceCache, LayerMemory
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.masks import padding_visible
from transduce.model.norm import AddNorm
from transduce.model.position import RotaryPosition
from transduce.model.products import ComputeType, Product, make_product
from transduce.model.transformer import Memory, Transformer

__all__ = ["InferenceTransformer"]

_Function: TypeAlias = Callable[[Tensor], Tensor]
_AddNorm: TypeAlias = Callable[[Tensor, _Function], Tensor]


class InferenceTransformer:
    """What searches ask of a model, as fast as single calls of torch allow."""

    def __init__(self, model: Transformer, compute_type: ComputeType = "float32") -> None:
        """Lay a model out.

        Args:
            model: its weights are copied where their layout changes, else shared.
            compute_type: what weights are multiplied in.

        Raises:
            ModelError: there are no int8 products here.
        """
        self.config = model.config
        self.longest = model.longest
        self._embed_source = _Embed(model.source_embedding, model.source_position)
        self._embed_target = _Embed(model.target_embedding, model.target_position)
        encoder_layers = [cast(EncoderLayer, layer) for layer in model.encoder.layers]
        decoder_layers = [cast(DecoderLayer, layer) for layer in model.decoder.layers]
        self._encoder = [_EncoderLayer(layer, compute_type) for layer in encoder_layers]
        self._decoder = [_DecoderLayer(layer, compute_type) for layer in decoder_layers]
        self._encoder_norm, self._decoder_norm = _norm(model.encoder.norm), _norm(model.decoder.norm)
        self._memory = _Memory([layer.cross_attention for layer in decoder_layers], compute_type)
        self._output = make_product(model.output.weight, model.output.bias, compute_type)

    def encode(self, source: Int[Tensor, "sentences src_len"]) -> Memory:
        """As `Transformer.encode`."""
        visible = padding_visible(source, self.config.pad_id)
        padding = _Padding(visible)
        x = padding.without(self._embed_source(source, 0).flatten(0, 1))
        for layer in self._encoder:
            x = layer(x, padding)
        return Memory(padding.within(self._encoder_norm(x)).view(*source.shape, -1), visible)

    def start(self, memory: Memory) -> InferenceCache:
        """An empty cache over `memory`, one row a sentence."""
        keys, values = self._memory(memory.states)
        return InferenceCache(keys, values, None if bool(memory.visible.all()) else memory.visible)

    def step(
        self, ids: Int[Tensor, " rows"], cache: InferenceCache
    ) -> tuple[Float[Tensor, "rows vocab"], InferenceCache]:
        """As `Transformer.step`: one token a row in, the next one's logits out; the cache is changed."""
        x = self._embed_target(ids[:, None], cache.length)[:, 0]
        for layer, memory in zip(self._decoder, cache.layers(), strict=True):
            x = layer(x, memory, cache.length)
        cache.length += 1
        return self._output(self._decoder_norm(x)), cache

    def decode(
        self, ids: Int[Tensor, "sentences tgt_len"], memory: Memory
    ) -> Float[Tensor, "sentences tgt_len vocab"]:
        """The logits after each token of known targets (BOS first), all at once; padding stands behind."""
        shape = ids.shape[0], ids.shape[1]
        x = self._embed_target(ids, 0).flatten(0, 1)
        for layer, layer_memory in zip(self._decoder, self.start(memory).layers(), strict=True):
            x = layer.read(x, layer_memory, shape)
        return self._output(self._decoder_norm(x)).view(*shape, -1)


class _Padding:
    """What is padding in (sentences, src_len): it is put in for attention only, all else runs without."""

    def __init__(self, visible: Bool[Tensor, "sentences 1 1 src_len"]) -> None:
        self.shape = (visible.shape[0], visible.shape[3])
        whole = bool(visible.all())
        self.visible = None if whole else visible
        self._places = None if whole else visible.flatten().nonzero()[:, 0]

    def without(self, x: Float[Tensor, "cells width"]) -> Float[Tensor, "tokens width"]:
        """The rows of real tokens."""
        return x if self._places is None else x.index_select(0, self._places)

    def within(self, x: Float[Tensor, "tokens width"]) -> Float[Tensor, "cells width"]:
        """Zeros where there is padding."""
        if self._places is None:
            return x
        return x.new_zeros(math.prod(self.shape), x.shape[1]).index_copy_(0, self._places, x)


class _Embed:
    """Embedding, scaled, plus position."""

    def __init__(self, embedding: Embedding, position: nn.Module) -> None:
        self._embedding, self._position = embedding, position

    def __call__(self, ids: Tensor, past_len: int) -> Tensor:
        placed: Tensor = self._position.forward(self._embedding.forward(ids), past_len)
        return placed


class _Heads:
    """Sizes and the scale of one attention."""

    def __init__(self, attention: MultiHeadAttention) -> None:
        self.count = attention.num_heads
        self.d_k = attention.w_q.out_features // self.count
        self.d_v = attention.w_v.out_features // self.count
        self.scale = 1.0 / (math.sqrt(self.d_k) * attention.temperature)


class _SelfAttention:
    """q, k and v by one product; the queries are scaled in the weights."""

    def __init__(self, attention: MultiHeadAttention, compute_type: ComputeType) -> None:
        self.heads = heads = _Heads(attention)
        self._widths = [heads.count * heads.d_k, heads.count * heads.d_k, heads.count * heads.d_v]
        self.project = _joined([attention.w_q, attention.w_k, attention.w_v], compute_type, self.heads.scale)
        self.join = make_product(attention.w_o.weight, attention.w_o.bias, compute_type)
        self.rotary = attention.rotary

    def split(
        self, projected: Tensor, past_len: int, shape: tuple[int, ...]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (*shape, heads, d): `shape` is (rows,) or (sentences, src_len)."""
        q, k, v = (t.view(*shape, self.heads.count, -1) for t in torch.split(projected, self._widths, 1))
        if self.rotary is not None:
            q, k = _turned(self.rotary, q, past_len), _turned(self.rotary, k, past_len)
        return q, k, v

    def among(
        self,
        projected: Tensor,
        shape: tuple[int, int],
        visible: Tensor | None = None,
        *,
        causal: bool = False,
    ) -> Tensor:
        """What the tokens of each sentence gather from one another: (sentences * src_len, heads * d_v)."""
        q, k, v = (t.transpose(1, 2) for t in self.split(projected, 0, shape))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, is_causal=causal, scale=1.0)
        return out.transpose(1, 2).reshape(len(projected), -1)


class _EncoderLayer:
    """An encoder layer over (tokens of all sentences, d_model)."""

    def __init__(self, layer: EncoderLayer, compute_type: ComputeType) -> None:
        self._attention = _SelfAttention(layer.self_attention, compute_type)
        self._attention_add_norm = _add_norm(layer.self_attention_add_norm)
        self._feed_forward = _feed_forward(layer.feed_forward, compute_type)
        self._feed_forward_add_norm = _add_norm(layer.feed_forward_add_norm)

    def __call__(self, x: Tensor, padding: _Padding) -> Tensor:
        attention = self._attention

        def attend(y: Tensor) -> Tensor:
            gathered = attention.among(padding.within(attention.project(y)), padding.shape, padding.visible)
            return attention.join(padding.without(gathered))

        x = self._attention_add_norm(x, attend)
        return self._feed_forward_add_norm(x, self._feed_forward)


class _DecoderLayer:
    """A decoder layer over the newest token of each row, or over all tokens of known targets."""

    def __init__(self, layer: DecoderLayer, compute_type: ComputeType) -> None:
        self._attention = _SelfAttention(layer.self_attention, compute_type)
        self._attention_add_norm = _add_norm(layer.self_attention_add_norm)
        cross = layer.cross_attention
        self._cross_heads = _Heads(cross)
        self._cross_query = _joined([cross.w_q], compute_type, self._cross_heads.scale)
        self._cross_join = make_product(cross.w_o.weight, cross.w_o.bias, compute_type)
        self._cross_add_norm = _add_norm(layer.cross_attention_add_norm)
        self._feed_forward = _feed_forward(layer.feed_forward, compute_type)
        self._feed_forward_add_norm = _add_norm(layer.feed_forward_add_norm)

    def __call__(self, x: Tensor, memory: LayerMemory, past_len: int) -> Tensor:
        return self._rest(self._attention_add_norm(x, lambda y: self._attend(y, memory, past_len)), memory)

    def read(self, x: Tensor, memory: LayerMemory, shape: tuple[int, int]) -> Tensor:
        """Over all tokens: x is (sentences * tgt_len, d_model), the shape (sentences, tgt_len)."""
        return self._rest(self._attention_add_norm(x, lambda y: self._attend_back(y, shape)), memory)

    def _rest(self, x: Tensor, memory: LayerMemory) -> Tensor:
        x = self._cross_add_norm(x, lambda y: self._attend_across(y, memory))
        return self._feed_forward_add_norm(x, self._feed_forward)

    def _attend(self, y: Tensor, memory: LayerMemory, past_len: int) -> Tensor:
        heads, rows = self._attention.heads, len(y)
        q, k, v = self._attention.split(self._attention.project(y), past_len, (rows,))
        memory.new_keys.copy_(k)
        memory.new_values.copy_(v)
        weights = torch.bmm(q.reshape(rows * heads.count, 1, heads.d_k), memory.keys).softmax(-1)
        return self._attention.join(torch.bmm(weights, memory.values).view(rows, -1))

    def _attend_back(self, y: Tensor, shape: tuple[int, int]) -> Tensor:
        attention = self._attention
        return attention.join(attention.among(attention.project(y), shape, causal=True))

    def _attend_across(self, y: Tensor, memory: LayerMemory) -> Tensor:
        # The rows of one sentence stand side by side as its queries: no memory is copied.
        heads, rows, sentences = self._cross_heads, len(y), memory.num_sentences
        q = self._cross_query(y)
        if rows > sentences:
            q = q.view(sentences, -1, heads.count, heads.d_k).transpose(1, 2).reshape(-1, heads.d_k)
        scores = torch.bmm(q.view(sentences * heads.count, -1, heads.d_k), memory.memory_keys)
        if memory.visible is not None:
            lowest = torch.finfo(scores.dtype).min
            shape = (sentences, heads.count, *scores.shape[1:])
            scores = scores.view(shape).masked_fill_(~memory.visible, lowest).flatten(0, 1)
        out = torch.bmm(scores.softmax(-1), memory.memory_values)
        if rows > sentences:
            out = out.view(sentences, heads.count, -1, heads.d_v).transpose(1, 2).reshape(rows, -1)
        return self._cross_join(out.view(rows, -1))


class _Memory:
    """Keys and values of all layers' cross-attention, by one product."""

    def __init__(self, attentions: list[MultiHeadAttention], compute_type: ComputeType) -> None:
        self._heads = [_Heads(attention) for attention in attentions]
        self._keys = _joined([attention.w_k for attention in attentions], compute_type)
        self._values = _joined([attention.w_v for attention in attentions], compute_type)

    def __call__(self, states: Tensor) -> tuple[Tensor, Tensor]:
        sentences, src_len, _ = states.shape
        rows = states.flatten(0, 1)
        shape = (sentences, src_len, len(self._heads), self._heads[0].count, -1)
        keys = self._keys(rows).view(shape).permute(2, 0, 3, 4, 1)
        values = self._values(rows).view(shape).permute(2, 0, 3, 1, 4)
        return keys.contiguous(), values.contiguous()


def _joined(linears: list[nn.Linear], compute_type: ComputeType, scale: float = 1.0) -> Product:
    """Several products of one input as one; the first is scaled."""
    weights = [linear.weight.detach() for linear in linears]
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    weights[0] = weights[0] * scale
    if biases:
        biases[0] = biases[0] * scale
    return make_product(torch.cat(weights), torch.cat(biases) if biases else None, compute_type)


def _norm(norm: nn.Module) -> _Function:
    """LayerNorm without its module, or nothing."""
    if not isinstance(norm, nn.LayerNorm):
        return lambda x: x
    shape, weight, bias, eps = list(norm.normalized_shape), norm.weight.detach(), norm.bias.detach(), norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


def _add_norm(module: AddNorm) -> _AddNorm:
    """`AddNorm` without dropout."""
    norm = _norm(module.norm)
    if module.pre:
        return lambda x, sublayer: x + sublayer(norm(x))
    return lambda x, sublayer: norm(x + sublayer(x))


def _feed_forward(module: FeedForward | GatedFeedForward, compute_type: ComputeType) -> _Function:
    """The feed-forward layer without dropout."""
    narrow = make_product(module.w_2.weight, module.w_2.bias, compute_type)
    if isinstance(module, GatedFeedForward):
        gate = make_product(module.w_g.weight, module.w_g.bias, compute_type)
        widen = make_product(module.w_1.weight, module.w_1.bias, compute_type)
        return lambda x: narrow(F.silu(gate(x)).mul_(widen(x)))
    if module.activation is F.relu:
        widen = make_product(module.w_1.weight, module.w_1.bias, compute_type, relu=True)
        return lambda x: narrow(widen(x))
    widen, activation = make_product(module.w_1.weight, module.w_1.bias, compute_type), module.activation
    return lambda x: narrow(activation(widen(x)))


def _turned(rotary: RotaryPosition, x: Tensor, past_len: int) -> Tensor:
    """Rotary positions of (rows, heads, d_k), or of (sentences, src_len, heads, d_k)."""
    if x.dim() == 3:
        return rotary.forward(x[:, :, None], past_len)[:, :, 0]
    return rotary.forward(x.transpose(1, 2), past_len).transpose(1, 2)
