"""The Transformer as ONNX graphs: the lines of model/*.py, operator by operator.

In:  a configuration, and arrays under our own names. Out: a `Graph` of the encoder, and one of a single
decoder step. Does not know: files, the search.
Axes: batch (= rows), len (src_len, or 1 in a step), heads, d_k, d_v, d_model. Activations between the
sub-layers are flat, [batch · len, d_model], so that every projection is one Gemm on a weight as it lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from transduce.export.onnx_graph import Graph, Value
from transduce.model.config import TransformerConfig

__all__ = ["decoder_graph", "encoder_graph"]

Weights: TypeAlias = Mapping[str, NDArray[Any]]

_LOWEST = float(np.finfo(np.float32).min)  # a hidden cell's score: its weight is exactly 0


class _KeysValues(NamedTuple):
    keys: Value
    values: Value


def encoder_graph(config: TransformerConfig, weights: Weights) -> Graph:
    """Source → memory_visible, and each decoder layer's keys and values of the memory."""
    graph = Graph("encoder")
    source = graph.input("source", np.int64, ["batch", "src_len"])
    shape = graph.node("Shape", source)
    length = graph.node("Gather", shape, graph.constant([1]))
    first, axis = graph.constant([0]), graph.constant([0])
    network = _Network(
        graph, config, weights, shape, lambda table: graph.node("Slice", table, first, length, axis)
    )
    pad = graph.weight("pad_id", np.array(config.pad_id))
    seen = graph.node("Not", graph.node("Equal", source, pad))  # (batch, src_len)
    visible = graph.node("Unsqueeze", seen, graph.constant([1, 2]))  # (batch, 1, 1, src_len)
    x = network.embedded("source", source)
    for n in range(config.num_encoder_layers):
        x = network.encoder_layer(x, f"encoder.layers.{n}", visible)
    if config.norm == "pre":
        x = network.norm(x, "encoder.norm")
    graph.output(seen, "memory_visible", np.bool_, ["batch", "src_len"])
    for n in range(config.num_decoder_layers):
        memory = network.keys_values(x, f"decoder.layers.{n}.cross_attention", rotary=False)
        for name, value, width in zip(_KeysValues._fields, memory, _widths(config), strict=True):
            axes: list[int | str] = ["batch", config.num_heads, "src_len", width]
            graph.output(value, f"memory_{name}.{n}", np.float32, axes)
    return graph


def decoder_graph(config: TransformerConfig, weights: Weights) -> Graph:
    """One step: ids, memory and past → logits, the past with one token more, and the attention."""
    graph = Graph("decoder")
    ids = graph.input("ids", np.int64, ["rows"])
    seen = graph.input("memory_visible", np.bool_, ["rows", "src_len"])
    memories = _inputs(graph, config, "memory_", "src_len")
    pasts = _inputs(graph, config, "past_", "past_len")
    shape = graph.node("Concat", graph.node("Shape", ids), graph.constant([1]), axis=0)  # (rows, 1)
    position = graph.node("Shape", pasts[0].keys, start=2, end=3)
    network = _Network(graph, config, weights, shape, lambda table: graph.node("Gather", table, position))
    visible = graph.node("Unsqueeze", seen, graph.constant([1, 2]))
    x = network.embedded("target", graph.node("Reshape", ids, shape))
    aligning = max(0, config.num_decoder_layers - 2)
    attention = graph.node("Cast", seen, to=1)
    for n, (memory, past) in enumerate(zip(memories, pasts, strict=True)):
        x, present, looked = network.decoder_layer(x, f"decoder.layers.{n}", memory, visible, past)
        attention = looked if n == aligning else attention
        for name, value, width in zip(_KeysValues._fields, present, _widths(config), strict=True):
            graph.output(value, f"{name}.{n}", np.float32, ["rows", config.num_heads, "new_len", width])
    if config.norm == "pre":
        x = network.norm(x, "decoder.norm")
    logits = network.linear(x, _output_name(weights), bias="output.bias")
    graph.output(logits, "logits", np.float32, ["rows", config.target_vocab_size])
    graph.output(attention, "attention", np.float32, ["rows", "src_len"])
    return graph


