"""A graph in the making: ONNX nodes one after the other, each named by what it gives.

In:  arrays and names of values. Out: an `onnx.ModelProto`.
Does not know: Transformers. Written by hand and not traced, so that every value has a name that says
what it is, the exporter needs no tracer, and a graph is made in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["PROTOBUF_LIMIT", "Graph", "Value"]

Value: TypeAlias = str
"""The name of what a node gives, an input, or a weight."""

PROTOBUF_LIMIT = 1_900_000_000
"""Bytes of weights in one file: a protobuf message may have 2 GB, so larger ones lie beside it."""
_OPSET = 20  # the first with Gelu
_IR_VERSION = 10  # what ONNX Runtime reads from 1.18 on


class Graph:
    """Inputs, weights, nodes and outputs of one model."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[Any] = []
        self._weights: dict[str, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, dtype: type, shape: Sequence[int | str]) -> Value:
        """A value that comes from outside; an axis that is a word may have any length."""
        self._inputs.append(self._described(name, dtype, shape))
        return name

    def output(self, value: Value, name: str, dtype: type, shape: Sequence[int | str]) -> None:
        """Hand a value out under a name."""
        self.node("Identity", value, name=name)
        self._outputs.append(self._described(name, dtype, shape))

    def weight(self, name: str, array: NDArray[Any]) -> Value:
        """An array that belongs to the model; the same name is the same array."""
        from onnx import numpy_helper

        if name not in self._weights:
            self._weights[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def constant(self, value: float | Sequence[int]) -> Value:
        """A number (float32), or a list of integers such as a shape or axes."""
        kind = np.float32 if isinstance(value, float) else np.int64
        array = np.array(value, dtype=kind)
        return self.weight(f"constant {array.dtype} {array.tolist()}", array)

    def node(self, operator: str, *inputs: Value, name: str = "", **attributes: Any) -> Value:
        """Run an operator that gives one value."""
        from onnx import helper

        result = name or f"{operator} {len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [result], **attributes))
        return result

    def split(self, value: Value, axis: int) -> tuple[Value, Value]:
        """Two halves of an axis."""
        from onnx import helper

        halves = (f"first half {len(self._nodes)}", f"second half {len(self._nodes)}")
        self._nodes.append(helper.make_node("Split", [value], list(halves), axis=axis, num_outputs=2))
        return halves

    def model(self, metadata: Mapping[str, str]) -> ModelProto:
        """The whole, checked by onnx itself where it is not too large."""
        from onnx import checker, helper

        graph = helper.make_graph(
            self._nodes, self._name, self._inputs, self._outputs, list(self._weights.values())
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION,
            producer_name="transduce",
        )  # fmt: skip
        helper.set_model_props(model, dict(metadata))
        if sum(len(tensor.raw_data) for tensor in self._weights.values()) <= PROTOBUF_LIMIT:
            checker.check_model(model)  # which cannot take more
        return model

    def _described(self, name: str, dtype: type, shape: Sequence[int | str]) -> Any:
        from onnx import helper

        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
