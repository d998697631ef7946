"""The model: token ids to logits.

Knows: ids, tensors, its configuration. Does not know: text, files, loss, optimisers, beams, ranks.
Every block is a file; `transformer.py` puts them together as in the paper's figure 1.
"""

from transduce.model.attention import (
    AttentionRecord,
    KeysValues,
    MultiHeadAttention,
    attention,
    fused_attention,
)
from transduce.model.cache import DecoderCache
from transduce.model.config import TransformerConfig
from transduce.model.masks import causal_visible, padding_visible, target_visible
from transduce.model.position import sinusoid_table
from transduce.model.transformer import Memory, Transformer

__all__ = [
    "AttentionRecord",
    "DecoderCache",
    "KeysValues",
    "Memory",
    "MultiHeadAttention",
    "Transformer",
    "TransformerConfig",
    "attention",
    "causal_visible",
    "fused_attention",
    "padding_visible",
    "sinusoid_table",
    "target_visible",
]
