"""CTranslate2's names for our parts: data, not code.

Left: an attribute path in `ctranslate2.specs.TransformerSpec`. Right: the name in our weights. Paths
and names of layers are relative to a layer (`encoder.layer[3]`, `encoder.layers.3`). Several names on
the right are put below each other, in that order.
"""

from __future__ import annotations

from transduce.model.config import Activation

__all__ = [
    "ACTIVATIONS",
    "CROSS_ATTENTION",
    "DECODER_NORMS",
    "ENCODER_NORMS",
    "FEED_FORWARD",
    "GATED_FEED_FORWARD",
    "SELF_ATTENTION",
]

SELF_ATTENTION = {"linear.0": ("w_q", "w_k", "w_v"), "linear.1": ("w_o",)}
"""Queries, keys and values are one product where they read the same input."""

CROSS_ATTENTION = {"linear.0": ("w_q",), "linear.1": ("w_k", "w_v"), "linear.2": ("w_o",)}

FEED_FORWARD = {"linear_0": "w_1", "linear_1": "w_2"}

GATED_FEED_FORWARD = {"linear_0": "w_g", "linear_0_noact": "w_1", "linear_1": "w_2"}
"""`linear_0` is the one that is bent."""

ENCODER_NORMS = {
    "self_attention.layer_norm": "self_attention_add_norm.norm",
    "ffn.layer_norm": "feed_forward_add_norm.norm",
}

DECODER_NORMS = {**ENCODER_NORMS, "attention.layer_norm": "cross_attention_add_norm.norm"}

ACTIVATIONS: dict[Activation, str] = {"relu": "RELU", "gelu": "GELU", "swiglu": "SWISH"}
"""Members of `ctranslate2.specs.Activation`; its GELU is the exact one, as torch's."""
