"""The model: token ids to logits.

Knows: ids, tensors, its configuration. Does not know: text, files, loss, optimisers, beams, ranks.
Every block is a file; `transformer.py` puts them together as in the paper's figure 1.

The names below are imported when first used: reading a configuration does not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.model.attention import (
        AttentionRecord,
        KeysValues,
        MultiHeadAttention,
        explicit_attention,
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
    "causal_visible",
    "explicit_attention",
    "fused_attention",
    "padding_visible",
    "sinusoid_table",
    "target_visible",
]

_FILES = ("config", "attention", "cache", "masks", "position", "transformer")


def __getattr__(name: str) -> object:
    """Find a public name in the file that has it."""
    if name in __all__:
        for file in _FILES:
            found = getattr(import_module(f"transduce.model.{file}"), name, None)
            if found is not None and getattr(found, "__module__", None) == f"transduce.model.{file}":
                globals()[name] = found
                return found
    raise AttributeError(f"module 'transduce.model' has no attribute {name!r}")
