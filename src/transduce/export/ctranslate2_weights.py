"""Our weights as a CTranslate2 specification, by numpy alone.

In:  a `TransformerConfig` and the weights as arrays. Out: a `ctranslate2.specs.TransformerSpec`.
Does not know: files, tokenizers, search.

What differs from our own form, and how it is carried over:

    d_k ≠ d_v        the narrower gets columns of zeros: nothing is added to a product
    positions        written out as a table, as the built-in one begins at position 1 (TRAPS 3)
    rotary           CTranslate2's own: distances alone matter, so an offset changes nothing
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.errors import ModelError
from transduce.export.ctranslate2_names import (
    ACTIVATIONS,
    CROSS_ATTENTION,
    DECODER_NORMS,
    ENCODER_NORMS,
    FEED_FORWARD,
    GATED_FEED_FORWARD,
    SELF_ATTENTION,
)
from transduce.model.config import TransformerConfig

__all__ = ["Array", "as_specification", "position_table"]

Array = NDArray[np.float32]
_BASE = 10000.0  # of the paper's wavelengths; tests hold it equal to model/position.py


def as_specification(config: TransformerConfig, tensors: Mapping[str, Array], num_positions: int) -> Any:
    """Put the weights into a `TransformerSpec`, which still lacks its vocabularies.

    Args:
        config: the model's.
        tensors: its weights by our names, a tied matrix once.
        num_positions: rows of a sinusoidal table (learned positions keep their own).

    Raises:
        ModelError: CTranslate2 cannot carry a setting, or a weight is missing.
    """
    from ctranslate2 import specs

    _refuse_what_cannot_be_carried(config)
    encoder = specs.TransformerEncoderSpec(
        config.num_encoder_layers, config.num_heads, **_stack_settings(config, specs)
    )
    decoder = specs.TransformerDecoderSpec(
        config.num_decoder_layers,
        config.num_heads,
        # What `Engine.align` looks at: all heads of the layer before the last.
        alignment_layer=max(0, config.num_decoder_layers - 2),
        alignment_heads=config.num_heads,
        **_stack_settings(config, specs),
    )
    spec = specs.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = config.layer_norm_eps
    spec.config.add_source_eos = True
    try:
        _set_ends(spec, config, tensors, num_positions)
        _set_stack(encoder, config, ENCODER_NORMS, _below(tensors, "encoder."))
        _set_stack(decoder, config, DECODER_NORMS, _below(tensors, "decoder."))
    except KeyError as error:
        raise ModelError(
            f"the weights do not belong to this configuration: {error.args[0]} is missing; "
            "copy the model again"
        ) from error
    return spec


def position_table(config: TransformerConfig, num_positions: int) -> Array:
    """The rows that a sinusoidal model adds at positions 0, 1, …: section 3.5 and its variants (TRAPS 3)."""
    num_sines, num_cosines = (config.d_model + 1) // 2, config.d_model // 2
    index = np.arange(num_sines, dtype=np.float64)
    exponent = 2 * index / config.d_model
    if config.sinusoid == "tensor2tensor":
        exponent = index / max(num_cosines - 1, 1)
    positions = np.arange(config.position_offset, config.position_offset + num_positions, dtype=np.float64)
    angles = positions[:, None] * np.exp(-np.log(_BASE) * exponent)  # (num_positions, num_sines)
    table = np.empty((num_positions, config.d_model))
    sines, cosines = slice(None, num_sines), slice(num_sines, None)
    if config.sinusoid == "interleaved":
        sines, cosines = slice(0, None, 2), slice(1, None, 2)
    table[:, sines], table[:, cosines] = np.sin(angles), np.cos(angles[:, :num_cosines])
    return table.astype(np.float32)


def _refuse_what_cannot_be_carried(config: TransformerConfig) -> None:
    for name in ("num_encoder_layers", "num_decoder_layers"):
        if not getattr(config, name):
            raise ModelError(
                f"CTranslate2 cannot carry model.{name} = 0, only stacks of 1 layer or more: "
                "translate with --engine torch"
            )


def _stack_settings(config: TransformerConfig, specs: Any) -> dict[str, Any]:
    """What the encoder's and the decoder's specification have in common."""
    settings: dict[str, Any] = {
        "pre_norm": config.norm == "pre",
        "activation": specs.Activation[ACTIVATIONS[config.activation]],
        "ffn_glu": config.activation == "swiglu",
    }
    if _head_width(config) * config.num_heads != config.d_model:
        settings["head_dim"] = _head_width(config)
    if config.position == "rotary":
        settings |= {"rotary_dim": config.key_width, "rotary_interleave": True, "rotary_base": _BASE}
    return settings


def _head_width(config: TransformerConfig) -> int:
    """Columns of a head there, where keys and values are equally wide."""
    return max(config.key_width, config.value_width)


def _set_ends(spec: Any, config: TransformerConfig, tensors: Mapping[str, Array], num_positions: int) -> None:
    """Embeddings and positions below the stacks, the output projection on top."""
    source = tensors["source_embedding.weight"]
    target = source if config.tie == "all" else tensors["target_embedding.weight"]
    spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight = source, target
    spec.decoder.projection.weight = tensors["output.weight"] if config.tie == "none" else target
    if config.output_bias:
        spec.decoder.projection.bias = tensors["output.bias"]
    if config.position == "learned":
        for stack, side in ((spec.encoder, "source"), (spec.decoder, "target")):
            stack.position_encodings.encodings = tensors[f"{side}_position.weight"][config.position_offset :]
    elif config.position == "sinusoidal":
        table = position_table(config, num_positions)
        spec.encoder.position_encodings.encodings = table
        spec.decoder.position_encodings.encodings = table


def _set_stack(
    stack: Any, config: TransformerConfig, norms: Mapping[str, str], tensors: Mapping[str, Array]
) -> None:
    """All layers, and the norm on top of a pre-norm stack."""
    for index, layer in enumerate(stack.layer):
        own = _below(tensors, f"layers.{index}.")
        for path, name in norms.items():
            _set_norm(_at(layer, path), _below(own, f"{name}."))
        _set_attention(layer.self_attention, config, SELF_ATTENTION, _below(own, "self_attention."))
        if "attention.layer_norm" in norms:
            _set_attention(layer.attention, config, CROSS_ATTENTION, _below(own, "cross_attention."))
        names = GATED_FEED_FORWARD if config.activation == "swiglu" else FEED_FORWARD
        for path, name in names.items():
            linear = _at(layer.ffn, path)
            linear.weight = own[f"feed_forward.{name}.weight"]
            linear.bias = own[f"feed_forward.{name}.bias"]
    if config.norm == "pre":
        _set_norm(stack.layer_norm, _below(tensors, "norm."))


def _set_norm(spec: Any, tensors: Mapping[str, Array]) -> None:
    spec.gamma, spec.beta = tensors["weight"], tensors["bias"]


def _set_attention(
    spec: Any, config: TransformerConfig, names: Mapping[str, Sequence[str]], tensors: Mapping[str, Array]
) -> None:
    """One attention's projections, each head widened to what CTranslate2 expects."""
    width = _head_width(config)
    own = {"w_q": config.key_width, "w_k": config.key_width, "w_v": config.value_width}
    for path, parts in names.items():
        linear = _at(spec, path)
        if parts == ("w_o",):
            weight = _widened(tensors["w_o.weight"].T, config.num_heads, config.value_width, width).T
            linear.weight = np.ascontiguousarray(weight)
            if config.bias:
                linear.bias = tensors["w_o.bias"]
            continue
        for attribute in ("weight", "bias") if config.bias else ("weight",):
            rows = [
                _widened(tensors[f"{part}.{attribute}"], config.num_heads, own[part], width) for part in parts
            ]
            setattr(linear, attribute, np.concatenate(rows))
    if width != config.key_width:
        spec.queries_scale = np.float32(config.key_width**-0.5)


def _widened(rows: Array, num_heads: int, own: int, width: int) -> Array:
    """Rows of all heads, `own` a head, with rows of zeros after each head's: `width` a head."""
    if own == width:
        return rows
    heads = rows.reshape(num_heads, own, *rows.shape[1:])
    wide = np.zeros((num_heads, width, *rows.shape[1:]), rows.dtype)
    wide[:, :own] = heads
    return wide.reshape(num_heads * width, *rows.shape[1:])


def _at(spec: Any, path: str) -> Any:
    """Follow a path such as `self_attention.linear.0`."""
    for step in path.split("."):
        spec = spec[int(step)] if step.isdigit() else getattr(spec, step)
    return spec


def _below(tensors: Mapping[str, Array], prefix: str) -> Mapping[str, Array]:
    return _Below(tensors, prefix)


class _Below(Mapping[str, Array]):
    """The weights whose names begin with a prefix, without it; an error names the whole."""

    def __init__(self, tensors: Mapping[str, Array], prefix: str) -> None:
        self._tensors, self._prefix = tensors, prefix

    def __getitem__(self, name: str) -> Array:
        return self._tensors[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (n.removeprefix(self._prefix) for n in self._tensors if n.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)
