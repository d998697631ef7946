"""Who may look at whom: the one mask convention of the house (paper, section 3.2.3).

A mask is boolean and called `visible`: **True = may be attended to**, as in
`scaled_dot_product_attention`. Hidden cells get weight exactly 0; a query that sees nothing gets zeros.
Axes: batch, heads (always 1 here: masks are shared by all heads), tgt_len (queries), src_len (keys).
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

__all__ = ["causal_visible", "padding_visible", "target_visible"]


def padding_visible(ids: Int[Tensor, "batch src_len"], pad_id: int) -> Bool[Tensor, "batch 1 1 src_len"]:
    """Every query may see the keys that are real tokens."""
    return (ids != pad_id)[:, None, None, :]


def causal_visible(
    tgt_len: int, past_len: int = 0, *, device: torch.device | None = None
) -> Bool[Tensor, "1 1 tgt_len src_len"]:
    """Query i, at position past_len + i, may see keys 0 … past_len + i: itself and what came before.

    Args:
        tgt_len: number of queries.
        past_len: keys that came before the first query (those in the cache).
        device: where the mask is made.
    """
    ones = torch.ones(tgt_len, past_len + tgt_len, dtype=torch.bool, device=device)
    return ones.tril(past_len)[None, None]


def target_visible(ids: Int[Tensor, "batch tgt_len"], pad_id: int) -> Bool[Tensor, "batch 1 tgt_len tgt_len"]:
    """Causal, and padding hidden as well.

    With padding on the right the causal mask alone already hides it from every real token; this
    one is for rows that are padded elsewhere, and for looking at.
    """
    return causal_visible(ids.shape[1], device=ids.device) & padding_visible(ids, pad_id)
