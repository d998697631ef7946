"""The paper's model as a newcomer would write it: the yardstick for speed and for the loss curve.

Full logits and `F.cross_entropy`, `nn.Dropout`, attention written out, a dense causal mask. Nothing of
`transduce.model` or `transduce.train` runs here; only the parameters have the same names, so that
`load_state_dict` takes the tensors of a `transduce` model (post-norm, sinusoids, everything tied).
Axes: batch, length, d_model; heads, d_k.
"""

from __future__ import annotations

import math

import torch
from shapes import Shape
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["PlainTransformer", "plain_loss"]


class _Attention(nn.Module):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.w_q, self.w_k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.w_v, self.w_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, memory: Tensor, hidden: Tensor) -> Tensor:
        q, k, v = (
            y.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (batch, heads, length, d_k)
            for y in (self.w_q(x), self.w_k(memory), self.w_v(memory))
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        return self.w_o((weights @ v).transpose(1, 2).flatten(2))


class _FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.w_2(F.relu(self.w_1(x)))


class _AddNorm(nn.Module):
    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Tensor) -> Tensor:
        return self.norm(x + self.dropout(sublayer))


class _Layer(nn.Module):
    def __init__(self, shape: Shape, dropout: float, *, decoder: bool) -> None:
        super().__init__()
        self.self_attention = _Attention(shape.d_model, shape.num_heads)
        self.self_attention_add_norm = _AddNorm(shape.d_model, dropout)
        if decoder:
            self.cross_attention = _Attention(shape.d_model, shape.num_heads)
            self.cross_attention_add_norm = _AddNorm(shape.d_model, dropout)
        self.feed_forward = _FeedForward(shape.d_model, shape.d_ff)
        self.feed_forward_add_norm = _AddNorm(shape.d_model, dropout)

    def forward(
        self, x: Tensor, hidden: Tensor, memory: Tensor | None = None, memory_hidden: Tensor | None = None
    ) -> Tensor:
        x = self.self_attention_add_norm(x, self.self_attention(x, x, hidden))
        if memory is not None:
            x = self.cross_attention_add_norm(x, self.cross_attention(x, memory, memory_hidden))
        return self.feed_forward_add_norm(x, self.feed_forward(x))


class _Stack(nn.Module):
    def __init__(self, shape: Shape, dropout: float, *, decoder: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(shape, dropout, decoder=decoder) for _ in range(shape.num_layers))


class PlainTransformer(nn.Module):
    """Source and target ids in, logits of every target position out."""

    sinusoids: Tensor

    def __init__(self, shape: Shape, vocab_size: int, pad_id: int, dropout: float) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.source_embedding = nn.Embedding(vocab_size, shape.d_model, padding_idx=pad_id)
        self.encoder = _Stack(shape, dropout, decoder=False)
        self.decoder = _Stack(shape, dropout, decoder=True)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("sinusoids", _sinusoids(512, shape.d_model), persistent=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.source_embedding.weight, std=shape.d_model**-0.5)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding = (source == self.pad_id)[:, None, None, :]
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        memory = self._embed(source)
        for layer in self.encoder.layers:
            memory = layer(memory, padding)
        x = self._embed(target)
        for layer in self.decoder.layers:
            x = layer(x, future, memory, padding)
        return F.linear(x, self.source_embedding.weight)

    def _embed(self, ids: Tensor) -> Tensor:
        x = self.source_embedding(ids)
        return self.dropout(x * math.sqrt(x.shape[-1]) + self.sinusoids[: ids.shape[1]])


def plain_loss(logits: Tensor, labels: Tensor, pad_id: int, label_smoothing: float = 0.1) -> Tensor:
    """Mean over the labels that are no padding."""
    return F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=pad_id, label_smoothing=label_smoothing
    )


def _sinusoids(length: int, d_model: int) -> Tensor:
    """Paper, section 3.5."""
    angles = torch.arange(length).double()[:, None] / 10000 ** (
        torch.arange(0, d_model, 2).double() / d_model
    )
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).float()