class _Network:
    """The parts of both stacks, as nodes of one graph."""

    def __init__(
        self,
        graph: Graph,
        config: TransformerConfig,
        weights: Weights,
        shape: Value,
        at_positions: Callable[[Value], Value],
    ) -> None:
        """Put nodes into `graph`.

        Args:
            graph: grows.
            config: which network.
            weights: its arrays.
            shape: the value (batch, len).
            at_positions: from a table to its rows at the len positions.
        """
        self._graph, self._config, self._weights = graph, config, weights
        self._shape, self._at_positions = shape, at_positions

    def embedded(self, side: str, ids: Value) -> Value:
        """E[ids] · √d_model, and the positions' rows unless they are rotary: (batch · len, d_model)."""
        graph, width = self._graph, self._config.d_model
        name = f"{side}_embedding.weight"
        if name not in self._weights:
            name = "source_embedding.weight"
        rows = graph.node("Gather", self._weight(name), ids)  # (batch, len, d_model)
        x = graph.node("Mul", rows, graph.constant(math.sqrt(width)))
        if self._config.position != "rotary":
            table = self._weight(f"{side}_positions")
            x = graph.node("Add", x, self._at_positions(table))
        return graph.node("Reshape", x, graph.constant([-1, width]))

    def encoder_layer(self, x: Value, place: str, visible: Value) -> Value:
        """As `EncoderLayer.forward`."""

        def attend(y: Value) -> Value:
            name = f"{place}.self_attention"
            return self._attention(y, name, self.keys_values(y, name), visible)[0]

        x = self._add_norm(x, f"{place}.self_attention_add_norm", attend)
        return self._add_norm(x, f"{place}.feed_forward_add_norm", self._feed_forward(place))

    def decoder_layer(
        self, x: Value, place: str, memory: _KeysValues, visible: Value, past: _KeysValues
    ) -> tuple[Value, _KeysValues, Value]:
        """As `DecoderLayer.forward` for one token; with its keys and values, and where it looked."""
        found: dict[str, Any] = {}

        def self_attend(y: Value) -> Value:
            name = f"{place}.self_attention"
            new = self.keys_values(y, name)
            pairs = zip(past, new, strict=True)
            found["present"] = _KeysValues(*(self._graph.node("Concat", *pair, axis=2) for pair in pairs))
            return self._attention(y, name, found["present"], None)[0]

        def cross_attend(y: Value) -> Value:
            name = f"{place}.cross_attention"
            out, found["weights"] = self._attention(y, name, memory, visible, rotary=False)
            return out

        x = self._add_norm(x, f"{place}.self_attention_add_norm", self_attend)
        x = self._add_norm(x, f"{place}.cross_attention_add_norm", cross_attend)
        x = self._add_norm(x, f"{place}.feed_forward_add_norm", self._feed_forward(place))
        axes = self._graph.constant([1, 2])  # heads, and the one query
        mean = self._graph.node("ReduceMean", found["weights"], axes, keepdims=0)
        return x, found["present"], mean

    def keys_values(self, x: Value, place: str, *, rotary: bool = True) -> _KeysValues:
        """Keys and values of x, (batch, heads, len, d_k or d_v)."""
        key_width, value_width = _widths(self._config)
        keys = self._heads(self.linear(x, f"{place}.w_k.weight"), key_width)
        values = self._heads(self.linear(x, f"{place}.w_v.weight"), value_width)
        return _KeysValues(self._turned(keys) if rotary else keys, values)

    def norm(self, x: Value, place: str) -> Value:
        """LayerNorm."""
        scale, bias = self._weight(f"{place}.weight"), self._weight(f"{place}.bias")
        return self._graph.node(
            "LayerNormalization", x, scale, bias, axis=-1, epsilon=self._config.layer_norm_eps
        )

    def linear(self, x: Value, name: str, bias: str = "") -> Value:
        """X W^T + b, for W [outputs, inputs]."""
        bias = bias or name.removesuffix("weight") + "bias"
        inputs = [x, self._weight(name)]
        if bias in self._weights:
            inputs.append(self._weight(bias))
        return self._graph.node("Gemm", *inputs, transB=1)

    def _attention(
        self, y: Value, place: str, keys_values: _KeysValues, visible: Value | None, *, rotary: bool = True
    ) -> tuple[Value, Value]:
        """The sub-layer's output (batch · len, d_model), and the weights (batch, heads, len, keys)."""
        graph, (key_width, value_width) = self._graph, _widths(self._config)
        queries = self._heads(self.linear(y, f"{place}.w_q.weight"), key_width)
        if rotary:
            queries = self._turned(queries)
        queries = graph.node("Mul", queries, graph.constant(1 / math.sqrt(key_width)))
        keys = graph.node("Transpose", keys_values.keys, perm=[0, 1, 3, 2])
        scores = graph.node("MatMul", queries, keys)
        if visible is not None:
            scores = graph.node("Where", visible, scores, graph.constant(_LOWEST))
        weights = graph.node("Softmax", scores, axis=-1)
        heads = graph.node("Transpose", graph.node("MatMul", weights, keys_values.values), perm=[0, 2, 1, 3])
        joined = graph.node("Reshape", heads, graph.constant([-1, self._config.num_heads * value_width]))
        return self.linear(joined, f"{place}.w_o.weight"), weights

    def _heads(self, x: Value, width: int) -> Value:
        """(batch · len, heads · width) → (batch, heads, len, width)."""
        graph = self._graph
        shape = graph.node("Concat", self._shape, graph.constant([self._config.num_heads, width]), axis=0)
        return graph.node("Transpose", graph.node("Reshape", x, shape), perm=[0, 2, 1, 3])

    def _turned(self, x: Value) -> Value:
        """As `RotaryPosition.forward`; nothing when positions are of another kind."""
        if self._config.position != "rotary":
            return x
        graph, half = self._graph, self._config.key_width // 2
        sin = self._at_positions(self._weight("sines"))  # (len, d_k / 2)
        cos = self._at_positions(self._weight("cosines"))
        pairs = graph.node("Reshape", x, graph.constant([0, 0, 0, half, 2]))
        even, odd = (graph.node("Squeeze", part, graph.constant([4])) for part in graph.split(pairs, axis=4))
        first = graph.node("Sub", graph.node("Mul", even, cos), graph.node("Mul", odd, sin))
        second = graph.node("Add", graph.node("Mul", even, sin), graph.node("Mul", odd, cos))
        turned = [graph.node("Unsqueeze", part, graph.constant([4])) for part in (first, second)]
        joined = graph.node("Concat", *turned, axis=4)
        return graph.node("Reshape", joined, graph.constant([0, 0, 0, 2 * half]))

    def _add_norm(self, x: Value, place: str, sublayer: Callable[[Value], Value]) -> Value:
        """As `AddNorm.forward`."""
        if self._config.norm == "pre":
            return self._graph.node("Add", x, sublayer(self.norm(x, f"{place}.norm")))
        return self.norm(self._graph.node("Add", x, sublayer(x)), f"{place}.norm")

    def _feed_forward(self, place: str) -> Callable[[Value], Value]:
        """As `FeedForward.forward` and `GatedFeedForward.forward`."""
        graph, activation = self._graph, self._config.activation

        def feed_forward(y: Value) -> Value:
            inner = self.linear(y, f"{place}.feed_forward.w_1.weight")
            if activation == "swiglu":
                gate = self.linear(y, f"{place}.feed_forward.w_g.weight")
                inner = graph.node("Mul", self._swish(gate), inner)
            elif activation == "swish":
                inner = self._swish(inner)
            else:
                inner = graph.node({"relu": "Relu", "gelu": "Gelu"}[activation], inner)
            return self.linear(inner, f"{place}.feed_forward.w_2.weight")

        return feed_forward

    def _swish(self, x: Value) -> Value:
        return self._graph.node("Mul", x, self._graph.node("Sigmoid", x))

    def _weight(self, name: str) -> Value:
        return self._graph.weight(name, self._weights[name])


def _inputs(graph: Graph, config: TransformerConfig, prefix: str, length: str) -> list[_KeysValues]:
    """Keys and values of every decoder layer, from outside."""
    found = []
    for n in range(config.num_decoder_layers):
        pair = []
        for name, width in zip(_KeysValues._fields, _widths(config), strict=True):
            axes: list[int | str] = ["rows", config.num_heads, length, width]
            pair.append(graph.input(f"{prefix}{name}.{n}", np.float32, axes))
        found.append(_KeysValues(*pair))
    return found


def _output_name(weights: Weights) -> str:
    """The output projection's matrix, or the embedding that it is tied to."""
    names = ("output.weight", "target_embedding.weight", "source_embedding.weight")
    return next(name for name in names if name in weights)


def _widths(config: TransformerConfig) -> tuple[int, int]:
    return config.key_width, config.value_width
