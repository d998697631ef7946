"""What Hugging Face's encoder-decoder classes call our tensors, and which axes are d_model: data.

Marian and Pegasus use the same names; Pegasus has a LayerNorm on top of each stack.
"""

from __future__ import annotations

__all__ = [
    "ACTIVATIONS",
    "COLUMNS",
    "EMBEDDINGS",
    "FINAL_BIAS",
    "LAYER_PARTS",
    "POSITIONS",
    "SHARED",
    "SILU",
    "STACK_NORM",
]

LAYER_PARTS = {
    "self_attention.w_q": "self_attn.q_proj",
    "self_attention.w_k": "self_attn.k_proj",
    "self_attention.w_v": "self_attn.v_proj",
    "self_attention.w_o": "self_attn.out_proj",
    "self_attention_add_norm.norm": "self_attn_layer_norm",
    "cross_attention.w_q": "encoder_attn.q_proj",
    "cross_attention.w_k": "encoder_attn.k_proj",
    "cross_attention.w_v": "encoder_attn.v_proj",
    "cross_attention.w_o": "encoder_attn.out_proj",
    "cross_attention_add_norm.norm": "encoder_attn_layer_norm",
    "feed_forward.w_1": "fc1",
    "feed_forward.w_2": "fc2",
    "feed_forward_add_norm.norm": "final_layer_norm",
}
"""`encoder.layers.N.{ours}` is `model.encoder.layers.N.{theirs}`; the decoder's likewise."""

STACK_NORM = ("norm", "layer_norm")
"""On top of a pre-norm stack: `encoder.{ours}` is `model.encoder.{theirs}`."""

EMBEDDINGS = {
    "source_embedding.weight": "model.encoder.embed_tokens.weight",
    "target_embedding.weight": "model.decoder.embed_tokens.weight",
    "output.weight": "lm_head.weight",
}
"""When nothing is shared. A file may hold a shared matrix under these names as well."""

SHARED = "model.shared.weight"
"""All three, when they are one."""

POSITIONS = {
    "source_position.weight": "model.encoder.embed_positions.weight",
    "target_position.weight": "model.decoder.embed_positions.weight",
}
FINAL_BIAS = "final_logits_bias"
"""`output.bias`, with an axis of 1 in front."""

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish"}
"""Ours and theirs."""

SILU = "silu"
"""Their other name for swish."""

COLUMNS = {
    "columns": ("embedding.weight", "output.weight", "w_q.weight", "w_k.weight", "w_v.weight", "w_1.weight"),
    "rows": ("w_o.weight", "w_o.bias", "w_2.weight", "w_2.bias", "norm.weight", "norm.bias"),
}
"""Endings of our names, by the axis that is d_model: the second (`columns`) or the first (`rows`)."""
