"""How every weight begins, in one table.

    embeddings             N(0, 1/√d_model): scaled by √d_model they have the size of the positions
    their padding row      0
    learned positions      N(0, 1/√d_model)
    projections (w_*)      Xavier uniform: U(-a, a), a = √(6 / (inputs + outputs)); in attention,
                           inputs and outputs are those of w_q, w_k, w_v stacked (gain 1/√2), as in
                           fairseq and nn.MultiheadAttention
    biases                 0
    LayerNorm              weight 1, bias 0

A tied output projection is the embedding and begins as it. (The paper gives no initialisation;
this is tensor2tensor's and fairseq's.)
"""

from __future__ import annotations

import math

import torch
from torch import nn

from transduce.model.attention import MultiHeadAttention
from transduce.model.embedding import Embedding, OutputProjection
from transduce.model.position import LearnedPosition

__all__ = ["initialise"]


@torch.no_grad()
def initialise(model: nn.Module) -> None:
    """Draw every parameter of `model` from the table above, with torch's global generator."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm):
            module.reset_parameters()
        elif isinstance(module, OutputProjection | LearnedPosition):
            nn.init.normal_(module.weight, std=1 / math.sqrt(module.weight.shape[1]))
    for module in model.modules():  # second, so that narrower rules win and ties end as embeddings
        if isinstance(module, MultiHeadAttention):
            for projection in (module.w_q, module.w_k, module.w_v):
                nn.init.xavier_uniform_(projection.weight, gain=1 / math.sqrt(2))
        elif isinstance(module, Embedding):
            nn.init.normal_(module.weight, std=1 / math.sqrt(module.weight.shape[1]))
            nn.init.zeros_(module.weight[module.pad_id])
